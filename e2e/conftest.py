"""One real node for the whole suite; each test works in a namespace of its own."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from kubernetes import client

from e2e.cluster import build
from e2e.cluster.node import RealNode, missing_tools
from e2e.cluster.waiting import eventually
from e2e.operator_process import REPOSITORY, OperatorProcess, install, kubectl
from e2e.team import CLAIM, Team

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAVING_SECONDS = 180.0  # usually a few; beside engines that start, one pod took more than a minute once
OPERATOR_OPTIONS = ("--tick", "1", "--metrics-interval", "2", "--resync", "30")


@pytest.fixture(scope="session")
def node() -> Iterator[RealNode]:
    """A kubelet with all that belongs to it, and a control plane with Weft installed as users install it."""
    lacking = missing_tools()
    if lacking:
        pytest.skip(f"no real node: this machine lacks {', '.join(lacking)}")
    try:
        started = RealNode.start()
    except build.BinariesMissingError as missing:
        pytest.skip(f"no real node: {missing}")
    with started as running:
        install(running.cluster, pod_logs=True)
        kubectl(running.cluster, "apply", "-f", REPOSITORY / "tests" / "gateway_crds.yaml")
        yield running


@pytest.fixture(scope="session")
def operator(node: RealNode) -> OperatorProcess:
    """The operator under its shipped roles, scraping engines directly."""
    return OperatorProcess.start(node.cluster, OPERATOR_OPTIONS)


@pytest.fixture
def team(node: RealNode, request: pytest.FixtureRequest) -> Iterator[Team]:
    """A namespace with the tiny model in a claim; being deleted, and without pods, at the end."""
    namespace = f"team-{uuid.uuid4().hex[:8]}"
    kubectl(node.cluster, "create", "namespace", namespace)
    node.offer_model(namespace, CLAIM)
    with node.cluster.api_client() as api:
        yield Team(node, api, namespace)
        if request.session.testsfailed:
            print(kubectl(node.cluster, "-n", namespace, "get", "pods,wpool,pds,events", "-o", "wide"))
        client.CoreV1Api(api).delete_namespace(namespace)
    kubectl(node.cluster, "-n", namespace, "delete", "pods", "--all", "--now", "--wait=false")
    there = ("-n", namespace, "get", "pods", "-o", "name")
    eventually(lambda: not kubectl(node.cluster, *there), "no pod is left", timeout_seconds=LEAVING_SECONDS)
