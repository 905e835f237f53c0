"""The operator where users run it: the Deployment of the manifests, under Pod Security `restricted`."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
import yaml

from e2e.cluster.operator_image import operator_image
from e2e.cluster.waiting import eventually
from e2e.operator_process import REPOSITORY, SYSTEM_NAMESPACE, kubectl
from e2e.team import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


@pytest.fixture
def standby(deployed: RealNode, tmp_path: Path) -> Iterator[RealNode]:
    """The same with the component that adds a second operator."""
    base, component = (
        os.path.relpath(REPOSITORY / "manifests" / each, tmp_path.resolve()) for each in ("base", "standby")
    )
    (tmp_path / "kustomization.yaml").write_text(json.dumps({"resources": [base], "components": [component]}))
    _apply(deployed, tmp_path)
    yield deployed
    _apply(deployed, REPOSITORY / "manifests" / "base")


def _apply(node: RealNode, folder: Path) -> None:
    """As users apply a kustomization; `scale` has set the same field before."""
    kubectl(node.cluster, "apply", "--server-side", "--force-conflicts", "-k", folder)


@pytest.mark.timeout(600)
def test_a_second_operator_goes_on_where_the_first_one_ends(standby: RealNode, team: Team) -> None:
    """Both are Ready and one holds the Lease; the other one follows, whether that ends well or all at once.

    They look at a pool whose pods no node takes, so that no engine starts.
    """

    def ours(*words: str) -> str:
        return kubectl(standby.cluster, "-n", SYSTEM_NAMESPACE, *words)

    def there() -> list[str]:
        running = ours("get", "pods", "-o", "jsonpath={.items[?(@.status.phase=='Running')].metadata.name}").split()
        return running if len(running) == 2 else []

    def leader() -> str:
        held = ours("get", "lease", "weft", "--ignore-not-found", "-o", "jsonpath={.spec.holderIdentity}")
        return held.partition("_")[0]

    def the_leader_ends(*how: str) -> None:
        ours("rollout", "status", DEPLOYMENT, "--timeout=110s")
        pods, first = eventually(there, "two pods run"), eventually(leader, "somebody leads")
        assert first in pods
        ours("delete", "pod", first, "--wait=false", *how)
        eventually(lambda: leader() not in {"", first}, "another one leads")

    team.apply(team.pool("followed", placement={"nodeSelector": {"example.com/nobody": "has"}}))
    for minutes, how in ((1, ()), (2, ("--grace-period=0", "--force"))):
        eventually(lambda: _is_seen(team, "followed"), "it looks at the pool")
        the_leader_ends(*how)
        edit = json.dumps({"spec": {"rollout": {"drainTimeout": f"{minutes}m"}}})
        team.kubectl("patch", "wpool", "followed", "--type=merge", "-p", edit)
    eventually(lambda: _is_seen(team, "followed"), "it looks at the last edit")


def _is_seen(team: Team, name: str) -> bool:
    """Whether the status is that of the newest spec."""
    found = team.get("wpool", name)
    return bool(found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"])
