"""The best domain of every zone, in order, so that spreading over zones examines only zones that have siblings."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Tightness of a domain (less is tighter), its rank by name and its position in the fabric: the smallest is best.
Best = tuple[tuple[int, int], int, int]


class BestOfZones:
    """Zones with room, ordered by the tightest domain of each."""

    __slots__ = ("_by_zone", "_order")

    def __init__(self, best: Mapping[str, Best]) -> None:
        """Start from the best domain of each zone that has room."""
        self._by_zone = dict(best)
        self._order = sorted((each, zone) for zone, each in best.items())

    def set(self, zone: str, best: Best | None) -> None:
        """Set the best domain of a zone; None where none has room."""
        before = self._by_zone.pop(zone, None)
        if before is not None:
            del self._order[bisect_left(self._order, (before, zone))]
        if best is not None:
            self._by_zone[zone] = best
            insort(self._order, (best, zone))

    def with_fewest(self, siblings: Mapping[str, int]) -> int:
        """Position of the best domain of those in the zones with the fewest pods of siblings; some zone has room.

        It takes at most one step for each zone with siblings, however many zones there are.
        """
        alone = next((best for best, zone in self._order if not siblings.get(zone)), None)
        return alone[-1] if alone is not None else min([(siblings[zone], best) for best, zone in self._order])[1][-1]
