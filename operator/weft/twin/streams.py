"""Several streams of requests on one cluster: each has its own front, and pools that serve it and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.twin.serving import Serving

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.snapshot import ResourceKey
    from weft.twin.front import FrontOptions
    from weft.twin.scrapes import ScrapeOptions
    from weft.twin.serving import Stream


class Streams:
    """What serves each of them, in their order."""

    def __init__(self, streams: Iterable[Stream], front: FrontOptions, scrapes: ScrapeOptions, seed: int) -> None:
        """Raises `ValueError` where two ask one pool."""
        self.of = tuple(streams)
        self.servings = tuple(Serving(each.trace, each.route, front, scrapes, seed) for each in self.of)
        self._places: dict[tuple[str, str], int] = {}
        for place, each in enumerate(self.of):
            for name in each.route.pools:
                if self._places.setdefault((each.route.namespace, name), place) != place:
                    raise ValueError(f"{name} is asked by two streams")

    def serving(self, key: ResourceKey) -> Serving | None:
        """What a pool answers in; None where nobody asks it."""
        place = self._places.get((key.namespace, key.name))
        return None if place is None else self.servings[place]

    def place(self, namespace: str, pool: str) -> int:
        """The number of the stream that a pool serves; those that nobody asks go with the first one."""
        return self._places.get((namespace, pool), 0)

    @property
    def ended_at(self) -> float | None:
        """When the last request of all was answered or failed; None while one has not."""
        ends = [serving.ended_at for serving in self.servings]
        return None if None in ends else max(end for end in ends if end is not None)

    def advance(self, now: float) -> None:
        """Let all traffic arrive and all engines work."""
        for serving in self.servings:
            serving.advance(now)
