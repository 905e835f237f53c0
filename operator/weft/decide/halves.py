"""Splits: one engine release for both halves, and a summary of what was decided for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.conditions import TRUE
from weft.decide.pair_figures import figures_of_pair
from weft.decide.planning import Facts, kept_engine, plan_pool
from weft.decide.support import refuse_unsupported_front
from weft.domain.decision import PoolDecision, SplitDecision
from weft.domain.errors import Invalid
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineRelease
from weft.domain.snapshot import PoolRecord, SplitRecord
from weft.domain.status import Condition, PoolStatus
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HALVES = (Role.Prefill, Role.Decode)
_KINDS = ("Planned", "Placed", "SLOMet", "NetworkBound")


def prescribed_engines(splits: Iterable[SplitRecord], facts: Facts) -> dict[str, EngineRelease | Explanation]:
    """The release that both halves of each split run, or why there is none; by UID of the split."""
    return {split.key.uid: _prescribed(split, facts) for split in splits if not split.deleting}


def _prescribed(split: SplitRecord, facts: Facts) -> EngineRelease | Explanation:
    if split.spec is None:
        return split.problem or Explanation(Reason.SpecInvalid, "the spec cannot be understood")
    try:
        refuse_unsupported_front(split.spec.router)
        kept = kept_engine(split.spec.engine, split.status.engine, facts.catalog)
    except Invalid as error:
        return Explanation(error.reason, error.message)
    if kept is not None:
        return kept
    # Nothing was resolved yet: what the decode half would run on its own is what both run.
    alone = plan_pool(_imagined_half(split, Role.Decode), facts)
    return alone if isinstance(alone, Explanation) else alone.plan.engine


def _imagined_half(split: SplitRecord, role: Role) -> PoolRecord:
    """The child pool as it will be, for a split whose children do not exist yet."""
    spec = split.spec
    side = None if spec is None else (spec.prefill if role is Role.Prefill else spec.decode)
    return PoolRecord(split.key, split.generation, side, PoolStatus(), problem=split.problem)


def decide_splits(
    splits: Iterable[SplitRecord],
    pools: Iterable[PoolRecord],
    decided: Iterable[PoolDecision],
    engines: Mapping[str, EngineRelease | Explanation],
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
        _summary(split, engines[split.key.uid], [halves.get((split.key.uid, role)) for role in HALVES])
        for split in alive
    )


def _summary(
    split: SplitRecord, engine: EngineRelease | Explanation, halves: list[PoolDecision | None]
) -> SplitDecision:
    prefill, decode = halves
    shapes = [half.status.plan.shape if half is not None and half.status.plan else None for half in halves]
    problem = engine if isinstance(engine, Explanation) else None
    return SplitDecision(
        split.key,
        split.generation,
        engine if isinstance(engine, EngineRelease) else split.status.engine,
        prefill_desired=prefill.status.desired_replicas if prefill is not None else 0,
        decode_desired=decode.status.desired_replicas if decode is not None else 0,
        conditions=_conditions(split, problem, halves),
        prefill_recommended=prefill.recommended if prefill is not None else None,
        decode_recommended=decode.recommended if decode is not None else None,
        prefill_shape=shapes[0],
        decode_shape=shapes[1],
        observed=figures_of_pair(
            prefill.status.observed if prefill is not None else None,
            decode.status.observed if decode is not None else None,
        ),
    )


def _conditions(
    split: SplitRecord, problem: Explanation | None, halves: list[PoolDecision | None]
) -> tuple[Condition, ...]:
    """The worse of both halves, by its name; a split without children yet is planned or not."""
    if problem is not None:
        nothing = Explanation(Reason.NothingToPlace, "there is no valid plan")
        return Condition("Planned", "False", problem), Condition("Placed", "Unknown", nothing)
    present = [(role, half) for role, half in zip(HALVES, halves, strict=True) if half is not None]
    if not present:
        planned = Explanation(Reason.ShapeChosen, "both halves run the same engine release")
        nothing = Explanation(Reason.NothingToPlace, "the child pools do not exist yet")
        return Condition("Planned", "True", planned), Condition("Placed", "Unknown", nothing)
    return tuple(found for kind in _KINDS if (found := _worst(split, kind, present)) is not None)


def _worst(split: SplitRecord, kind: str, present: list[tuple[Role, PoolDecision]]) -> Condition | None:
    found = [(role, each) for role, half in present for each in half.conditions if each.kind == kind]
    if not found:
        return None
    order = ("True", "Unknown", "False") if kind == "NetworkBound" else ("False", "Unknown", TRUE)
    role, worst = min(found, key=lambda entry: order.index(entry[1].status))
    told = worst.explanation.message
    message = f"{role.value} pool: {told if split.spec is None else split.spec.as_written(role, told)}"
    return Condition(kind, worst.status, Explanation(worst.explanation.reason, message))
