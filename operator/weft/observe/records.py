"""Kubernetes objects, as plain JSON, into the slim frozen records of the domain. Pure: no client types, no IO."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from weft.domain import labels
from weft.domain.cluster import (
    ContainerFailure,
    Download,
    NodeRecord,
    ObjectRecord,
    PodPhase,
    PodRecord,
    Taint,
)
from weft.domain.errors import Invalid
from weft.domain.times import known_instant
from weft.domain.units import parse_quantity
from weft.fabric.faults import FAULT_CONDITIONS
from weft.observe.identity import controller_uid, identify
from weft.observe.starts import read_start, startup_seconds
from weft.render import ENGINE_CONTAINER, WARM_UP_CONTAINER
from weft.schedulers import kueue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

Json = dict[str, Any]
Devices = tuple[tuple[str, int], ...]

# The stock scheduler counts each of its reasons, as in 0/4 nodes are available: 1 Insufficient memory, 3 node(s) ...
_NODES_COUNTED = re.compile(r"\d+/\d+ nodes are available: (?P<reasons>\d+ .*?)(?:\. |\.?$)", re.DOTALL)
_EACH_COUNT = re.compile(r", (?=\d+ )")
_OTHER_NODES = re.compile(r"\[NodeAffinity\]|node affinity/selector")
_DIGIT = re.compile("[0-9]")
_WAITING_IS_NORMAL = {"", "ContainerCreating", "PodInitializing"}
_CRASHES = "CrashLoopBackOff"


def read_node(body: Json) -> NodeRecord:
    """A Node. Without a Ready condition it counts as not ready."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    return NodeRecord(
        name=meta["name"],
        uid=meta.get("uid", ""),
        labels=tuple(sorted((meta.get("labels") or {}).items())),
        capacity=accelerator_like(status.get("capacity") or {}),
        allocatable=accelerator_like(status.get("allocatable") or {}),
        taints=tuple(Taint(t["key"], t.get("value") or "", t.get("effect") or "") for t in spec.get("taints") or ()),
        cordoned=bool(spec.get("unschedulable")),
        ready=_condition(status, "Ready").get("status") == "True",
        offers=tuple(_amounts(status.get("allocatable") or {})),
        faults=tuple(sorted(_faults(status))),
        deleting=meta.get("deletionTimestamp") is not None,
        tainted=_tainted(meta) if spec.get("taints") else None,
    )


def read_pod(body: Json) -> PodRecord | None:
    """A Pod that is ours, of a router of ours, or asks for accelerator-like resources; None for every other pod."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    requests = pod_requests(spec)
    identified = identify(meta)
    identity = identified.identity if identified is not None else None
    # anybody may write a label: with it, no pod hides what it asks for
    front_of = None if identity or requests else (meta.get("labels") or {}).get(labels.FRONT_OF)
    if identity is None and not requests and not front_of:
        return None
    scheduled = _condition(status, "PodScheduled")
    gates = {gate.get("name") for gate in spec.get("schedulingGates") or ()}
    gated, queued = labels.GATE in gates, bool(gates - {labels.GATE})
    return PodRecord(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        phase=_phase(status),
        node=spec.get("nodeName") or status.get("nominatedNodeName") or None,
        requests=requests,
        identity=identity,
        gated=gated,
        queued=queued,
        ready=_condition(status, "Ready").get("status") == "True",
        routed=(meta.get("labels") or {}).get(labels.ROUTED) == "true",
        terminating=meta.get("deletionTimestamp") is not None,
        created=known_instant(meta.get("creationTimestamp")) or 0.0,
        released=None if gated or queued or identity is None else _released(meta, scheduled),
        ip=status.get("podIP") or None,
        message=scheduler_words(scheduled),
        failure=read_failure(status, _sidecars(spec)),
        priority=int(spec.get("priority") or 0),
        stopped=_stopped(_condition(status, kueue.TAKEN_AWAY)),
        startup_seconds=startup_seconds(status) if identity is not None else None,
        front_of=front_of or None,
        pair=(meta.get("labels") or {}).get(labels.PAIR, ""),
        engine=(meta.get("labels") or {}).get(labels.ENGINE if front_of else labels.ENGINE_NAME, ""),
        image=_engine_image(spec) if identity is not None else "",
        unrouted=known_instant((meta.get("annotations") or {}).get(labels.UNROUTED)),
        mislabelled=identified.mislabelled if identified is not None else (),
        relabelled=known_instant((meta.get("annotations") or {}).get(labels.RELABELLED)),
        gone_by=known_instant(meta.get("deletionTimestamp")) if front_of or identity is not None else None,
        loading=_loading(status) if identity is not None else None,
        download=_download(status) if identity is not None else None,
        servers=_servers(meta) if identity is not None else None,
        start=read_start(status, identity) if identity is not None else None,
    )


def read_object(body: Json) -> ObjectRecord:
    """A namespaced object of ours, kept whole but for `managedFields`."""
    meta = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return ObjectRecord(
        api_version=body["apiVersion"],
        kind=body["kind"],
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        owner_uid=controller_uid(meta),
        terminating=meta.get("deletionTimestamp") is not None,
        body={**body, "metadata": meta},
    )


def _engine_image(spec: Json) -> str:
    engine: Json = next((each for each in spec.get("containers") or () if each.get("name") == ENGINE_CONTAINER), {})
    return str(engine.get("image") or "")


def _servers(meta: Json) -> int | None:
    told = str((meta.get("labels") or {}).get(labels.SERVERS) or "")
    return int(told) if _DIGIT.fullmatch(told) else None


def accelerator_like(quantities: Mapping[str, Any]) -> Devices:
    """Extended resources of a vendor's domain as whole devices, sorted; others and unreadable amounts are left out."""
    devices = ((name, _whole(value)) for name, value in quantities.items() if _is_extended(name))
    return tuple(sorted((name, count) for name, count in devices if count is not None))


