"""In which order decisions become statuses, so that no two of them ever promise the same GPUs.

A process may die between two writes, and any write may be refused because its pool was edited. So whoever takes over
what another pool gives up is written after it, or not at all in this pass: the next one decides the same again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.domain.decision import PoolDecision, SplitDecision
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import Assignment


@dataclass(frozen=True, slots=True)
class Persisted:
    """A decision to write once those of the pools `after`, by UID, are written."""

    decision: PoolDecision | SplitDecision
    after: frozenset[str] = frozenset()


def in_safe_order(decisions: Sequence[PoolDecision], pools: Sequence[PoolRecord]) -> tuple[Persisted, ...]:
    """Those who give up what others take come first; who does both takes in the next pass."""
    before = {pool.key.uid: pool.status.assignments for pool in pools}
    givers_of: dict[str, set[str]] = defaultdict(set)  # by node
    for each in decisions:
        for node in _nodes(_departures(each, before)):
            givers_of[node].add(each.key.uid)
    after = {each.key.uid: _givers(each, _nodes(_arrivals(each, before)), givers_of) for each in decisions}
    givers = frozenset[str]().union(*after.values())
    first = [each for each in decisions if each.key.uid in givers]
    return (
        *(Persisted(_without(_arrivals(each, before), each) if after[each.key.uid] else each) for each in first),
        *(Persisted(each, after[each.key.uid]) for each in decisions if each.key.uid not in givers),
    )


def _givers(taker: PoolDecision, wanted: Iterable[str], givers_of: Mapping[str, set[str]]) -> frozenset[str]:
    """Other pools that give up a place on a node that one newly takes."""
    return frozenset(uid for node in wanted for uid in givers_of.get(node, ())) - {taker.key.uid}


def _nodes(assignments: Iterable[Assignment]) -> set[str]:
    return {node for each in assignments for node in each.nodes}


def _arrivals(decision: PoolDecision, before: Mapping[str, Sequence[Assignment]]) -> list[Assignment]:
    known = {each.replica for each in before.get(decision.key.uid, ())}
    return [each for each in decision.status.assignments if each.replica not in known]


def _departures(decision: PoolDecision, before: Mapping[str, Sequence[Assignment]]) -> list[Assignment]:
    staying = {each.replica for each in decision.status.assignments}
    return [each for each in before.get(decision.key.uid, ()) if each.replica not in staying]


def _without(arrivals: Sequence[Assignment], decision: PoolDecision) -> PoolDecision:
    left = tuple(each for each in decision.status.assignments if each not in arrivals)
    return replace(decision, status=replace(decision.status, assignments=left))
