"""What both halves of each split run, chosen together before either is counted or placed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.plans.exchange import exchange_kv
from weft.decide.plans.facts import Facts, kept_engine, shape_request
from weft.decide.plans.kept_shapes import left_lately, stays_in_its_shape
from weft.decide.plans.nvlink_domains import no_domain_for
from weft.decide.plans.pair import HALVES, Pair
from weft.decide.plans.planning import planned_for
from weft.decide.plans.support import (
    refuse_a_front_of_pairs,
    refuse_mooncake_behind_its_front,
    refuse_unsupported,
    refuse_unsupported_front,
    refuse_what_the_engine_cannot,
)
from weft.decide.plans.wished_shapes import allows, plan_as, request_as, taken_instead
from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Explanation, Reason
from weft.domain.stumbling import stumbled
from weft.domain.values.remembered import LastAnswers
from weft.engines.kv.handover import settings_conflict
from weft.engines.kv.nvlink import over_nvlink
from weft.scaling import RatioGuard
from weft.shaping import Unpaired, choose_pair, running_replica

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.catalog import Catalog
    from weft.decide.plans.planning import Planned
    from weft.decide.plans.wished_shapes import WishedShape
    from weft.domain.calibration import Calibrated
    from weft.domain.shape import EngineRelease, Plan
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.spec import PoolSpec, SplitSpec
    from weft.domain.status import LeftShape
    from weft.domain.workload import Workload
    from weft.shaping import ShapeRequest, Supply

    Terms = tuple[Planned, Workload | None]  # a pool with its plan, and the live workload in force
    # What one half is chosen from: its spec, its plan so far, what was learnt of it, what it could use, and which
    # shape it left within the hour.
    _Half = tuple[PoolSpec, Plan | None, tuple[Calibrated, ...], tuple[Supply, ...], LeftShape | None]

REMEMBERED = 16_384  # splits


_LAST: LastAnswers[tuple[SplitSpec, EngineRelease | None, tuple[_Half, ...], Catalog], Pair | Unpaired] = LastAnswers(
    REMEMBERED
)


def plan_pairs(splits: Iterable[SplitRecord], pools: Iterable[PoolRecord], facts: Facts) -> dict[str, Pair | Unpaired]:
    """What both halves of each split run, or why that is nothing; by UID of the split."""
    children = {(pool.split_uid, pool.spec.role): pool for pool in pools if pool.split_uid and pool.spec}
    found: dict[str, Pair | Unpaired] = {}
    for split in splits:
        if split.deleting:
            continue
        try:
            found[split.key.uid] = _pair(split, [children.get((split.key.uid, role)) for role in HALVES], facts)
        except Exception as error:
            raise stumbled(error, split) from error
    return found


def _pair(split: SplitRecord, children: list[PoolRecord | None], facts: Facts) -> Pair | Unpaired:
    """What the halves of a split run: what was chosen last time, as long as nothing that it depends on has changed."""
    spec, engine = split.spec, split.status.engine
    if spec is None:
        return Unpaired(split.problem or Explanation(Reason.SpecInvalid, "the spec cannot be understood"))
    if over_nvlink(spec.prefill) and (lacks := no_domain_for(spec, facts.fabric)) is not None:
        return Unpaired(lacks)
    sides = tuple(zip(children, (spec.prefill, spec.decode), strict=True))
    if not all(facts.supplied(_spec_of(*side).placement) for side in sides):
        return _paired(spec, engine, sides, facts)  # which says why
    question = spec, engine, tuple(_half(*side, facts) for side in sides), facts.catalog
    return _LAST.ask(split.key.uid, question, lambda _: _paired(spec, engine, sides, facts))


def _spec_of(child: PoolRecord | None, side: PoolSpec) -> PoolSpec:
    """The spec of a child pool, or what it will be while there is none."""
    return child.spec if child is not None and child.spec is not None else side


def _half(child: PoolRecord | None, side: PoolSpec, facts: Facts) -> _Half:
    spec = _spec_of(child, side)
    if child is None:
        return spec, None, (), facts.supplies[spec.placement], None
    status, left = child.status, child.status.left_shape
    if left is not None:
        left = left_lately(left, facts.now)
    return spec, status.plan, status.calibration, facts.supplies[spec.placement], left


def _paired(
    spec: SplitSpec, engine: EngineRelease | None, sides: Iterable[tuple[PoolRecord | None, PoolSpec]], facts: Facts
) -> Pair | Unpaired:
    try:
        refuse_unsupported_front(spec)
        kept = kept_engine(spec.engine, engine, facts.catalog)
    except Invalid as error:
        return Unpaired(Explanation(error.reason, error.message))
    conflict = settings_conflict(spec.prefill, spec.decode)
    if conflict is not None:
        return Unpaired(conflict)
    prefill, decode = (_request(child, side, facts, kept) for child, side in sides)
    if isinstance(prefill, Unpaired):
        return prefill
    if isinstance(decode, Unpaired):
        return decode
    stays, managed = prefill.stays or decode.stays, spec.router.is_of_weft
    prefill, decode = (replace(each, stays=stays, managed=managed) for each in (prefill, decode))
    return _chosen(spec, prefill, decode, facts)


def plan_as_wished(
    split: SplitRecord | None, before: Sequence[Terms], wishes: Sequence[WishedShape | None], facts: Facts
) -> list[Planned] | None:
    """One pool, or both halves of a split, with only the wished shapes left; None where that cannot be."""
    if split is None:
        wish, (pool, live) = wishes[0], before[0]
        planned = [plan_as(pool, wish, facts, live) if wish is not None else None]
    else:
        planned = _pair_as_wished(split, before, wishes, facts)
    found = [each for each in planned if each is not None]
    return found if len(found) == len(before) else None


def _pair_as_wished(
    split: SplitRecord, before: Sequence[Terms], wishes: Sequence[WishedShape | None], facts: Facts
) -> list[Planned | None]:
    wished = [(half.spec, wish.shape) for (half, _), wish in zip(before, wishes, strict=True) if wish is not None]
    if split.spec is None or len(before) < len(HALVES) or not all(allows(spec, shape) for spec, shape in wished):
        return []
    try:
        requests = [request_as(half, wish, facts) for (half, _), wish in zip(before, wishes, strict=True)]
    except (Invalid, Blocked):
        return []
    pair = _chosen(split.spec, requests[0], requests[1], facts)
    if isinstance(pair, Unpaired) or not _meets_what_runs([half.pool for half, _ in before], pair, facts):
        return []
    found: list[Planned | None] = []
    for (half, live), wish, request in zip(before, wishes, requests, strict=True):
        taken = taken_instead(half.plan, pair.plan(half.spec.role), wish)
        found.append(None if taken is None else planned_for(half, taken, request, facts.catalog, live))
    return found


def _meets_what_runs(halves: Sequence[PoolRecord], pair: Pair, facts: Facts) -> bool:
    """Whether the halves, where they have replicas, exchange KV with those of the pair."""
    plans = [each.status.plan for each in halves if each.status.plan is not None and each.status.assignments]
    return len(plans) < len(HALVES) or exchange_kv(plans, pair, facts.catalog)


def _chosen(spec: SplitSpec, prefill: ShapeRequest, decode: ShapeRequest, facts: Facts) -> Pair | Unpaired:
    plans = choose_pair(prefill, decode, facts.catalog)
    if isinstance(plans, Unpaired):
        return plans
    sender, _ = running_replica(prefill, plans[0].shape, facts.catalog)
    pair = Pair(*plans, spec.router.is_of_weft, sender, spec.prefill.kv.connector)
    return _without_a_ratio(spec, pair) or _without_a_front(spec, pair) or _launchable(pair, (prefill, decode))


def _request(
    child: PoolRecord | None, side: PoolSpec, facts: Facts, kept: EngineRelease | None
) -> ShapeRequest | Unpaired:
    """The request for the shape of one half; `Unpaired` where it cannot be served.

    The split alone says which engine, since a child repeats what was resolved before.
    """
    spec = _spec_of(child, side)
    wish = replace(spec.engine, name=side.engine.name, version=side.engine.version, image=side.engine.image)
    try:
        refuse_unsupported(spec)
        if child is None:
            return shape_request(replace(spec, engine=wish), facts, None, kept)
        status = child.status
        request = shape_request(replace(spec, engine=wish), facts, status.plan, kept)
        stays = stays_in_its_shape(spec, status.plan, left_lately(status.left_shape, facts.now))
        return replace(request, calibration=status.calibration, stays=stays)
    except (Invalid, Blocked) as error:
        return Unpaired(Explanation(error.reason, error.message), side.role)


def _without_a_ratio(spec: SplitSpec, pair: Pair) -> Unpaired | None:
    """Why the bounds of both halves leave no counts within the ratio; None where they do."""
    guard = RatioGuard(spec.ratio_min, spec.ratio_max)
    prefill, decode = _counts(spec.prefill, pair.prefill), _counts(spec.decode, pair.decode)
    if not prefill or not decode or guard.nearest((1, 1), prefill, decode) is not None:
        return None
    return Unpaired(
        Explanation(
            Reason.PairIncompatible,
            f"{guard} cannot be kept: {_range(prefill)} prefill and {_range(decode)} decode replicas are allowed, so "
            "widen these bounds (minReplicas, maxReplicas, maxGPUs) or the ratio",
        )
    )


def _without_a_front(spec: SplitSpec, pair: Pair) -> Unpaired | None:
    """Why nothing could send requests to both halves; None where something can."""
    try:
        refuse_a_front_of_pairs(spec.router, pair.release.name)
        refuse_mooncake_behind_its_front(spec, pair.release.name)
    except Invalid as error:
        return Unpaired(Explanation(error.reason, error.message))
    return None


def _counts(side: PoolSpec, plan: Plan) -> range:
    """How many replicas a half may have; `maxGPUs` wins over `minReplicas`."""
    scaling = side.scaling
    most = scaling.affordable(plan.shape.gpus, plan.shape.pods)
    return range(max(1, min(scaling.min_replicas, most)), most + 1)


def _range(counts: range) -> str:
    return f"{counts.start} to {counts.stop - 1}"


def _launchable(pair: Pair, requests: tuple[ShapeRequest, ShapeRequest]) -> Pair | Unpaired:
    """The pair, unless the engine of one half could not be started like this."""
    for request in requests:
        spec = request.spec
        try:
            refuse_what_the_engine_cannot(spec, pair.plan(spec.role), request.architecture.checkpoint_precision)
        except Invalid as error:
            return Unpaired(Explanation(error.reason, error.message), spec.role)
    return pair
