"""The pods of one replica: gated, marked for their scheduler, restricted, and never restarted in place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain import labels
from weft.domain.errors import Bug
from weft.domain.reasons import Reason
from weft.domain.relaxations import refuse_relaxations
from weft.domain.spec import RouterKind, SchedulerName
from weft.engines import LaunchRequest, adapter_for, engine_label
from weft.engines.kv.disks import EPHEMERAL
from weft.render import names
from weft.render.compute_domain import CLAIM, domain_name_of
from weft.render.container import file_annotations, render_container, render_volumes
from weft.render.facts import checkpoint_precision, device_resource
from weft.render.gateway import picker_labels
from weft.render.metadata import child_metadata, pool_labels
from weft.render.security import pod_security
from weft.render.sidecar import render_sidecar
from weft.render.warm_up import warm_up
from weft.schedulers import ReplicaPod, scheduler_for

if TYPE_CHECKING:
    from weft.domain.shape import Plan
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import PoolSpec, Toleration
    from weft.domain.status import Assignment
    from weft.engines import ContainerLaunch
    from weft.render.metadata import Json
    from weft.schedulers import Marks

ENGINE_CONTAINER = "engine"
COMPONENT = "app.kubernetes.io/component"
# Extended resources need equal limits; CPU has a request only, because a limit on it throttles the engine.
_REQUEST_ONLY = {"cpu"}


def render_pods(pool: PoolRecord, assignment: Assignment) -> tuple[Json, ...]:
    """One pod per rank, in order of rank.

    Raises `Invalid` for a request that the engine cannot fulfil, or that the administrator no longer allows.
    """
    return tuple(_render_pod(pool, assignment, rank) for rank in range(assignment.pods))


def _render_pod(pool: PoolRecord, assignment: Assignment, rank: int) -> Json:
    spec, plan = _planned(pool)
    refuse_relaxations(spec)
    request = LaunchRequest(
        spec,
        plan,
        rank,
        names.leader_host(pool.key, assignment.replica),
        checkpoint_precision(spec.model),
    )
    launch = replace(adapter_for(plan.shape.engine).launch(request), huge_pages=spec.engine.huge_pages)
    marks = _marks(pool, assignment, rank)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(pool, assignment, rank, launch, marks),
        "spec": {
            **_placement(spec, plan, marks),
            **_identity(pool, assignment, rank),
            **_user_fields(spec),
            "restartPolicy": "Never",
            "enableServiceLinks": False,  # a Service named `vllm` would set VLLM_PORT to a URL
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": launch.grace_seconds,
            "securityContext": pod_security(spec.pod.groups),
            **_claims(pool, assignment),
            **_before_the_engine(spec, plan, launch, rank),
            "containers": [_engine_container(spec, plan, launch, assignment)],
            "volumes": render_volumes(launch),
        },
    }


def _metadata(pool: PoolRecord, assignment: Assignment, rank: int, launch: ContainerLaunch, marks: Marks) -> Json:
    spec, _ = _planned(pool)
    tags = {**_pod_labels(pool, assignment, rank, launch), **dict(marks.labels)}
    meta = child_metadata(names.pod_name(pool.key, assignment.replica, rank), pool.key, tags)
    notes = {
        **dict(spec.pod.annotations),
        **dict(launch.annotations),
        **dict(marks.annotations),
        **file_annotations(launch),
    }
    return {**meta, "annotations": notes} if notes else meta


def _planned(pool: PoolRecord) -> tuple[PoolSpec, Plan]:
    if pool.spec is None or pool.status.plan is None:
        raise Bug(Reason.SpecInvalid, f"{pool.key} has assignments but no plan")
    return pool.spec, pool.status.plan


def _pod_labels(pool: PoolRecord, assignment: Assignment, rank: int, launch: ContainerLaunch) -> dict[str, str]:
    spec, plan = _planned(pool)
    ours = {
        **pool_labels(pool),
        labels.ENGINE_NAME: engine_label(plan.engine.name),
        "app.kubernetes.io/instance": pool.key.name,
        **told_by_name(pool.key.name, pool.key.uid, assignment.replica, rank),
        labels.REVISION: assignment.revision,
    }
    if spec.pair:
        ours[labels.PAIR] = spec.pair
    if launch.api_servers is not None:
        ours[labels.SERVERS] = str(launch.api_servers)
    if _takes_requests(launch, rank):
        ours[labels.ROUTED] = "true"
    if spec.has_sidecar and pool.split_uid is not None:
        ours[labels.SPLIT_UID] = pool.split_uid
    known = picker_labels(spec.role, plan.engine.name) if spec.router.kind is RouterKind.Gateway else {}
    return {**known, **dict(spec.pod.labels), **ours}


def told_by_name(pool: str, pool_uid: str, replica: int, rank: int) -> dict[str, str]:
    """Labels that follow from a pod's name and controller, by which routers, Services and budgets find it."""
    return {
        labels.MANAGED_BY: labels.MANAGED_BY_WEFT,
        labels.POOL: pool,
        labels.POOL_UID: pool_uid,
        COMPONENT: ENGINE_CONTAINER,
        labels.REPLICA: str(replica),
        labels.RANK: str(rank),
    }


