"""Simulated nodes behave as real ones do, as far as a scheduler and an operator can see."""

from __future__ import annotations

import ipaddress
import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from e2e.cluster import simulated_nodes, simulated_pods
from e2e.cluster.presets import h200_boards, mi300x_boards, nvl72_rack, plain_nodes
from e2e.cluster.simulated_nodes import READY_AFTER_ANNOTATION, READY_ANNOTATION, STOP_AFTER_ANNOTATION
from e2e.cluster.simulated_pods import AfterCrash, Crash
from e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from e2e.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(180)]

PATIENCE_SECONDS = 60.0  # for what takes up to eight: a busy machine takes several times as long


class Pods:
    """Pods of one namespace on simulated boards, as plain JSON."""

    def __init__(self, api: client.ApiClient, namespace: str) -> None:
        self.api = api
        self.namespace = namespace
        self.core = client.CoreV1Api(api)

    def create(
        self, name: str, annotations: Mapping[str, str] | None = None, spec: Mapping[str, Any] | None = None
    ) -> None:
        container = {"name": "engine", "image": "engine", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        manifest: Any = {
            "metadata": {"name": name, "annotations": dict(annotations or {})},
            "spec": {"containers": [container], **(spec or {})},
        }
        self.core.create_namespaced_pod(self.namespace, manifest)

    def get(self, name: str) -> dict[str, Any]:
        pod: dict[str, Any] = self.api.sanitize_for_serialization(self.core.read_namespaced_pod(name, self.namespace))
        return pod

    def condition(self, name: str, kind: str = "Ready") -> str:
        conditions = self.get(name)["status"].get("conditions", [])
        return next((str(each["status"]) for each in conditions if each["type"] == kind), "absent")

    def expect(self, name: str, status: str, kind: str = "Ready") -> None:
        what = f"{kind} of {name} is {status}"
        eventually(lambda: self.condition(name, kind) == status, what, timeout_seconds=PATIENCE_SECONDS)

    def expect_gone(self, name: str) -> None:
        remaining = self.core.list_namespaced_pod
        eventually(
            lambda: name not in {each.metadata.name for each in remaining(self.namespace).items if each.metadata},
            f"{name} is gone",
            timeout_seconds=PATIENCE_SECONDS,
        )


@pytest.fixture(scope="module")
def boards(cluster: ControlPlane) -> None:
    simulated_nodes.add_nodes(cluster, h200_boards(2))


@pytest.fixture
def pods(boards: None, api: client.ApiClient, namespace: str) -> Pods:
    return Pods(api, namespace)


def test_a_pod_becomes_ready_at_a_loopback_address_that_a_process_can_serve(cluster: ControlPlane, pods: Pods) -> None:
    pods.create("engine")
    pods.expect("engine", "True")
    pod = pods.get("engine")
    assert pod["spec"]["nodeName"] in {"h200-0", "h200-1"}
    assert pod["status"]["phase"] == "Running"
    assert ipaddress.ip_address(pod["status"]["podIP"]) in simulated_nodes.pod_network(cluster)
    with socket.create_server((pod["status"]["podIP"], 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()


def test_a_pod_waits_until_it_is_told_that_it_is_ready(cluster: ControlPlane, pods: Pods) -> None:
    pods.create("engine", {READY_ANNOTATION: "false"})
    pods.expect("engine", "True", "Initialized")
    assert pods.condition("engine") == "False"
    simulated_pods.set_ready(cluster, pods.namespace, "engine", ready=True)
    pods.expect("engine", "True")
    simulated_pods.set_ready(cluster, pods.namespace, "engine", ready=False)
    pods.expect("engine", "False")


def test_writes_to_a_starting_pod_do_not_delay_it(pods: Pods) -> None:
    pods.create("engine", {READY_AFTER_ANNOTATION: "3"})
    pods.expect("engine", "True", "Initialized")

    def ready_while_written_to() -> bool:
        pods.core.patch_namespaced_pod("engine", pods.namespace, {"metadata": {"labels": {"seen": "often"}}})
        return pods.condition("engine") == "True"

    eventually(ready_while_written_to, "it is ready", timeout_seconds=PATIENCE_SECONDS, interval_seconds=0.2)


def test_a_readiness_gate_belongs_to_whom_it_names(pods: Pods) -> None:
    """A pod with an unmet gate is not ready, and the simulation never meets a gate itself."""
    pods.create("engine", spec={"readinessGates": [{"conditionType": "example.com/paired"}]})
    pods.expect("engine", "True", "ContainersReady")
    assert pods.condition("engine") == "False"
    for status in ("True", "False"):
        gate = {"status": {"conditions": [{"type": "example.com/paired", "status": status}]}}
        pods.core.patch_namespaced_pod_status("engine", pods.namespace, gate)
        pods.expect("engine", status)


def test_a_crashed_container_restarts_and_is_ready_again(cluster: ControlPlane, pods: Pods) -> None:
    pods.create("engine", {READY_AFTER_ANNOTATION: "2"})
    pods.expect("engine", "True")
    simulated_pods.crash_container(cluster, pods.namespace, "engine", Crash(exit_code=137, reason="OOMKilled"))
    assert pods.condition("engine") == "False"
    pods.expect("engine", "True")
    (container,) = pods.get("engine")["status"]["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["reason"] == "OOMKilled"


@pytest.mark.parametrize(("after", "phase"), [(AfterCrash.BACK_OFF, "Running"), (AfterCrash.FAIL, "Failed")])
def test_a_container_that_stays_down_keeps_its_pod_from_being_ready(
    cluster: ControlPlane, pods: Pods, after: AfterCrash, phase: str
) -> None:
    pods.create("engine")
    pods.expect("engine", "True")
    simulated_pods.crash_container(cluster, pods.namespace, "engine", Crash(after=after))
    pods.expect("engine", "False")
    assert pods.get("engine")["status"]["phase"] == phase


def test_a_deleted_pod_ends_at_the_latest_when_its_grace_is_over(pods: Pods) -> None:
    pods.create("quick", spec={"terminationGracePeriodSeconds": 600})
    pods.create("slow", {STOP_AFTER_ANNOTATION: "600"}, spec={"terminationGracePeriodSeconds": 3})
    for name in ("quick", "slow"):
        pods.expect(name, "True")
        pods.core.delete_namespaced_pod(name, pods.namespace)
    assert pods.get("slow")["metadata"]["deletionGracePeriodSeconds"] == 3
    pods.expect_gone("quick")
    pods.expect_gone("slow")


def test_a_foreign_finalizer_is_respected(pods: Pods) -> None:
    pods.create("engine")
    pods.expect("engine", "True")
    pods.core.patch_namespaced_pod("engine", pods.namespace, {"metadata": {"finalizers": ["example.com/kept"]}})
    pods.core.delete_namespaced_pod("engine", pods.namespace)
    eventually(lambda: pods.get("engine")["metadata"]["deletionGracePeriodSeconds"] == 0, "its containers have ended")
    assert pods.get("engine")["metadata"]["finalizers"] == ["example.com/kept"]
    pods.core.patch_namespaced_pod("engine", pods.namespace, {"metadata": {"finalizers": None}})
    pods.expect_gone("engine")


def test_a_silent_node_takes_its_pods_readiness_along_and_brings_it_back(cluster: ControlPlane, pods: Pods) -> None:
    pods.create("engine")
    pods.expect("engine", "True")
    node = pods.get("engine")["spec"]["nodeName"]
    simulated_nodes.silence_node(cluster, node)
    pods.expect("engine", "False")
    assert _ready(pods.api, node) == "Unknown"
    simulated_nodes.recover_node(cluster, node)
    pods.expect("engine", "True")


def test_kwok_hears_of_the_pods_of_a_node_that_it_has_taken_back(cluster: ControlPlane, pods: Pods) -> None:
    """In this order alone: what changed before its lease was made, it may never look at again."""
    pods.create("engine")
    pods.expect("engine", "True")
    node = pods.get("engine")["spec"]["nodeName"]
    simulated_nodes.fail_node(cluster, node)
    begins = cluster.audit_log.stat().st_size
    simulated_nodes.recover_node(cluster, node)
    with cluster.audit_log.open() as log:
        log.seek(begins)
        entries = [json.loads(line) for line in log if line.endswith("\n")]
    asked = [(each["user"]["username"], each["verb"], each.get("objectRef", {}).get("resource")) for each in entries]
    assert asked.index(("kwok", "create", "leases")) < asked.index(("admin", "patch", "pods"))


def test_a_failed_node_says_so_at_once(cluster: ControlPlane, boards: None, api: client.ApiClient) -> None:
    simulated_nodes.fail_node(cluster, "h200-1")
    assert _ready(api, "h200-1") == "False"
    simulated_nodes.recover_node(cluster, "h200-1")
    assert _ready(api, "h200-1") == "True"


def test_a_gpu_falls_off(cluster: ControlPlane, boards: None, api: client.ApiClient) -> None:
    simulated_nodes.lose_devices(cluster, "h200-1", "nvidia.com/gpu", 1)
    status = _node(api, "h200-1")["status"]
    assert (status["capacity"]["nvidia.com/gpu"], status["allocatable"]["nvidia.com/gpu"]) == ("8", "7")
    simulated_nodes.recover_node(cluster, "h200-1")
    assert _node(api, "h200-1")["status"]["allocatable"]["nvidia.com/gpu"] == "8"


def test_presets_carry_the_labels_of_real_nodes(cluster: ControlPlane, api: client.ApiClient) -> None:
    rack = nvl72_rack("rack-a", trays=2)
    simulated_nodes.add_nodes(cluster, [*rack, *mi300x_boards(1), *plain_nodes(1)])
    trays = [_node(api, tray.name) for tray in rack]
    assert len({tray["metadata"]["labels"]["nvidia.com/gpu.clique"] for tray in trays}) == 1
    assert {"4"} == {tray["status"]["allocatable"]["nvidia.com/gpu"] for tray in trays}
    assert {"NVIDIA-GB200"} == {tray["metadata"]["labels"]["nvidia.com/gpu.product"] for tray in trays}
    assert _node(api, "mi300x-0")["status"]["allocatable"]["amd.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in _node(api, "plain-0")["status"]["allocatable"]


def test_racks_are_domains_of_their_own() -> None:
    first, second = (nvl72_rack(name)[0].labels["nvidia.com/gpu.clique"] for name in ("rack-a", "rack-b"))
    assert first != second
    assert len(nvl72_rack("rack-a")) == 18


def _node(api: client.ApiClient, name: str) -> dict[str, Any]:
    node: dict[str, Any] = api.sanitize_for_serialization(client.CoreV1Api(api).read_node(name))
    return node


def _ready(api: client.ApiClient, name: str) -> str:
    conditions = _node(api, name)["status"]["conditions"]
    return next(str(each["status"]) for each in conditions if each["type"] == "Ready")
