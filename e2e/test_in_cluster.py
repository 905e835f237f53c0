"""The operator where users run it: the Deployment of the manifests, under Pod Security `restricted`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from e2e.cluster.operator_image import operator_image
from e2e.operator_process import REPOSITORY, SYSTEM_NAMESPACE, kubectl
from e2e.team import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.node import RealNode
    from e2e.operator_process import OperatorProcess
    from e2e.team import Team

DEPLOYMENT = "deployment/weft-controller"


@pytest.fixture
def deployed(node: RealNode, operator: OperatorProcess) -> Iterator[RealNode]:
    """The image of the Deployment on the node, and one pod of it instead of the operator beside the cluster."""
    manifest = yaml.safe_load((REPOSITORY / "manifests" / "operator" / "deployment.yaml").read_text())
    tag = manifest["spec"]["template"]["spec"]["containers"][0]["image"]
    node.import_images([operator_image(node.directory / "images" / "operator.tar", tag)])
    operator.stop()
    kubectl(node.cluster, "-n", SYSTEM_NAMESPACE, "scale", DEPLOYMENT, "--replicas=1")
    yield node
    kubectl(node.cluster, "-n", SYSTEM_NAMESPACE, "scale", DEPLOYMENT, "--replicas=0")
    kubectl(node.cluster, "-n", SYSTEM_NAMESPACE, "wait", "--for=delete", "pod", "--all", "--timeout=120s")
    operator.resume()


@pytest.mark.timeout(600)
def test_the_operator_serves_a_pool_from_its_own_deployment(deployed: RealNode, team: Team) -> None:
    """Image, command, service account, probes and read-only root are as shipped; it starts, decides and serves."""

    def ours(*words: str) -> str:
        return kubectl(deployed.cluster, "-n", SYSTEM_NAMESPACE, *words)

    ours("wait", "--for=condition=Available", DEPLOYMENT, "--timeout=110s")
    team.apply(team.pool("inside"))
    team.wait_for("wpool", "inside", "Ready")
    assert Endpoint(*team.service_address("inside")).complete(max_tokens=2)["usage"]["completion_tokens"] == 2
    pod = ours("get", "pods", "-o", "name").strip()
    assert not re.search(r"\b(ERROR|Traceback)\b", ours("logs", pod))
    restarts = ours("get", pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
    assert restarts == "0"
