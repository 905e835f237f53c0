"""What would be planned: a snapshot made of files (or of a cluster that is only read), decided until nothing changes.

A plan from files starts from nothing: no pod of the planned resources runs, and every node is as the file shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from weft.api import parse_pool, parse_split
from weft.cli.cluster.config_maps import ConfigMaps
from weft.cli.cluster.rules import NO_RULES
from weft.cli.ends.failure import CommandFailure
from weft.cli.files.resources import resources_of_ours, uid_of
from weft.domain.reasons import Reason
from weft.domain.relaxations import FLAG
from weft.domain.snapshot import PoolRecord, ResourceKey, Snapshot, SplitRecord
from weft.domain.status import PoolStatus, SplitStatus
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.cli.cluster.rules import Rules
    from weft.cli.cluster.world import World
    from weft.domain.decision import PoolDecision, SplitDecision
    from weft.domain.reasons import Explanation

Record = TypeVar("Record", PoolRecord, SplitRecord)
PASSES = 4
_HALVES = (Role.Prefill, Role.Decode)
_PAIR = "planned"  # stands for a pair whose name depends on an engine that is not chosen yet
# Reasons that no cluster would change: the request itself is wrong.
WRONG_INPUT = frozenset(
    {
        Reason.SpecInvalid,
        Reason.ModelUnknown,
        Reason.ModelConfigMissing,
        Reason.ArchitectureUnsupported,
        Reason.ContextExceeded,
    }
)
_NOT_SERVED = frozenset({Reason.PrecisionUnsupported, Reason.EngineUnsupported})


@dataclass(frozen=True, slots=True)
class PlannedResource:
    """One resource with what would be decided for it; a split has its two pools.

    `managed` says that it has a router of Weft's choice.
    """

    title: str
    pools: tuple[tuple[PoolRecord, PoolDecision], ...]
    split: SplitDecision | None = None
    managed: bool = False


def plan_all(
    documents: list[dict[str, Any]], world: World, catalog: Catalog, now: float, rules: Rules = NO_RULES
) -> list[PlannedResource]:
    """Decide for every InferencePool and PDSplit of the documents together: they compete for GPUs and quotas."""
    pools, splits = records_of(documents, world)
    children = [_child(split, role) for split in splits for role in _HALVES]
    resources = rules.ranking((*pools, *children), splits)
    snapshot = Snapshot(now, *resources, world.nodes, world.pods, reports=world.reports, quotas=rules.quotas)
    planned = _told(_rested(snapshot, catalog), splits)
    _refuse_wrong_input(planned, world, catalog)
    return planned


def records_of(documents: list[dict[str, Any]], world: World) -> tuple[list[PoolRecord], list[SplitRecord]]:
    """Read pools and splits of the documents as their users wrote them; raises `CommandFailure` for what is wrong."""
    ours = resources_of_ours(documents, world.namespace)
    configs = ConfigMaps.of(documents, world)
    pools = [configs.into_pool(_fresh(parse_pool(body))) for body in ours if body["kind"] == "InferencePool"]
    splits = [configs.into_split(_fresh(parse_split(body))) for body in ours if body["kind"] == "PDSplit"]
    read: list[PoolRecord | SplitRecord] = [*pools, *splits]
    wrong = [f"{one.key}: {one.problem.message}" for one in read if one.problem is not None]
    if wrong:
        raise CommandFailure("; ".join(wrong))
    return pools, splits


def _refuse_wrong_input(planned: list[PlannedResource], world: World, catalog: Catalog) -> None:
    """Raise `CommandFailure` for what only an edit of the input fixes, once for both sides of a split."""
    wrong = [
        f"{one.title}: {why.reason}: {why.message}"
        for one in planned
        for pool, decision in one.pools
        for why in (condition.explanation for condition in decision.conditions if condition.kind == "Planned")
        if why.reason in WRONG_INPUT
        or (why.reason is Reason.NoAccelerator and _names_no_hardware(world, catalog))
        or (why.reason in _NOT_SERVED and _has_all_it_may_use(pool, world, catalog))
    ]
    if wrong:
        raise CommandFailure("; ".join(dict.fromkeys(wrong)))


def _names_no_hardware(world: World, catalog: Catalog) -> bool:
    """Whether the nodes are from a file and none of their accelerators is known."""
    from weft.fabric import build_fabric

    fabric = build_fabric(world.nodes, (), catalog, world.reports) if world.written else None
    return fabric is not None and bool(fabric.notes) and not fabric.domains


def _has_all_it_may_use(pool: PoolRecord, world: World, catalog: Catalog) -> bool:
    """Whether every accelerator that the pool may use is there, so that no other cluster would do better."""
    from weft.fabric import build_fabric

    named = pool.spec.placement.accelerators if pool.spec else ()
    if world.imagined or not named:
        return world.imagined
    fabric = build_fabric(world.nodes, (), catalog, world.reports)
    return {each.casefold() for each in named} <= {each.accelerator.casefold() for each in fabric.domains}


def _rested(snapshot: Snapshot, catalog: Catalog) -> tuple[Snapshot, dict[str, PoolDecision], dict[str, SplitDecision]]:
    """Decide repeatedly, with the decisions as status, until nothing changes or for `PASSES` rounds."""
    from weft.decide import decide  # half of the loading time: bad input is reported before

    first = decisions = decide(snapshot, catalog)
    for _ in range(PASSES):
        statuses = {decision.key.uid: decision.status for decision in decisions.pools}
        pools = tuple(replace(pool, status=statuses.get(pool.key.uid, pool.status)) for pool in snapshot.pools)
        if pools == snapshot.pools:
            break
        snapshot = replace(snapshot, pools=pools, memory=decisions.memory)
        decisions = decide(snapshot, catalog)
    chosen = {decision.key.uid: decision for decision in first.pools}
    by_uid = {each.key.uid: _with_why_it_was_chosen(chosen.get(each.key.uid), each) for each in decisions.pools}
    return snapshot, by_uid, {decision.key.uid: decision for decision in decisions.splits}


def _with_why_it_was_chosen(first: PoolDecision | None, last: PoolDecision) -> PoolDecision:
    """Return the last decision with the verdict on its shape by which that was chosen, and not why it stays since.

    Nothing of a plan from files runs yet, and a plan decides more than once.
    """
    before, plan = None if first is None else first.status.plan, last.status.plan
    if before is None or plan is None or plan.verdict.reason is not Reason.ShapeKept or before.shape != plan.shape:
        return last
    plan = replace(plan, verdict=before.verdict, alternatives=before.alternatives)
    conditions = tuple(
        replace(one, explanation=before.verdict) if one.explanation.reason is Reason.ShapeKept else one
        for one in last.conditions
    )
    return replace(last, status=replace(last.status, plan=plan), conditions=conditions)


def _pool_told(pool: PoolRecord, decision: PoolDecision) -> PlannedResource:
    managed = pool.spec is not None and pool.spec.router.is_of_weft
    return PlannedResource(str(pool.key), ((pool, decision),), managed=managed)


def _told(
    rested: tuple[Snapshot, dict[str, PoolDecision], dict[str, SplitDecision]], splits: list[SplitRecord]
) -> list[PlannedResource]:
    snapshot, pools, split_decisions = rested
    told = [
        _pool_told(pool, _nobody_asked(pool, pools[pool.key.uid]))
        for pool in snapshot.pools
        if pool.split_uid is None and pool.key.uid in pools
    ]
    for split in splits:
        sides = tuple(
            (pool, _as_written(split, pool, _nobody_asked(pool, pools[pool.key.uid])))
            for pool in snapshot.pools
            if pool.split_uid == split.key.uid and pool.key.uid in pools
        )
        managed = split.spec is not None and split.spec.router.is_of_weft
        told.append(PlannedResource(str(split.key), sides, split_decisions.get(split.key.uid), managed))
    return told


def _nobody_asked(pool: PoolRecord, decision: PoolDecision) -> PoolDecision:
    """Return the decision without the word of an administrator, whom nobody asked: a plan assumes it."""
    if pool.spec is None or not pool.spec.pod.relaxations:
        return decision
    asked = ", ".join(pool.spec.pod.relaxations)
    told = f"spec.pod.relaxations {asked}, if the administrator allows it (`weft run {FLAG}`), as this plan assumes"
    conditions = tuple(
        replace(one, explanation=replace(one.explanation, message=told)) if one.kind == "Relaxed" else one
        for one in decision.conditions
    )
    return replace(decision, conditions=conditions)


def _as_written(split: SplitRecord, pool: PoolRecord, decision: PoolDecision) -> PoolDecision:
    """Return the decision about one side with messages that name the fields of the split."""
    if split.spec is None or pool.spec is None:
        return decision
    written, role = split.spec.as_written, pool.spec.role

    def told(why: Explanation) -> Explanation:
        return replace(why, message=written(role, why.message))

    conditions = tuple(replace(one, explanation=told(one.explanation)) for one in decision.conditions)
    scale = decision.status.scale
    status = replace(decision.status, scale=told(scale)) if scale is not None else decision.status
    return replace(decision, conditions=conditions, status=status)


def _child(split: SplitRecord, role: Role) -> PoolRecord:
    """Make the pool of one half; halves over NVLink share a pair, as they share an NVLink domain."""
    from weft.engines.kv.nvlink import over_nvlink

    spec = None
    if split.spec is not None:
        spec = split.spec.prefill if role is Role.Prefill else split.spec.decode
    if spec is not None and over_nvlink(spec):
        spec = replace(spec, pair=_PAIR)
    name = split.child_name(role)
    key = ResourceKey("InferencePool", split.key.namespace, name, uid_of("InferencePool", split.key.namespace, name))
    return PoolRecord(key, 1, spec, PoolStatus(), problem=split.problem, split_uid=split.key.uid)


def _fresh(record: Record) -> Record:
    """Drop the status that the file carries: a plan is for the spec alone."""
    if isinstance(record, SplitRecord):
        return replace(record, status=SplitStatus(), deleting=False)
    return replace(record, status=PoolStatus(), deleting=False)
