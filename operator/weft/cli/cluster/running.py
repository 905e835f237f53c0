"""Running pools and splits with their status, from all namespaces of a cluster or from a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.api import parse_pool, parse_split
from weft.cli.ends.failure import CommandFailure
from weft.domain.labels import API_VERSION
from weft.domain.relaxations import permitting_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.cli.cluster.world import World
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.spec import PoolSpec

Json = dict[str, Any]
Classes = dict[str, tuple[int, bool]]  # PriorityClasses by name: value, and whether they preempt
_NO_CLASS = (0, True)
NOT_FOUND = 404
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass(frozen=True, slots=True)
class Running:
    """The pools and splits that run. `unread` says why they are not known, and is empty where they are."""

    pools: tuple[PoolRecord, ...] = ()
    splits: tuple[SplitRecord, ...] = ()
    unread: str = ""


def running(world: World) -> Running:
    """Read the cluster if there is one, else the file; leaves out resources without a UID: no API server saw them."""
    try:
        bodies = _bodies(world)
        priorities = priority_classes(world)
    except CommandFailure as failure:
        absent = getattr(failure.__cause__, "status", None) == NOT_FOUND  # a cluster without Weft has no pools
        return Running(unread="" if absent else failure.message)
    pools = (_permitted(parse_pool(body)) for body in bodies if body["kind"] == "InferencePool")
    splits = (_permitted_pair(parse_split(body)) for body in bodies if body["kind"] == "PDSplit")
    return Running(
        tuple(ranked(each, priorities) for each in pools),
        tuple(ranked_split(each, priorities) for each in splits),
    )


def _permitted(pool: PoolRecord) -> PoolRecord:
    """Allow whatever the pool asks for, as it was allowed when it started."""
    return pool if pool.spec is None else replace(pool, spec=permitting_all(pool.spec))


def _permitted_pair(split: SplitRecord) -> SplitRecord:
    if split.spec is None:
        return split
    prefill, decode = permitting_all(split.spec.prefill), permitting_all(split.spec.decode)
    return replace(split, spec=replace(split.spec, prefill=prefill, decode=decode))


def ranked(pool: PoolRecord, classes: Classes) -> PoolRecord:
    """Return the pool with the priority of its class, and whether it may preempt others."""
    priority, preempts = _class_of(pool.spec, classes)
    return replace(pool, priority=priority, preempts=preempts)


def ranked_split(split: SplitRecord, classes: Classes) -> SplitRecord:
    """Return the split with the priority of its class."""
    return replace(split, priority=_class_of(split.spec.prefill if split.spec else None, classes)[0])


def _class_of(spec: PoolSpec | None, classes: Classes) -> tuple[int, bool]:
    return classes.get(spec.pod.priority_class or "", _NO_CLASS) if spec is not None else _NO_CLASS


def _bodies(world: World) -> list[Json]:
    if world.cluster is not None:
        kinds = ("InferencePool", "PDSplit")
        found = [body for kind in kinds for body in world.cluster.resources(kind, everywhere=True)]
    else:
        found = [body for body in world.beside if body.get("apiVersion") == API_VERSION]
    return [body for body in found if _metadata(body).get("uid") and _metadata(body).get("name")]


def _metadata(body: Json) -> Json:
    found = body.get("metadata")
    return found if isinstance(found, dict) else {}


def priority_classes(world: World) -> Classes:
    """Return PriorityClasses by name; none where they cannot be read: then age and name alone order the pools."""
    bodies = [body for body in world.beside if body.get("kind") == "PriorityClass"]
    if world.cluster is not None:
        try:
            bodies = world.cluster.listed("priorityclasses", PRIORITIES)
        except CommandFailure:
            bodies = []
    return classes_of(bodies)


def classes_of(bodies: Iterable[Json]) -> Classes:
    """Return PriorityClasses by name; of several with one name the last."""
    found = ((_metadata(body).get("name"), body.get("value"), body.get("preemptionPolicy")) for body in bodies)
    return {str(name): (value, policy != "Never") for name, value, policy in found if isinstance(value, int)}
