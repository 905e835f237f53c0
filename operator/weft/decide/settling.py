"""When a moment is decided once more inside its pass, on what the pass itself decided.

Preemption and moves come last, when everybody else has a place and has been told so: a pool that gave its place gets
one that is free, and is told what lacks, only by a look that finds it without. The same is so where a pool changes its
shape, as shares of quotas were counted in replicas of the old one, and where a quota is short and pools that share it
have other counts or replicas than when it was shared out. Such a pass looks again at once, so that another one with the
same input finds nothing to do. It looks again once, never until all is at rest: what is left then is for the
next pass, which comes as soon as this one is written.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.domain.values.changed import changed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.domain.decision import Decisions, PoolDecision, SplitDecision
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord, Snapshot
    from weft.domain.status import Condition


def as_decided(snapshot: Snapshot, decisions: Decisions) -> Snapshot:
    """The snapshot of the same moment, with the decisions in its statuses and its memory."""
    statuses = {each.key.uid: each.status for each in decisions.pools}
    told = {each.key.uid: each.status for each in decisions.splits}
    pools = [
        changed(pool, status=statuses[pool.key.uid]) if pool.key.uid in statuses else pool for pool in snapshot.pools
    ]
    splits = [
        replace(split, status=told[split.key.uid]) if split.key.uid in told else split for split in snapshot.splits
    ]
    return replace(snapshot, pools=tuple(pools), splits=tuple(splits), memory=decisions.memory)


def may_change_again(snapshot: Snapshot, decisions: Decisions) -> bool:
    """Whether a pass decided something of which others were not told when their turn came."""
    with_news = [each for each in decisions.pools if each.events or each.status.moves]
    sharing = _share_a_short_quota(decisions.pools) if snapshot.quotas else ()
    if not with_news and not sharing:  # as in nearly every pass
        return False
    before = {pool.key.uid: pool for pool in snapshot.pools}
    untold = (check(before[each.key.uid], each) for each in with_news for check in _UNTOLD)
    return any(untold) or any(_counts_otherwise(before[each.key.uid], each) for each in sharing)


def _share_a_short_quota(decisions: Sequence[PoolDecision]) -> list[PoolDecision]:
    """All pools of namespaces in which one lacks room in a quota: what one of them has is what others may have."""
    short = {each.key.namespace for each in decisions if any(_lacks_budget(check) for check in each.conditions)}
    return [each for each in decisions if each.key.namespace in short]


def _lacks_budget(condition: Condition) -> bool:
    return condition.explanation.reason is Reason.BudgetExhausted


def _counts_otherwise(pool: PoolRecord, decision: PoolDecision) -> bool:
    """Whether the desired count of a pool changed, or which of its replicas hold a place."""
    before, now = pool.status, decision.status
    had, has = ({each.replica for each in status.assignments} for status in (before, now))
    return before.desired_replicas != now.desired_replicas or had != has


def _gives_a_place(_: PoolRecord, decision: PoolDecision) -> bool:
    """Whether the pool gives a place, or its room in a quota, to a pool of higher priority."""
    return any(event.reason is Reason.Preempted for event in decision.events)


def _begins_to_move(pool: PoolRecord, decision: PoolDecision) -> bool:
    """Whether one of its replicas begins to make room in this pass, also if its move was called off at this moment."""
    moves = decision.status.moves
    return bool(moves) and not Counter(moves) <= Counter(pool.status.moves)


def _changes_its_shape(pool: PoolRecord, decision: PoolDecision) -> bool:
    """Whether its replicas count in other units now, by which quotas were not shared out yet."""
    before, now = pool.status.plan, decision.status.plan
    return before is not now and before is not None and now is not None and before.shape != now.shape


_UNTOLD: tuple[Callable[[PoolRecord, PoolDecision], bool], ...] = (_gives_a_place, _begins_to_move, _changes_its_shape)


def both(first: Decisions, second: Decisions) -> Decisions:
    """The answer of the second look, with what the first one had to tell as well: each event once."""
    pools = {each.key.uid: each.events for each in first.pools}
    splits = {each.key.uid: each.events for each in first.splits}
    return replace(
        second,
        pools=tuple(changed(each, events=_each_once(pools.get(each.key.uid, ()), each)) for each in second.pools),
        splits=tuple(replace(each, events=_each_once(splits.get(each.key.uid, ()), each)) for each in second.splits),
    )


def _each_once(told: Sequence[Explanation], again: PoolDecision | SplitDecision) -> tuple[Explanation, ...]:
    return (*told, *(event for event in again.events if event not in told))
