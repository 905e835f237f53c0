"""Several streams of requests on one cluster: each has its own front, and its own pools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.twin.serving.stream import Serving

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.snapshot import ResourceKey
    from weft.twin.serving.front import FrontOptions
    from weft.twin.serving.scrapes import ScrapeOptions
    from weft.twin.serving.stream import Stream


class Streams:
    """What serves each stream, in their order."""

    def __init__(self, streams: Iterable[Stream], front: FrontOptions, scrapes: ScrapeOptions, seed: int) -> None:
        """Raise `ValueError` where two streams share a pool."""
        self.of = tuple(streams)
        self.servings = tuple(Serving(each.trace, each.route, front, scrapes, seed) for each in self.of)
        self._places: dict[tuple[str, str], int] = {}
        for place, each in enumerate(self.of):
            for name in each.route.pools:
                if self._places.setdefault((each.route.namespace, name), place) != place:
                    raise ValueError(f"{name} is asked by two streams")

    def serving(self, key: ResourceKey) -> Serving | None:
        """Return what serves the stream of a pool; None for a pool without a stream."""
        place = self._places.get((key.namespace, key.name))
        return None if place is None else self.servings[place]

    def place(self, namespace: str, pool: str) -> int:
        """Return the index of a pool's stream; a pool without one counts with the first."""
        return self._places.get((namespace, pool), 0)

    @property
    def ended_at(self) -> float | None:
        """When the last request of all streams was answered or failed; None while any is open."""
        ends = [serving.ended_at for serving in self.servings]
        return None if None in ends else max(end for end in ends if end is not None)

    def advance(self, now: float) -> None:
        """Run all traffic and engines up to a time."""
        for serving in self.servings:
            serving.advance(now)

    @property
    def rest_until(self) -> float:
        """When the next request of any stream arrives; in the past, as long as any is open."""
        return min(serving.rests_until for serving in self.servings)

    def rest(self, until: float) -> None:
        """Go on to a time before which nothing but scrapes happens."""
        for serving in self.servings:
            serving.rest(until)
