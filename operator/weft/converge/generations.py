"""Generations of a split: replicas of both halves that may hand each other KV, and the front before each pair.

A front pairs any replicas that its selectors match, so each generation has its own front, and one half never reaches an
earlier or later generation of the other. While two generations serve, their numbers of routers are in proportion to the
replicas behind them, as the Service spreads requests evenly over routers. A generation that is replaced leaves in this
order: its front goes and finishes its streams, with everything behind it still there; then its last replicas go.

An endpoint picker of a Gateway pairs freely too, and one picker serves all generations: it is shown one at a time. The
next one is shown once it is whole, and only then the one before leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from weft.domain.crews import routers_before
from weft.domain.overdue import is_overdue, overdue_in_seconds
from weft.domain.spec import RolloutStrategy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from weft.converge.replicas import Replica
    from weft.domain.cluster import PodRecord
    from weft.domain.snapshot import PoolRecord

# Most routers of the larger generation where fewer cannot express the shares: four express steps of a quarter.
ROUTERS_WHILE_TWO = 4
NEARLY = 0.25  # of a router


@dataclass(frozen=True, slots=True)
class Generation:
    """How many replicas of one pair there are, for each half (prefill, decode).

    `answering` counts all that answer, `assigned` all that have an assignment, and `staying` those of which both is so.
    For an engine of one pool (`converge/engine_fronts.py`) each has one entry.
    """

    pair: str
    staying: tuple[int, ...]
    answering: tuple[int, ...]
    assigned: tuple[int, ...]

    @property
    def is_pair(self) -> bool:
        """Whether both halves answer: a request that finds only one of them fails or waits in vain."""
        return min(self.answering) > 0


def generations_of(current: str, halves: Sequence[Sequence[Replica]]) -> tuple[Generation, ...]:
    """Generations that have replicas, with the current one always first; `halves` are (prefill, decode)."""
    others = {pair_of_replica(replica) for half in halves for replica in half if replica.pods} - {current}
    return tuple(
        counted(pair, [[each for each in half if pair_of_replica(each) == pair] for half in halves])
        for pair in (current, *sorted(others))
    )


def fronts_wanted(known: Sequence[Generation], usual: int, *, taken_over: bool) -> dict[str, int]:
    """How many routers each generation shall have, by pair; those that are left out have none.

    An earlier generation keeps its front while its replicas are to stay, or until requests are `taken_over`, that is,
    until a generation that stays serves. While none of its replicas answers, too: to start the front anew would take
    longer than that. Beside two generations that serve it does not, nor does the current one get its front before it is
    a pair: a Service cannot choose two of three, and one of the two would not be reached for as long as engines start.
    """
    current, *others = known
    kept = [each for each in others if min(each.assigned) > 0 or (each.is_pair and not taken_over)]
    pairs = [each for each in (current, *kept) if each.is_pair]
    if len(pairs) < 2:  # noqa: PLR2004 - one beside another
        return {each.pair: usual for each in (current, *kept)}
    totals = [sum(each.answering[side] for each in pairs) for side in range(len(current.answering))]
    shares = {each.pair: min(n / total for n, total in zip(each.answering, totals, strict=True)) for each in pairs}
    return _in_proportion(shares, usual)


def shown_to_a_picker(known: Sequence[Generation], desired: Sequence[int], shown: str) -> Generation:
    """The one generation that an endpoint picker chooses from; `shown` is the pair that it was told last.

    That is the current one once each half has as many replicas that stay as are desired, or as the generation before
    has; or if no other is a pair. Once shown, it stays shown while each half has a replica that stays. Deciding lets
    replicas of the one before go when it sees the current one shown.
    """
    current, *others = known
    pairs = [each for each in others if each.is_pair]
    before = next((each for each in pairs if each.pair == shown), None)
    before = before or max(pairs, key=lambda each: min(each.answering), default=None)
    if before is None or (shown == current.pair and min(current.staying) > 0):
        return current
    needed = [max(1, min(most, was)) for most, was in zip(desired, before.answering, strict=True)]
    whole = all(has >= need for has, need in zip(current.staying, needed, strict=True))
    return current if whole else before


def _in_proportion(shares: dict[str, float], usual: int) -> dict[str, int]:
    """Routers in proportion to `shares`, no more than it takes to express them: a router that goes drains for long."""
    largest, most = max(shares.values()), usual
    while True:
        exact = {pair: most * share / largest for pair, share in shares.items()}
        found = {pair: max(1, round(routers)) for pair, routers in exact.items()}
        off = max(abs(found[pair] - routers) for pair, routers in exact.items())
        if off <= NEARLY or most >= ROUTERS_WHILE_TWO:
            return found
        most += 1


def kept_for_their_front(
    pool: PoolRecord, replicas: Sequence[Replica], pods: Iterable[PodRecord], now: float
) -> tuple[Replica, ...]:
    """The last replica of each pair that is to leave, while routers of that pair may still choose it.

    It is kept only once somebody who stays in this half has its place, of whichever pair: a successor that needs GPUs
    may need these. Nothing is kept where all shall go first (`Recreate`), nor for a router on a dead node, whose pod
    stays long after its streams have ended.
    """
    if pool.spec is None or not pool.spec.pair or pool.spec.rollout.strategy is RolloutStrategy.Recreate:
        return ()
    if not any(replica.has_its_place for replica in replicas):
        return ()
    return last_of_each(replicas, {pod.pair for pod in routers_of(pool, pods, now)}, pair_of_replica)


def last_of_each(
    replicas: Sequence[Replica], outlived: Collection[str], key: Callable[[Replica], str]
) -> tuple[Replica, ...]:
    """The last answering replica, in this order, of each `outlived` generation where all that answer are to leave.

    `key` gives the generation of a replica.
    """
    last: dict[str, Replica] = {}
    for replica in replicas:
        if answers(replica):
            before = last.get(key(replica))
            if before is None or before.assignment is None:  # one that stays is enough
                last[key(replica)] = replica
    return tuple(each for name, each in last.items() if name in outlived and each.assignment is None)


def router_overdue_in_seconds(pool: PoolRecord, pods: Iterable[PodRecord], now: float) -> float:
    """Seconds until the first terminating router is overdue, so that nothing is kept for it any more.

    Infinite where none terminates.
    """
    return min((overdue_in_seconds(pod, now) for pod in routers_of(pool, pods, now)), default=inf)


def routers_of(pool: PoolRecord, pods: Iterable[PodRecord], now: float) -> Iterator[PodRecord]:
    """Routers that may still choose replicas of a pool."""
    for pod in routers_before(pool, pods):
        if not pod.ended and not is_overdue(pod, now):
            yield pod


def pair_of_replica(replica: Replica) -> str:
    """The pair that a replica was rendered for."""
    return replica.pods[0].pair if replica.pods else ""


def answers(replica: Replica) -> bool:
    """Whether fronts may choose the replica: one of its pods serves and carries the label for routing."""
    return any(pod.routed and pod.serves for pod in replica.pods)


def counted(pair: str, halves: Sequence[Sequence[Replica]]) -> Generation:
    """The generation of a pair, by its replicas in each half."""
    answering = [[each for each in half if answers(each)] for half in halves]
    staying, assigned = (tuple(map(_assigned, each)) for each in (answering, halves))
    return Generation(pair, staying, tuple(map(len, answering)), assigned)


def _assigned(replicas: Iterable[Replica]) -> int:
    return sum(each.assignment is not None for each in replicas)
