"""The best domain of every zone, in order: who spreads over zones looks at those that have siblings, not at all."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# How tight a domain is (less is tighter), its rank by name and its position in the fabric: the less, the better.
Best = tuple[tuple[int, int], int, int]


class BestOfZones:
    """Zones with room, ordered by the tightest domain of each."""

    __slots__ = ("_by_zone", "_order")

    def __init__(self, best: Mapping[str, Best]) -> None:
        """From the best domain of each zone that has room."""
        self._by_zone = dict(best)
        self._order = sorted((each, zone) for zone, each in best.items())

    def set(self, zone: str, best: Best | None) -> None:
        """Note what is the best domain of a zone now; None where none has room."""
        before = self._by_zone.pop(zone, None)
        if before is not None:
            del self._order[bisect_left(self._order, (before, zone))]
        if best is not None:
            self._by_zone[zone] = best
            insort(self._order, (best, zone))

    def with_fewest(self, siblings: Mapping[str, int]) -> int:
        """Position of the best domain of those in the zones with the fewest pods of siblings; some zone has room.

        Takes a step for each zone with siblings at most, however many zones there are.
        """
        alone = next((best for best, zone in self._order if not siblings.get(zone)), None)
        return alone[-1] if alone is not None else min([(siblings[zone], best) for best, zone in self._order])[1][-1]