def pod_requests(spec: Json) -> Devices:
    """Devices that the scheduler counts: the sum over containers and sidecars, or more while an init container runs.

    That one runs beside the sidecars that stand before it.
    """
    beside: dict[str, int] = {}
    most: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _sum(beside, _requests(container))
        if container.get("restartPolicy") == "Always":
            beside = asked
        else:
            most = _larger(most, asked)
    for container in spec.get("containers") or ():
        beside = _sum(beside, _requests(container))
    return tuple(sorted(_larger(beside, most).items()))


def _sum(one: dict[str, int], other: Devices) -> dict[str, int]:
    return one | {name: one.get(name, 0) + count for name, count in other} if other else one


def _larger(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one | other}


def scheduler_words(condition: Json) -> str:
    """Why the scheduler does not bind a pod, or nothing. That it may not do so yet is no word of it.

    Our pods are pinned to one node each, so what it counts of all the others is left out: it says nothing about the
    pod, and would change with every node that comes or goes.
    """
    if condition.get("status") != "False" or condition.get("reason") == "SchedulingGated":
        return ""
    said = str(condition.get("message") or "").strip()
    listed = _NODES_COUNTED.match(said)
    if listed is None:
        return said.partition(" preemption:")[0]
    reasons = [reason.partition(" ")[2] for reason in _EACH_COUNT.split(listed["reasons"])]
    telling = [reason for reason in reasons if not _OTHER_NODES.search(reason)]
    return ", ".join(telling or reasons)


def read_failure(status: Json, sidecars: Collection[str] = ()) -> ContainerFailure | None:
    """How the kubelet ended the whole pod, else how a container ended or why it cannot start; else None.

    A pod that is evicted kills its containers: that they were killed is no news then. One whose containers ended by
    themselves has no reason of its own. The kubelet starts `sidecars` anew: one that ended is no failure before it does
    so again and again.
    """
    failed, reason = status.get("phase") == "Failed", str(status.get("reason") or "")
    if failed and reason:
        return ContainerFailure(reason, str(status.get("message") or ""))
    for container in _container_statuses(status):
        failure = _container_failure(container, restarts=container.get("name") in sidecars)
        if failure is not None:
            return failure
    return ContainerFailure("Failed", str(status.get("message") or "")) if failed else None


def _sidecars(spec: Json) -> set[str]:
    """Names of containers that run beside the others and are started anew: ours, and those that a mesh injects."""
    return {str(c.get("name")) for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}


