"""Two simulated nodes beside the real one, with a pool on one of them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from kubernetes import client

from e2e.cluster import simulated_nodes
from e2e.cluster.node_engines import GPU, TEST_GPU_LABELS
from e2e.cluster.simulated_nodes import SimulatedNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.team import Json, Team

MARK = {"e2e.weft.dev/neighbour": "true"}
NODES = ("neighbour-0", "neighbour-1")
POOL = "neighbour"


@contextlib.contextmanager
def neighbours(team: Team) -> Iterator[None]:
    """Have the nodes and the pool while the context lasts."""
    tags = {**TEST_GPU_LABELS, **MARK}
    cluster = team.node.cluster
    simulated_nodes.add_nodes(cluster, (SimulatedNode(name, GPU, 8, tags) for name in NODES))
    try:
        team.apply(team.pool(POOL, placement={"nodeSelector": MARK}))
        yield
    finally:
        team.kubectl("delete", "inferencepools.weft.dev", POOL, "--ignore-not-found")
        team.kubectl("wait", "--for=delete", "pod", "-l", f"weft.dev/pool={POOL}", "--timeout=120s")
        for name in NODES:
            client.CoreV1Api(team.api).delete_node(name)
        cluster.processes.forget(simulated_nodes.PROCESS)


def node_of(team: Team) -> str:
    """Where the pool's one replica runs and is ready; empty while it moves."""
    pods: list[Json] = team.pods(POOL)
    found = {pod["spec"].get("nodeName", "") for pod in pods}
    settled = len(pods) == 1 and team.get("wpool", POOL)["status"].get("readyReplicas") == 1
    return found.pop() if settled else ""
