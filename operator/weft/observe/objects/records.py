"""Kubernetes objects, from plain JSON to the frozen records of the domain. Pure: no client types, no IO."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.domain import labels
from weft.domain.cluster import Download, NodeRecord, ObjectRecord, PodPhase, PodRecord, Taint
from weft.domain.texts.times import known_instant
from weft.fabric.faults import FAULT_CONDITIONS
from weft.observe.objects.amounts import accelerator_like, amounts, pod_requests
from weft.observe.objects.identity import controller_uid, identify
from weft.observe.objects.pod_words import read_failure, scheduler_words, unready_since
from weft.observe.objects.starts import read_start, startup_seconds
from weft.render import ENGINE_CONTAINER, WARM_UP_CONTAINER
from weft.schedulers import kueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.observe.objects.identity import Identified

Json = dict[str, Any]

_OF_SERVERS = re.compile("http(-[0-9]+)?")  # names of ports that take requests, one for each API server


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
        offers=tuple(amounts(status.get("allocatable") or {})),
        faults=tuple(sorted(_faults(status))),
        deleting=meta.get("deletionTimestamp") is not None,
        tainted=_tainted(meta) if spec.get("taints") else None,
    )


def read_pod(body: Json) -> PodRecord | None:
    """A Pod that is ours, belongs to our router, or requests accelerator-like resources; None for every other pod."""
    meta = body["metadata"]
    requests, identified = pod_requests(body.get("spec") or {}), identify(meta)
    # anybody may write a label: it must not hide what a pod requests
    front_of = None if identified or requests else (meta.get("labels") or {}).get(labels.FRONT_OF)
    if identified is None and not requests and not front_of:
        return None
    pod = _read_any(body, requests, front_of or None)
    return pod if identified is None else _of_a_replica(pod, identified, body)


def _read_any(body: Json, requests: tuple[tuple[str, int], ...], front_of: str | None) -> PodRecord:
    """The part that is read of every pod; `front_of` is the UID of the pool or split that a router serves."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    tags, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    gates = {str(gate.get("name")) for gate in spec.get("schedulingGates") or ()}
    return PodRecord(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        phase=_phase(status),
        node=spec.get("nodeName") or status.get("nominatedNodeName") or None,
        requests=requests,
        gated=labels.GATE in gates,
        queued=bool(gates - {labels.GATE}),
        ready=_condition(status, "Ready").get("status") == "True",
        routed=tags.get(labels.ROUTED) == "true",
        terminating=meta.get("deletionTimestamp") is not None,
        created=known_instant(meta.get("creationTimestamp")) or 0.0,
        ip=status.get("podIP") or None,
        message=scheduler_words(_condition(status, "PodScheduled")),
        failure=read_failure(status, spec),
        priority=int(spec.get("priority") or 0),
        stopped=_stopped(_condition(status, kueue.TAKEN_AWAY)),
        front_of=front_of,
        pair=tags.get(labels.PAIR, ""),
        engine=tags.get(labels.ENGINE if front_of else labels.ENGINE_NAME, ""),
        unrouted=known_instant(notes.get(labels.UNROUTED)),
        relabelled=known_instant(notes.get(labels.RELABELLED)),
        gone_by=known_instant(meta.get("deletionTimestamp")) if front_of else None,
    )


def _of_a_replica(pod: PodRecord, identified: Identified, body: Json) -> PodRecord:
    """The record with what only pods of our replicas have."""
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    waits, servers = pod.gated or pod.queued, _servers(meta, spec)
    return replace(
        pod,
        identity=identified.identity,
        mislabelled=(*identified.mislabelled, *_servers_edited(meta, servers)),
        released=None if waits else _released(meta, _condition(status, "PodScheduled")),
        image=_engine_image(spec),
        gone_by=known_instant(meta.get("deletionTimestamp")),
        startup_seconds=startup_seconds(status),
        start=read_start(status, identified.identity),
        loading=_loading(status),
        download=_download(status),
        servers=servers,
        foreign_gate=_foreign_gate(spec),
        split_uid=str((meta.get("labels") or {}).get(labels.SPLIT_UID) or ""),
        unprepared=_condition(status, "PodReadyToStartContainers").get("status") == "False",
        unready=unready_since(status, _condition(status, "ContainersReady")),
    )


def no_sooner_released(before: PodRecord, pod: PodRecord, now: float) -> PodRecord:
    """The record of a pod that follows `before`: released `now` if a gate of somebody else fell in between.

    The API server does not note when that was. Until the pod is bound, its releases are only ever later.
    """
    if pod.uid != before.uid or pod.released is None or pod.bound:
        return pod
    known = now if before.foreign_gate else before.released
    return pod if known is None else replace(pod, released=max(known, pod.released))


def read_object(body: Json) -> ObjectRecord:
    """A namespaced object of ours, complete except for `managedFields`."""
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


def _foreign_gate(spec: Json) -> str:
    gates = {str(gate.get("name")) for gate in spec.get("schedulingGates") or ()}
    return min(gates - {labels.GATE}, default="")


def _servers(meta: Json, spec: Json) -> int | None:
    """API servers of a pod that is labelled with a number of them; anybody may edit that one, and nobody its ports."""
    if labels.SERVERS not in (meta.get("labels") or {}):
        return None
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    named = {str(port.get("name")) for each in containers for port in each.get("ports") or ()}
    return sum(_OF_SERVERS.fullmatch(name) is not None for name in named)


def _servers_edited(meta: Json, servers: int | None) -> tuple[tuple[str, str], ...]:
    """The label with the number of servers as it should be, if it is there and says another one."""
    wrong = servers is not None and meta["labels"][labels.SERVERS] != str(servers)
    return ((labels.SERVERS, str(servers)),) if wrong else ()


def _stopped(condition: Json) -> tuple[str, str] | None:
    if condition.get("status") != "True":
        return None
    return str(condition.get("reason") or ""), str(condition.get("message") or "")


def _released(meta: Json, scheduled: Json) -> float | None:
    """When the last gate was removed: binding says it exactly; before that, the last patch of the pod removed it.

    The gate is ours, or that of the scheduler to which the pod was handed over.
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
    """When the taints were last written: the list is one field, owned by whoever changed it last."""
    entries = [each for each in meta.get("managedFields") or () if not each.get("subresource")]
    owned = [each for each in entries if "f:taints" in ((each.get("fieldsV1") or {}).get("f:spec") or {})]
    times = (known_instant(each.get("time")) for each in owned)
    return min((time for time in times if time is not None), default=None)


def _loading(status: Json) -> float | None:
    """When the engine's container started to run; None before, and after its startup probe succeeded."""
    for container in status.get("containerStatuses") or ():
        if container.get("name") == ENGINE_CONTAINER and not container.get("started"):
            return known_instant(((container.get("state") or {}).get("running") or {}).get("startedAt"))
    return None


def _download(status: Json) -> Download | None:
    """The init container's download of weights; None if there is none, or before it runs."""
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
    """Types of the conditions that report a fault of the node's GPUs."""
    for condition in status.get("conditions") or ():
        kind = condition.get("type")
        if kind in FAULT_CONDITIONS and condition.get("status") == FAULT_CONDITIONS[kind]:
            yield kind
