"""Nodes without machines: kwok keeps them ready and plays the part of the kubelet for their pods.

Pods get loopback addresses, so a process on this machine can bind a pod's address and answer for it. Every cluster has
510 of its own: what answers for a pod of one is not heard in another.
What a pod goes through, and the annotations that steer it, is in stages.yaml.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kubernetes import client

from e2e.cluster import build
from e2e.cluster.binaries import known_binaries
from e2e.cluster.presets import SimulatedNode, Taint, h200_boards, mi300x_boards, nvl72_rack, plain_nodes
from e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterable

    from e2e.cluster.control_plane import ControlPlane

__all__ = [
    "SimulatedNode",
    "Simulation",
    "Taint",
    "add_nodes",
    "fail_node",
    "h200_boards",
    "lose_devices",
    "mi300x_boards",
    "nvl72_rack",
    "plain_nodes",
    "recover_node",
    "silence_node",
    "start",
]

NODE_ANNOTATION = "kwok.x-k8s.io/node"
READY_ANNOTATION = "sim.weft.dev/ready"
READY_AFTER_ANNOTATION = "sim.weft.dev/ready-after-seconds"
STOP_AFTER_ANNOTATION = "sim.weft.dev/stop-after-seconds"
FAILED_ANNOTATION = "sim.weft.dev/failed"
LEASES = "kube-node-lease"
PROCESS = "kwok"
NOT_FOUND = 404
_STAGES = Path(__file__).with_name("stages.yaml")
_NEVER_SECONDS = 2**31 - 1  # how long a lease lasts that nobody may take over: 68 years


@dataclass(frozen=True, slots=True)
class Simulation:
    """How simulated pods behave unless their annotations say otherwise."""

    ready_after_seconds: float | None = 1.0  # None: never on their own, only by the annotation sim.weft.dev/ready
    stop_after_seconds: float = 0.0  # from deletion until gone; never more than the pod's grace
    node_lease_seconds: int | None = None  # renewed four times in that; unset: 20, or the node monitor's grace if less


def start(cluster: ControlPlane, simulation: Simulation | None = None) -> None:
    """Start kwok for a cluster; it ends with the cluster. Real nodes are left alone."""
    kwok = build.ensure([PROCESS])[PROCESS]
    settings = simulation or Simulation()
    configuration = cluster.directory / "kwok.yaml"
    configuration.write_text(stages(settings))
    flags = {
        "config": configuration,
        "kubeconfig": cluster.kubeconfig_for_user(PROCESS, ["system:masters"]),
        "manage-nodes-with-annotation-selector": f"{NODE_ANNOTATION}=fake",
        "cidr": pod_network(cluster),
        "node-lease-duration-seconds": settings.node_lease_seconds or _lease_seconds(cluster),
    }
    cluster.processes.start(PROCESS, [kwok, *(f"--{flag}={value}" for flag, value in flags.items())])


def pod_network(cluster: ControlPlane) -> ipaddress.IPv4Network:
    """Return the addresses of a cluster's pods: the port of its API server chooses one of 32,767 /23 in 127.0.0.0/8."""
    block = (cluster.port & 0x7FFF) or 1  # not the one with 127.0.0.1
    return ipaddress.IPv4Network(f"127.{block >> 7}.{(block & 0x7F) << 1}.0/23")


def _lease_seconds(cluster: ControlPlane) -> int:
    """Renewals every 5 s, as often as 300 nodes can afford, or four times in the grace of the node monitor."""
    return max(1, min(20, int(cluster.options.node_monitor_grace_seconds)))


def stages(simulation: Simulation) -> str:
    """Return kwok's stages with the defaults filled in."""
    after = simulation.ready_after_seconds
    return (
        _STAGES.read_text()
        .replace("@READY@", "false" if after is None else "true")
        .replace("@READY_AFTER@", f"{after or 0:g}")
        .replace("@STOP_AFTER@", f"{simulation.stop_after_seconds:g}")
    )


def add_nodes(cluster: ControlPlane, nodes: Iterable[SimulatedNode], *, timeout_seconds: float = 60.0) -> None:
    """Create simulated nodes and return when all are ready; starts kwok with defaults if it does not run."""
    if PROCESS not in cluster.processes:
        start(cluster)
    names = []
    with cluster.api_client() as api:
        core = client.CoreV1Api(api)
        for node in nodes:
            core.create_node(cast("client.V1Node", node_object(node)))  # it takes a manifest just as well
            names.append(node.name)
        _wait_until_ready(api, names, timeout_seconds)


def _wait_until_ready(api: client.ApiClient, names: Iterable[str], timeout_seconds: float) -> None:
    wanted = set(names)
    eventually(
        lambda: wanted <= usable_nodes(api),
        f"nodes are ready: {names}",
        timeout_seconds=timeout_seconds,
        interval_seconds=0.2,  # a list of all nodes is large
    )


