"""How near NVLink domains are to each other: by the tiers of the network that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.fabric import NvlinkDomain, Tiers


def path_of(domain: NvlinkDomain) -> Tiers:
    """The tiers with the domain below them; a board is none, as its pods exchange nothing over its NVLink."""
    return (*domain.tiers, domain.name if len(domain.nodes) > 1 else "")


def areas_around(path: Tiers) -> tuple[Tiers, ...]:
    """What a path is in, from its zone down: the deeper the area that two paths share, the nearer they are.

    An area goes by all that is above it, as names of leaves repeat from spine to spine. An empty value is unknown, and
    names none.
    """
    return tuple(path[: depth + 1] for depth, name in enumerate(path) if name)
