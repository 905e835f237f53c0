"""How near an NVLink domain is to others, in tiers of the network that lie between them."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from weft.domain.fabric import distance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.domain.fabric import NvlinkDomain, Tiers


def path_of(domain: NvlinkDomain) -> Tiers:
    """The tiers with the domain below them; a board is none, as its pods exchange nothing over its NVLink."""
    return (*domain.tiers, domain.name if len(domain.nodes) > 1 else "")


def tiers_away(path: Tiers, homes: Sequence[Tiers]) -> int:
    """Tiers to the nearest of some sorted paths, which is beside it in their order; 0 where there are none."""
    at = bisect_left(homes, path)
    return min((distance(path, home) for home in homes[max(0, at - 1) : at + 1]), default=0)
