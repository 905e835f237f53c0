"""When pods were bound, ready and asked to leave, and what that makes of their gangs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WEDGED_SECONDS = 60.0


@dataclass(slots=True)
class Sighting:
    """One pod of a gang; times are epoch seconds. It holds its node from `bound` until it is `leaving`."""

    gang: str
    size: int
    bound: float | None = None
    ready: float | None = None
    leaving: float | None = None
    is_ready: bool = False

    def holds(self, at: float) -> bool:
        """Whether it has its node at that time."""
        return self.bound is not None and self.bound <= at and (self.leaving is None or at < self.leaving)


@dataclass(frozen=True, slots=True)
class Gang:
    """One gang with all pods that it ever had."""

    name: str
    size: int
    pods: tuple[Sighting, ...]

    def whole(self, at: float) -> bool:
        """Whether every pod has its node."""
        return self._bound(at) >= self.size

    def partial(self, at: float) -> bool:
        """Whether some pods have their nodes and the rest has not."""
        return 0 < self._bound(at) < self.size

    def ready(self, at: float) -> bool:
        """Whether every pod serves."""
        return sum(pod.is_ready for pod in self.pods if pod.holds(at)) >= self.size

    def longest_partial_seconds(self, until: float) -> float:
        """The longest time without a break in which some pods had their nodes and the rest had not."""
        changes = {time for pod in self.pods for time in (pod.bound, pod.leaving) if time is not None and time < until}
        longest, since = 0.0, None
        for time in (*sorted(changes), until):
            if since is not None:
                longest = max(longest, time - since)
            if not self.partial(time):
                since = None
            elif since is None:
                since = time
        return longest

    def wedged(self, until: float) -> bool:
        """Whether it held nodes in vain for over a minute."""
        return self.longest_partial_seconds(until) > WEDGED_SECONDS

    def _bound(self, at: float) -> int:
        return sum(pod.holds(at) for pod in self.pods)


def gangs_of(pods: Iterable[Sighting]) -> tuple[Gang, ...]:
    """Pods by gang."""
    found: dict[str, list[Sighting]] = {}
    for pod in pods:
        found.setdefault(pod.gang, []).append(pod)
    return tuple(Gang(name, members[0].size, tuple(members)) for name, members in found.items())


def placed(gangs: Sequence[Gang], wanted: dict[int, int], at: float) -> int:
    """Whole gangs at that time, of each size as many as are wanted at most."""
    whole = [gang.size for gang in gangs if gang.whole(at)]
    return sum(min(count, whole.count(size)) for size, count in wanted.items())


def placed_trays(gangs: Sequence[Gang], wanted: dict[int, int], at: float) -> int:
    """Trays of those gangs."""
    whole = [gang.size for gang in gangs if gang.whole(at)]
    return sum(size * min(count, whole.count(size)) for size, count in wanted.items())


def serving(gangs: Sequence[Gang], wanted: dict[int, int], at: float) -> int:
    """Gangs of which every pod is ready, of each size as many as are wanted at most."""
    ready = [gang.size for gang in gangs if gang.ready(at)]
    return sum(min(count, ready.count(size)) for size, count in wanted.items())
