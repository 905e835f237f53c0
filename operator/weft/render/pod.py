"""The pods of one replica: gated, pinned to their nodes, restricted, and never restarted in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain import labels
from weft.domain.errors import Bug
from weft.domain.reasons import Reason
from weft.engines import LaunchRequest, adapter_for
from weft.render import names
from weft.render.container import render_container, render_volumes
from weft.render.facts import checkpoint_precision, device_resource
from weft.render.metadata import child_metadata, pool_labels
from weft.render.security import pod_security

if TYPE_CHECKING:
    from weft.domain.shape import Plan
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import PoolSpec, Toleration
    from weft.domain.status import Assignment
    from weft.engines import ContainerLaunch
    from weft.render.metadata import Json

ENGINE_CONTAINER = "engine"
COMPONENT = "app.kubernetes.io/component"
# The scheduler counts these from limits too; CPU has a request only, because a limit on it throttles the engine.
_REQUEST_ONLY = {"cpu"}


def render_pods(pool: PoolRecord, assignment: Assignment) -> tuple[Json, ...]:
    """One pod a rank, in order of rank; raises `Invalid` for a wish that the engine cannot fulfil."""
    return tuple(_render_pod(pool, assignment, rank) for rank in range(len(assignment.nodes)))


def _render_pod(pool: PoolRecord, assignment: Assignment, rank: int) -> Json:
    spec, plan = _planned(pool)
    request = LaunchRequest(
        spec,
        plan,
        rank,
        names.leader_host(pool.key, assignment.replica),
        checkpoint_precision(spec.model),
    )
    launch = adapter_for(plan.shape.engine).launch(request)
    meta = child_metadata(
        names.pod_name(pool.key, assignment.replica, rank), pool.key, _pod_labels(pool, assignment, rank)
    )
    if spec.pod.annotations:
        meta["annotations"] = dict(spec.pod.annotations)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            **_placement(spec, plan, assignment.nodes[rank]),
            **_identity(pool, assignment, rank),
            **_user_fields(spec),
            "restartPolicy": "Never",
            "enableServiceLinks": False,  # a Service named `vllm` would set VLLM_PORT to a URL
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": launch.grace_seconds,
            "securityContext": pod_security(),
            "containers": [_engine_container(spec, plan, launch)],
            "volumes": render_volumes(launch),
        },
    }


def _planned(pool: PoolRecord) -> tuple[PoolSpec, Plan]:
    if pool.spec is None or pool.status.plan is None:
        raise Bug(Reason.SpecInvalid, f"{pool.key} has assignments but no plan")
    return pool.spec, pool.status.plan


def _pod_labels(pool: PoolRecord, assignment: Assignment, rank: int) -> dict[str, str]:
    spec, plan = _planned(pool)
    ours = {
        **pool_labels(pool),
        "app.kubernetes.io/name": plan.engine.name.value.lower(),
        "app.kubernetes.io/instance": pool.key.name,
        COMPONENT: ENGINE_CONTAINER,
        labels.REPLICA: str(assignment.replica),
        labels.RANK: str(rank),
        labels.REVISION: assignment.revision,
    }
    if rank == 0:
        ours[labels.ROUTED] = "true"
    return {**dict(spec.pod.labels), **ours}


def _placement(spec: PoolSpec, plan: Plan, node: str) -> Json:
    """The gate, the one node, and tolerations: the user's and one for nodes set aside for their own devices."""
    device = {"key": device_resource(plan.shape), "operator": "Exists", "effect": "NoSchedule"}
    pinned = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"nodeSelectorTerms": [pinned]}
    return {
        "schedulingGates": [{"name": labels.GATE}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "tolerations": [*(_toleration(toleration) for toleration in spec.placement.tolerations), device],
    }


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
    """A DNS name for pods that have to find each other."""
    if len(assignment.nodes) == 1:
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


def _engine_container(spec: PoolSpec, plan: Plan, launch: ContainerLaunch) -> Json:
    return {
        **render_container(launch, ENGINE_CONTAINER),
        "image": plan.engine.image,
        "resources": _resources(spec, plan),
    }


def _resources(spec: PoolSpec, plan: Plan) -> Json:
    """Devices by the shape and the user's own amounts; extended resources must have equal requests and limits."""
    requests = {**dict(spec.engine.resources), device_resource(plan.shape): str(plan.shape.gpus_per_pod)}
    limits = {name: amount for name, amount in requests.items() if name not in _REQUEST_ONLY}
    return {"requests": requests, "limits": limits}
