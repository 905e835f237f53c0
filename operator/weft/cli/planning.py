"""What would happen: a snapshot made of files (or of a cluster that is only read), and decide run until it rests.

A plan from files starts from nothing: no pod of the planned resources runs, and every node is as the file shows it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from weft.api import parse_pool, parse_split, refused_name
from weft.cli.config_maps import ConfigMaps
from weft.cli.failure import CommandFailure
from weft.cli.reference import refused_namespace
from weft.domain.labels import API_VERSION
from weft.domain.reasons import Reason
from weft.domain.snapshot import PoolRecord, ResourceKey, Snapshot, SplitRecord
from weft.domain.status import PoolStatus, SplitStatus
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.cli.world import World
    from weft.domain.decision import PoolDecision, SplitDecision

Record = TypeVar("Record", PoolRecord, SplitRecord)
PASSES = 4
_HALVES = (Role.Prefill, Role.Decode)
_PAIR = "planned"  # no engine is chosen yet that would tell it
# Reasons that no cluster would change: what is asked is wrong by itself.
WRONG_INPUT = frozenset(
    {
        Reason.SpecInvalid,
        Reason.ModelUnknown,
        Reason.ModelConfigMissing,
        Reason.ArchitectureUnsupported,
        Reason.ContextExceeded,
    }
)


@dataclass(frozen=True, slots=True)
class Planned:
    """One resource with what would be decided for it; a split has its two pools."""

    title: str
    pools: tuple[tuple[PoolRecord, PoolDecision], ...]
    split: SplitDecision | None = None


def plan_all(documents: list[dict[str, Any]], world: World, catalog: Catalog, now: float) -> list[Planned]:
    """Decide for every InferencePool and PDSplit of the documents together: they compete for the same GPUs."""
    pools, splits = records_of(documents, world)
    children = [_child(split, role) for split in splits for role in _HALVES]
    resources = (*pools, *children), tuple(splits)
    snapshot = Snapshot(now, *resources, world.nodes, world.pods, reports=world.reports)
    planned = _told(_rested(snapshot, catalog), splits)
    _refuse_wrong_input(planned, world, catalog)
    return planned


def records_of(documents: list[dict[str, Any]], world: World) -> tuple[list[PoolRecord], list[SplitRecord]]:
    """Pools and splits of the documents as their users wrote them; raises `CommandFailure` for what is wrong."""
    ours = _ours(documents, world.namespace)
    configs = ConfigMaps.of(documents, world)
    pools = [configs.into_pool(_fresh(parse_pool(body))) for body in ours if body["kind"] == "InferencePool"]
    splits = [configs.into_split(_fresh(parse_split(body))) for body in ours if body["kind"] == "PDSplit"]
    read: list[PoolRecord | SplitRecord] = [*pools, *splits]
    wrong = [f"{one.key}: {one.problem.message}" for one in read if one.problem is not None]
    if wrong:
        raise CommandFailure("; ".join(wrong))
    return pools, splits


def _refuse_wrong_input(planned: list[Planned], world: World, catalog: Catalog) -> None:
    """Raise `CommandFailure` for what only an edit of the input mends; both sides of a split often say the same."""
    wrong = [
        f"{one.title}: {why.reason}: {why.message}"
        for one in planned
        for pool, decision in one.pools
        for why in (condition.explanation for condition in decision.conditions if condition.kind == "Planned")
        if why.reason in WRONG_INPUT
        or (why.reason is Reason.NoAccelerator and _names_no_hardware(world, catalog))
        or (why.reason is Reason.PrecisionUnsupported and _has_all_it_may_use(pool, world, catalog))
    ]
    if wrong:
        raise CommandFailure("; ".join(dict.fromkeys(wrong)))


def _names_no_hardware(world: World, catalog: Catalog) -> bool:
    """Whether the nodes are written in a file, and all accelerators there are of names that nobody knows."""
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
    """Feed decisions back as status until nothing changes."""
    from weft.decide import decide  # half of all there is to load: what is wrong by itself is told before

    decisions = decide(snapshot, catalog)
    for _ in range(PASSES):
        statuses = {decision.key.uid: decision.status for decision in decisions.pools}
        pools = tuple(replace(pool, status=statuses.get(pool.key.uid, pool.status)) for pool in snapshot.pools)
        if pools == snapshot.pools:
            break
        snapshot = replace(snapshot, pools=pools, memory=decisions.memory)
        decisions = decide(snapshot, catalog)
    by_uid = {decision.key.uid: decision for decision in decisions.pools}
    return snapshot, by_uid, {decision.key.uid: decision for decision in decisions.splits}


def _told(
    rested: tuple[Snapshot, dict[str, PoolDecision], dict[str, SplitDecision]], splits: list[SplitRecord]
) -> list[Planned]:
    snapshot, pools, split_decisions = rested
    told = [
        Planned(str(pool.key), ((pool, pools[pool.key.uid]),))
        for pool in snapshot.pools
        if pool.split_uid is None and pool.key.uid in pools
    ]
    for split in splits:
        sides = tuple(
            (pool, _as_written(split, pool, pools[pool.key.uid]))
            for pool in snapshot.pools
            if pool.split_uid == split.key.uid and pool.key.uid in pools
        )
        told.append(Planned(str(split.key), sides, split_decisions.get(split.key.uid)))
    return told


def _as_written(split: SplitRecord, pool: PoolRecord, decision: PoolDecision) -> PoolDecision:
    """The decision about one side, in sentences that name the fields of the split."""
    if split.spec is None or pool.spec is None:
        return decision
    conditions = tuple(
        replace(
            one,
            explanation=replace(
                one.explanation, message=split.spec.as_written(pool.spec.role, one.explanation.message)
            ),
        )
        for one in decision.conditions
    )
    return replace(decision, conditions=conditions)


def _child(split: SplitRecord, role: Role) -> PoolRecord:
    """Of a generation as halves over NVLink are, which meet in what they share."""
    from weft.engines.nvlink import over_nvlink

    spec = None
    if split.spec is not None:
        spec = split.spec.prefill if role is Role.Prefill else split.spec.decode
    if spec is not None and over_nvlink(spec):
        spec = replace(spec, pair=_PAIR)
    name = split.child_name(role)
    key = ResourceKey("InferencePool", split.key.namespace, name, _uid("InferencePool", split.key.namespace, name))
    return PoolRecord(key, 1, spec, PoolStatus(), problem=split.problem, split_uid=split.key.uid)


def _fresh(record: Record) -> Record:
    """A plan is for the spec alone, whatever status the file carries along."""
    if isinstance(record, SplitRecord):
        return replace(record, status=SplitStatus(), deleting=False)
    return replace(record, status=PoolStatus(), deleting=False)


def the_resources(documents: list[dict[str, Any]], default_namespace: str) -> list[tuple[str, dict[str, Any]]]:
    """Titles, as in `Planned`, and bodies of the resources of ours."""
    return [
        (str(ResourceKey(body["kind"], body["metadata"]["namespace"], body["metadata"]["name"], "")), body)
        for body in _ours(documents, default_namespace)
    ]


def _ours(documents: list[dict[str, Any]], default_namespace: str) -> list[dict[str, Any]]:
    """The resources of ours, each with an identity; what else lies in the same file is left alone."""
    found = [_with_identity(body, default_namespace) for body in documents if _is_ours(body)]
    if not found:
        raise CommandFailure(f"there is no InferencePool and no PDSplit of {API_VERSION} to plan{_but(documents)}")
    _refuse_halves_alone(found)
    ours = [body for body in found if _owning_split(body) is None]
    _refuse_one_name_for_two([(body["kind"], body["metadata"]["namespace"], body["metadata"]["name"]) for body in ours])
    return ours


def _refuse_halves_alone(found: list[dict[str, Any]]) -> None:
    """What a half holds is planned with its split: without that one its GPUs would seem free."""
    splits = {(body["metadata"]["namespace"], body["metadata"]["name"]) for body in found if body["kind"] == "PDSplit"}
    for body in found:
        split, name, namespace = _owning_split(body), body["metadata"]["name"], body["metadata"]["namespace"]
        if split is not None and (namespace, split) not in splits:
            raise CommandFailure(
                f"InferencePool/{name} is a half of PDSplit/{split} in namespace {namespace}, which is not in the "
                f"input: add it (`kubectl get pdsplits.weft.dev -n {namespace} -o yaml`), or remove the half"
            )


def _owning_split(body: dict[str, Any]) -> str | None:
    """The PDSplit of which it is a half, as a cluster writes it beside the split itself; None for what users write."""
    owners = body["metadata"].get("ownerReferences")
    found = [each for each in owners if isinstance(each, dict)] if isinstance(owners, list) else []
    splits = (each.get("name") for each in found if _is_ours(each) and each.get("controller") is True)
    return next((name for name in splits if isinstance(name, str)), None) if body["kind"] == "InferencePool" else None


def _refuse_one_name_for_two(names: list[tuple[str, str, str]]) -> None:
    """Kinds, namespaces and names; the halves of a split are pools too."""
    times = Counter(names)
    splits = [(namespace, name) for kind, namespace, name in names if kind == "PDSplit"]
    halves = {(namespace, f"{name}-{half.lower()}"): name for namespace, name in splits for half in _HALVES}
    for kind, namespace, name in names:
        if times[kind, namespace, name] > 1:
            raise CommandFailure(f"{kind}/{name} is there twice in namespace {namespace}: give each a name of its own")
        split = halves.get((namespace, name)) if kind == "InferencePool" else None
        if split is not None:
            raise CommandFailure(f"InferencePool/{name} has the name of a half of PDSplit/{split}: rename one of them")


def _is_ours(body: dict[str, Any]) -> bool:
    return body.get("apiVersion") == API_VERSION and body.get("kind") in ("InferencePool", "PDSplit")


def _but(documents: list[dict[str, Any]]) -> str:
    found = sorted({_kind_of(body) for body in documents})
    return f", only {', '.join(found)}" if found else ": the input is empty"


def _kind_of(body: dict[str, Any]) -> str:
    if not body.get("kind"):
        return "an object without a kind"
    return f"{body.get('apiVersion') or 'an unversioned'} {body['kind']}"


def _with_identity(body: dict[str, Any], default_namespace: str) -> dict[str, Any]:
    given = body.get("metadata")
    metadata: dict[str, Any] = given if isinstance(given, dict) else {}
    name, namespace = metadata.get("name"), metadata.get("namespace") or default_namespace
    if name in (None, ""):
        raise CommandFailure(f"every {body['kind']} needs a name: write metadata.name")
    if not isinstance(name, str) or not isinstance(namespace, str):
        raise CommandFailure(f"metadata.name and metadata.namespace of {body['kind']} {name} must be texts: quote them")
    refused = refused_name(body["kind"], name) or refused_namespace(namespace)
    if refused is not None:
        raise CommandFailure(f"{body['kind']}/{name}: {refused}")
    identity = {"name": name, "namespace": namespace, "uid": _uid(body["kind"], namespace, name), "generation": 1}
    return {**body, "metadata": {**metadata, **identity}}


def _uid(kind: str, namespace: str, name: str) -> str:
    """A stable stand-in for the UID that the API server would give."""
    return hashlib.sha256(f"{kind}/{namespace}/{name}".encode()).hexdigest()[:32]
