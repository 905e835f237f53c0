"""Splits: a summary of what was decided for both halves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.plans.pair import HALVES, Pair
from weft.decide.telling.pair_figures import figures_of_pair
from weft.decide.telling.transport import expected_transfer_seconds, transport_of
from weft.domain.decision import PoolDecision, SplitDecision
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import FALSE, TRUE, UNKNOWN, Condition
from weft.shaping import Unpaired

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.status import Observed
    from weft.domain.workload import Role
    from weft.perf import ReplicaModel

_LIVE = ("SLOMet", "NetworkBound")
_TOLD = ("ArgumentsUnknown", "ImageMismatched", "Relaxed")  # as soon as there is a plan
_KINDS = ("Planned", *_TOLD, "Placed", *_LIVE, "TransfersFailing", "CapacityRequested")
_GOOD_LAST, _BAD_FIRST = (FALSE, UNKNOWN, TRUE), (TRUE, UNKNOWN, FALSE)
_TIMED_BY_ONE = (TRUE, FALSE, UNKNOWN)  # the half that waits for KV times it, and the other one cannot know
_BAD_WHEN_TRUE = {*_TOLD, "NetworkBound", "TransfersFailing", "CapacityRequested"}


def decide_splits(
    splits: Iterable[SplitRecord],
    pools: Iterable[PoolRecord],
    decided: Iterable[PoolDecision],
    pairs: Mapping[str, Pair | Unpaired],
) -> tuple[SplitDecision, ...]:
    """What each split's status shows of its halves."""
    by_uid = {decision.key.uid: decision for decision in decided}
    halves = {
        (pool.split_uid, pool.spec.role): by_uid[pool.key.uid]
        for pool in pools
        if pool.spec is not None and pool.split_uid is not None and pool.key.uid in by_uid
    }
    alive = sorted((split for split in splits if not split.deleting), key=lambda split: str(split.key.uid))
    return tuple(
        _summary(split, pairs[split.key.uid], [halves.get((split.key.uid, role)) for role in HALVES]) for split in alive
    )


def _summary(split: SplitRecord, pair: Pair | Unpaired, halves: list[PoolDecision | None]) -> SplitDecision:
    prefill, decode = halves
    sender = pair.sender if isinstance(pair, Pair) else None
    observed = figures_of_pair(*(half.status.observed if half is not None else None for half in halves))
    shapes = [half.status.plan.shape if half is not None and half.status.plan else None for half in halves]
    return SplitDecision(
        split.key,
        split.generation,
        pair.release if isinstance(pair, Pair) else split.status.engine,
        prefill_desired=prefill.status.desired_replicas if prefill is not None else 0,
        decode_desired=decode.status.desired_replicas if decode is not None else 0,
        conditions=_conditions(split, pair, halves),
        prefill_recommended=prefill.recommended if prefill is not None else None,
        decode_recommended=decode.recommended if decode is not None else None,
        prefill_shape=shapes[0],
        decode_shape=shapes[1],
        kv_layouts=pair.kv_layouts if isinstance(pair, Pair) else split.status.kv_layouts,
        observed=_beside_what_is_expected(observed, sender),
        transport=transport_of(split.spec.prefill, sender) if split.spec is not None and sender is not None else None,
    )


def _beside_what_is_expected(observed: Observed | None, sender: ReplicaModel | None) -> Observed | None:
    expected = expected_transfer_seconds(sender, observed) if sender is not None else None
    return observed if observed is None or expected is None else replace(observed, transfer_expected=expected)


def _conditions(split: SplitRecord, pair: Pair | Unpaired, halves: list[PoolDecision | None]) -> tuple[Condition, ...]:
    """Each condition of the half where it is worse, which is named; without children yet, whether there is a plan."""
    told: dict[str, list[tuple[Role, Condition]]] = {}
    for role, half in zip(HALVES, halves, strict=True):
        for each in half.conditions if half is not None else ():
            told.setdefault(each.kind, []).append((role, each))
    if isinstance(pair, Unpaired):
        nothing = Explanation(Reason.NothingToPlace, "there is no valid plan")
        unplanned = (Condition("Planned", FALSE, _told(split, pair)), Condition("Placed", UNKNOWN, nothing))
        return (*unplanned, *_worst_of_each(split, _LIVE, told))
    if not told:
        planned = Explanation(Reason.ShapeChosen, "both halves run the same engine release")
        nothing = Explanation(Reason.NothingToPlace, "the child pools do not exist yet")
        return Condition("Planned", TRUE, planned), Condition("Placed", UNKNOWN, nothing)
    return _worst_of_each(split, _KINDS, told)


def _worst_of_each(
    split: SplitRecord, kinds: Iterable[str], told: Mapping[str, list[tuple[Role, Condition]]]
) -> tuple[Condition, ...]:
    return tuple([_worst(split, kind, told[kind]) for kind in kinds if kind in told])


def _worst(split: SplitRecord, kind: str, halves: list[tuple[Role, Condition]]) -> Condition:
    order = _TIMED_BY_ONE if kind == "NetworkBound" else _BAD_FIRST if kind in _BAD_WHEN_TRUE else _GOOD_LAST
    role, worst = min(halves, key=lambda entry: order.index(entry[1].status))
    said = _of_pool(split, role, worst.explanation)
    if kind == "SLOMet" and worst.status == TRUE:  # one half is about the first token, the other about the rest
        said = Explanation(
            said.reason, "; ".join(_of_pool(split, half, each.explanation).message for half, each in halves)
        )
    return Condition(kind, worst.status, said)


def _told(split: SplitRecord, problem: Unpaired) -> Explanation:
    return problem.why if problem.role is None else _of_pool(split, problem.role, problem.why)


def _of_pool(split: SplitRecord, role: Role, told: Explanation) -> Explanation:
    """What is said of one half, under its name and with fields named where the split has them."""
    message = told.message if split.spec is None else split.spec.as_written(role, told.message)
    return Explanation(told.reason, f"{role.value} pool: {message}")
