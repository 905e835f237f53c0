"""How near NVLink domains are to each other, by the network tiers that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.fabric import NvlinkDomain, Tiers


def path_of(domain: NvlinkDomain) -> Tiers:
    """The network tiers of a domain and, for a rack, its own name: pods exchange nothing over one board's NVLink."""
    return (*domain.tiers, domain.name if len(domain.nodes) > 1 else "")


def areas_around(path: Tiers) -> tuple[Tiers, ...]:
    """All areas that contain a path, from its zone down: the deeper the area that two paths share, the nearer they are.

    An area is named by its whole prefix, as names of leaves repeat from spine to spine. An empty name is unknown, and
    makes no area.
    """
    return tuple(path[: depth + 1] for depth, name in enumerate(path) if name)