def usable_nodes(api: client.ApiClient) -> set[str]:
    """Return the names of the nodes that are Ready and that the control plane lets pods go to."""
    answer: Any = client.CoreV1Api(api).list_node(resource_version="0", _preload_content=False)
    nodes = json.loads(answer.data)["items"]  # ten times as fast as typed objects
    return {node["metadata"]["name"] for node in nodes if _is_ready(node) and not _is_kept_from_pods(node)}


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _is_kept_from_pods(node: dict[str, Any]) -> bool:
    return any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", []))


def _plain(api: client.ApiClient, answer: object) -> Any:  # noqa: ANN401 - JSON as the API server wrote it
    return api.sanitize_for_serialization(answer)


def node_object(node: SimulatedNode) -> dict[str, Any]:
    """Return the Node that stands for a simulated one."""
    resources = {"cpu": node.cpu, "memory": node.memory, "pods": str(node.pods), **node.extended_resources}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "annotations": {NODE_ANNOTATION: "fake"},
            "labels": {
                "kubernetes.io/hostname": node.name,
                "kubernetes.io/arch": node.architecture,
                "kubernetes.io/os": "linux",
                **node.labels,
            },
        },
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in node.taints]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": node.name},
            ],
            "nodeInfo": _node_info(node.architecture),
        },
    }


def _node_info(architecture: str) -> dict[str, str]:
    unknown = ("bootID", "machineID", "systemUUID", "kubeProxyVersion")
    return {
        **dict.fromkeys(unknown, ""),
        "architecture": architecture,
        "operatingSystem": "linux",
        "osImage": "simulated",
        "kernelVersion": "simulated",
        "containerRuntimeVersion": "simulated://1",
        "kubeletVersion": known_binaries()["kubelet"].component.version,
    }


def fail_node(cluster: ControlPlane, name: str) -> None:
    """Let a node say that it is not ready and then fall silent.

    Its pods keep their conditions, and deleted ones do not end, as on a real one.
    """
    _detach(cluster, name)
    now = _now()
    not_ready = {
        "type": "Ready",
        "status": "False",
        "reason": "KubeletNotReady",
        "message": "simulated failure",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    with cluster.api_client() as api:
        client.CoreV1Api(api).patch_node_status(name, {"status": {"conditions": [not_ready]}})


def silence_node(cluster: ControlPlane, name: str) -> None:
    """Let a node fall silent.

    After the node monitor's grace the controller manager calls it Unknown and its pods not ready. Deleted pods do
    not end.
    """
    _detach(cluster, name)


def recover_node(cluster: ControlPlane, name: str, *, timeout_seconds: float = 60.0) -> None:
    """Bring a failed or silent node back, with everything allocatable, and return when it is ready.

    Its pods are given back last: kwok looks at them once when it takes the node, and passes over all of them if it has
    not heard yet of the lease that it has just made. A change of theirs is what it sees for certain.
    """
    with cluster.api_client() as api:
        core = client.CoreV1Api(api)
        core.patch_node(name, _annotation(failed=None))
        core.patch_node_status(name, {"status": {"allocatable": _capacity(api, name)}})
        client.CoordinationV1Api(api).delete_namespaced_lease(name, LEASES)  # kwok takes the node back with a new one
        _wait_until_ready(api, [name], timeout_seconds)
        _mark_pods(api, name, failed=None)


def lose_devices(cluster: ControlPlane, name: str, resource: str, count: int) -> None:
    """Let devices of a node fall off: `allocatable` drops below `capacity`, as a device plugin reports it."""
    with cluster.api_client() as api:
        left = int(_capacity(api, name)[resource]) - count
        client.CoreV1Api(api).patch_node_status(name, {"status": {"allocatable": {resource: str(left)}}})


def _capacity(api: client.ApiClient, name: str) -> dict[str, str]:
    capacity: dict[str, str] = _plain(api, client.CoreV1Api(api).read_node(name))["status"]["capacity"]
    return capacity


def _detach(cluster: ControlPlane, name: str) -> None:
    """Keep kwok from speaking for a node and its pods, and from renewing its lease, which somebody else holds now."""
    lease = {"spec": {"holderIdentity": "failed", "leaseDurationSeconds": _NEVER_SECONDS, "renewTime": _now()}}
    with cluster.api_client() as api:
        client.CoreV1Api(api).patch_node(name, _annotation(failed="true"))
        _mark_pods(api, name, failed="true")
        client.CoordinationV1Api(api).patch_namespaced_lease(name, LEASES, lease)


def _mark_pods(api: client.ApiClient, node: str, *, failed: str | None) -> None:
    core = client.CoreV1Api(api)
    for pod in _plain(api, core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={node}"))["items"]:
        try:
            core.patch_namespaced_pod(pod["metadata"]["name"], pod["metadata"]["namespace"], _annotation(failed=failed))
        except client.ApiException as error:
            if error.status != NOT_FOUND:  # it ended meanwhile
                raise


def _annotation(*, failed: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {FAILED_ANNOTATION: failed}}}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