def _container_failure(container: Json, *, restarts: bool) -> ContainerFailure | None:
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    crashes = waiting.get("reason") == _CRASHES
    if waiting.get("reason", "") not in _WAITING_IS_NORMAL and not crashes:
        return ContainerFailure(str(waiting["reason"]), str(waiting.get("message") or ""))
    if restarts and not crashes:
        return None
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
    if not ended or (container.get("_init") and ended.get("exitCode") == 0):
        return None
    return ContainerFailure(str(ended.get("reason") or "Error"), str(ended.get("message") or ""), ended.get("exitCode"))


def _container_statuses(status: Json) -> list[Json]:
    init = [{**c, "_init": True} for c in status.get("initContainerStatuses") or ()]
    return [*(status.get("containerStatuses") or ()), *init]


def _stopped(condition: Json) -> tuple[str, str] | None:
    if condition.get("status") != "True":
        return None
    return str(condition.get("reason") or ""), str(condition.get("message") or "")


def _released(meta: Json, scheduled: Json) -> float | None:
    """When the last gate went away: binding says it exactly; before that, the last patch of the pod removed it.

    Ours, or that of the scheduler which the pod was handed over to.
    """
    if scheduled.get("status") == "True":
        return known_instant(scheduled.get("lastTransitionTime"))
    managers = {labels.CONVERGE_MANAGER} | ({kueue.MANAGER} if kueue.QUEUE in (meta.get("labels") or {}) else set())
    ours = [
        known_instant(entry.get("time"))
        for entry in meta.get("managedFields") or ()
        if entry.get("manager") in managers and not entry.get("subresource")
    ]
    return max((time for time in ours if time is not None), default=known_instant(meta.get("creationTimestamp")))


def _tainted(meta: Json) -> float | None:
    """When the list of taints was written last: it is one value, which belongs to whoever changed it last."""
    entries = [each for each in meta.get("managedFields") or () if not each.get("subresource")]
    owned = [each for each in entries if "f:taints" in ((each.get("fieldsV1") or {}).get("f:spec") or {})]
    times = (known_instant(each.get("time")) for each in owned)
    return min((time for time in times if time is not None), default=None)


def _loading(status: Json) -> float | None:
    """When the engine's container began to run; None before, and once its startup probe was answered."""
    for container in status.get("containerStatuses") or ():
        if container.get("name") == ENGINE_CONTAINER and not container.get("started"):
            return known_instant(((container.get("state") or {}).get("running") or {}).get("startedAt"))
    return None


def _download(status: Json) -> Download | None:
    """What the init container for weights does or did; None where there is none, or before it runs."""
    for container in status.get("initContainerStatuses") or ():
        state = container.get("state") or {}
        ended = state.get("terminated") or {}
        begun = known_instant((state.get("running") or ended).get("startedAt"))
        if container.get("name") == WARM_UP_CONTAINER and begun is not None:
            return Download(begun, done=bool(ended))
    return None


def _phase(status: Json) -> PodPhase:
    phase = status.get("phase", "Pending")
    return PodPhase(phase) if phase in PodPhase.__members__ else PodPhase.Unknown


def _condition(status: Json, kind: str) -> Json:
    found: Json = next((c for c in status.get("conditions") or () if c.get("type") == kind), {})
    return found


def _faults(status: Json) -> Iterable[str]:
    """Types of the few conditions that tell of a fault of the node's GPUs."""
    for condition in status.get("conditions") or ():
        kind = condition.get("type")
        if kind in FAULT_CONDITIONS and condition.get("status") == FAULT_CONDITIONS[kind]:
            yield kind


def _requests(container: Json) -> Devices:
    """Devices of one container; what is no amount above zero is left out."""
    resources = container.get("resources") or {}
    asked = accelerator_like({**(resources.get("limits") or {}), **(resources.get("requests") or {})})
    return tuple((name, count) for name, count in asked if count > 0)


def _is_extended(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def _amounts(quantities: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    """Every readable quantity, sorted by name."""
    for name, value in sorted(quantities.items()):
        try:
            yield name, parse_quantity(str(value))
        except Invalid:
            continue


def _whole(value: object) -> int | None:
    try:
        return int(parse_quantity(str(value)))
    except (Invalid, OverflowError):
        return None
