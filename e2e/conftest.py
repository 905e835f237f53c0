"""One real node for the whole suite; each test works in a namespace of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.cluster import build
from e2e.cluster.node import RealNode, missing_tools
from e2e.operator_process import REPOSITORY, OperatorProcess, install, kubectl
from e2e.team import Team, a_team_on

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    with a_team_on(node) as team:
        yield team
        if request.session.testsfailed:
            print(team.kubectl("get", "pods,wpool,pds,events", "-o", "wide"))
