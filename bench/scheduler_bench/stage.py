"""One cluster for all runs: 300 simulated nodes, Weft installed, and everything cleared between two runs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kubernetes import client

from e2e.cluster import build, simulated_nodes
from e2e.cluster.control_plane import ControlPlane, ControlPlaneOptions
from e2e.cluster.waiting import eventually
from e2e.operator_process import install
from weft.observe.api_server.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

LEASE_SECONDS = 40  # renewed every 10 s: 300 nodes that renew every 5 s would be half of all load
# Simulated pods have loopback addresses, which Endpoints refuse: their controllers would try again for ever.
CONTROLLERS = "*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller"
CLEARED_SECONDS = 90.0


@contextlib.contextmanager
def cluster(nodes: list[simulated_nodes.SimulatedNode]) -> Iterator[ControlPlane]:
    """A control plane with these nodes and Weft's kinds and roles; ends with the block."""
    build.ensure((*ControlPlaneOptions().binaries, "kubectl", simulated_nodes.PROCESS))
    options = ControlPlaneOptions(controller_manager_flags={"controllers": CONTROLLERS})
    with ControlPlane.start(options=options) as running:
        simulated_nodes.start(running, simulated_nodes.Simulation(node_lease_seconds=LEASE_SECONDS))
        simulated_nodes.add_nodes(running, nodes, timeout_seconds=120.0)
        install(running)
        yield running


@contextlib.contextmanager
def namespace(running: ControlPlane, name: str) -> Iterator[str]:
    """A namespace for one run; afterwards nothing in it holds a GPU."""
    with running.api_client() as api:
        core = client.CoreV1Api(api)
        core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
        eventually(lambda: _has_account(api, name), f"{name} has its service account", timeout_seconds=30.0)
        try:
            yield name
        finally:
            clear(running, name)


def _has_account(api: client.ApiClient, name: str) -> bool:
    return bool(client.CoreV1Api(api).list_namespaced_service_account(name).items)


def clear(running: ControlPlane, name: str) -> None:
    """Delete pools and pods, without anybody's grace."""
    with running.api_client() as api:
        custom, core = client.CustomObjectsApi(api), client.CoreV1Api(api)
        custom.delete_collection_namespaced_custom_object("weft.dev", "v1alpha1", name, "inferencepools")

        def nothing_left() -> bool:
            core.delete_collection_namespaced_pod(name, grace_period_seconds=0)
            return not Reader(api).get(f"/api/v1/namespaces/{name}/pods", {"limit": "1"})["items"]

        eventually(nothing_left, f"{name} is empty", timeout_seconds=CLEARED_SECONDS, interval_seconds=2.0)