def _takes_requests(launch: ContainerLaunch, rank: int) -> bool:
    return rank == 0 if launch.api_servers is None else launch.api_servers > 0


def _before_the_engine(spec: PoolSpec, plan: Plan, launch: ContainerLaunch, rank: int) -> Json:
    """The init containers: one that downloads weights, and the sidecar of an engine behind a Gateway."""
    beside = spec.has_sidecar and _takes_requests(launch, rank)
    found = [
        *warm_up(spec, launch, plan.engine.image, adapter_for(plan.engine.name).port),
        *([render_sidecar(spec.router, plan.engine.name)] if beside else []),
    ]
    return {"initContainers": found} if found else {}


def _marks(pool: PoolRecord, assignment: Assignment, rank: int) -> Marks:
    """What the pod carries for its scheduler, by the assignment, which an edited spec does not change."""
    spec, _ = _planned(pool)
    handover = assignment.handover
    scheduler = scheduler_for(SchedulerName.Default if handover is None else handover.scheduler)
    node = assignment.nodes[rank] if handover is None else None
    group, shared = names.replica_name(pool.key, assignment.replica), assignment.compute_domain
    clique = "" if shared is None else shared.cliques[rank]
    return scheduler.marks(ReplicaPod(group, rank, node, handover, spec.placement.node_selector, clique))


def _claims(pool: PoolRecord, assignment: Assignment) -> Json:
    """The pod's claim, from the template that the driver creates for its ComputeDomain.

    One per pod is enough: pods of one ComputeDomain are on different nodes.
    """
    if assignment.compute_domain is None:
        return {}
    return {"resourceClaims": [{"name": CLAIM, "resourceClaimTemplateName": domain_name_of(pool.key, assignment)}]}


def _placement(spec: PoolSpec, plan: Plan, marks: Marks) -> Json:
    """Gates, node affinity and tolerations: the user's, and one for the taint of nodes reserved for their devices."""
    device = {"key": device_resource(plan.shape), "operator": "Exists", "effect": "NoSchedule"}
    found: Json = {
        "schedulingGates": [{"name": gate} for gate in (labels.GATE, *marks.gates)],
        "nodeSelector": dict(marks.node_selector),
        "affinity": _affinity(marks),
        "tolerations": [*(_toleration(toleration) for toleration in spec.placement.tolerations), device],
    }
    return {name: value for name, value in found.items() if value}


def _affinity(marks: Marks) -> Json:
    """One required node affinity term, of fields or of labels of the node."""
    parts = (("matchFields", marks.fields), ("matchExpressions", marks.expressions))
    term = {
        kind: [{"key": key, "operator": "In", "values": list(values)} for key, values in wanted]
        for kind, wanted in parts
        if wanted
    }
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}} if term else {}


def _toleration(toleration: Toleration) -> Json:
    fields: Json = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    if toleration.seconds is not None:
        fields["tolerationSeconds"] = toleration.seconds
    return {key: value for key, value in fields.items() if value != ""}


def _identity(pool: PoolRecord, assignment: Assignment, rank: int) -> Json:
    """Hostname and subdomain, by which the pods of a replica find each other."""
    if assignment.pods == 1:
        return {}
    return {
        "hostname": names.host_name(pool.key, assignment.replica, rank),
        "subdomain": names.ranks_service_name(pool.key),
    }


def _user_fields(spec: PoolSpec) -> Json:
    pod = spec.pod
    fields: Json = {
        "serviceAccountName": pod.service_account,
        "runtimeClassName": pod.runtime_class,
        "priorityClassName": pod.priority_class,
        "imagePullSecrets": [{"name": name} for name in pod.image_pull_secrets] or None,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _engine_container(spec: PoolSpec, plan: Plan, launch: ContainerLaunch, assignment: Assignment) -> Json:
    claims = {"claims": [{"name": CLAIM}]} if assignment.compute_domain is not None else {}
    return {
        **render_container(launch, ENGINE_CONTAINER, spec.pod.relaxations),
        "image": plan.engine.image,
        "resources": {**_resources(spec, plan, launch), **claims},
    }


def _resources(spec: PoolSpec, plan: Plan, launch: ContainerLaunch) -> Json:
    """Devices by the shape, and the user's amounts; extended resources must have equal requests and limits."""
    requests = {**dict(spec.engine.resources), device_resource(plan.shape): str(plan.shape.gpus_per_pod)}
    limits = {name: amount for name, amount in requests.items() if name not in _REQUEST_ONLY}
    if launch.disk_bytes:  # the volume has the limit, so that logs do not count against it
        requests[EPHEMERAL] = str(launch.disk_bytes)
    return {"requests": requests, "limits": limits}
