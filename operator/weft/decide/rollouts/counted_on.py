"""Which replicas their pair counts on while a split rolls: both halves let go of the same generations.

A generation serves as much as its scarcer half. After an edit in mid-roll there are more than two, and halves that each
chose by itself would leave replicas of one of them without a counterpart. So what may be missing is taken from one
generation after the other, earlier ones first and of these the smallest, and each half keeps what the rest needs of it.
In a roll from one generation to the next, this holds nobody whom the limits of a half would let go (ADR 0125).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from weft.decide.counting.worth import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weft.placement import Departure


@dataclass(frozen=True, slots=True)
class ServingHalf:
    """Replicas of one half that serve, by the pair that they were rendered for.

    Of `desired` replicas so many may be `unavailable`.
    """

    desired: int
    unavailable: int
    by_pair: Mapping[str, Sequence[Departure]]

    @property
    def least(self) -> float:
        """The part (0 to 1) of what is desired that has to serve."""
        return 1.0 - self.unavailable / self.desired if self.desired > 0 else 0.0

    def part(self, pair: str) -> float:
        """The part of what is desired that replicas of a pair are; above 1 if there are more."""
        return sum(each.share for each in self.by_pair.get(pair, ())) / max(1, self.desired)

    def needed_for(self, part: float, pair: str) -> Iterator[Departure]:
        """The replicas of a pair that make up such a part; those that may stay come first, then the oldest."""
        last = sorted(self.by_pair.get(pair, ()), key=_leaves_before_others)
        before = accumulate((each.share for each in last), initial=0.0)
        wanted = part * self.desired - ROUNDING
        return (each for each, worth in zip(last, before, strict=False) if worth < wanted)


def counted_on(halves: Sequence[ServingHalf], planned: str) -> list[frozenset[int]]:
    """Ids of replicas, for each half, without which less would serve than may; `planned` is the pair that comes.

    Whoever else leaves, in any order, the least that has to serve does, or as much as does now.
    """
    serves = {pair: min(half.part(pair) for half in halves) for half in halves for pair in half.by_pair}
    spare = max(0.0, sum(serves.values()) - min(half.least for half in halves))
    found: list[set[int]] = [set() for _ in halves]
    for pair in sorted(serves, key=lambda each: (each == planned, serves[each], each)):
        goes = min(serves[pair], spare)
        spare -= goes
        for half, ids in zip(halves, found, strict=True):
            ids.update(each.assignment.replica for each in half.needed_for(serves[pair] - goes, pair))
    return list(map(frozenset, found))


def _leaves_before_others(each: Departure) -> tuple[bool, bool, int]:
    return each.displaced is not None, each.outdated, each.assignment.replica
