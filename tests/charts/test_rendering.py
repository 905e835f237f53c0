"""The chart and the manifests are the same thing said twice."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.charts.conftest import CHART, REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.conftest import Objects, Tools

_OF_HELM = ("helm.sh/", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/part-of")


def meaning(body: dict[str, Any]) -> dict[str, Any]:
    """An object without what merely says who rendered it."""
    metadata = {
        key: {name: value for name, value in words.items() if not name.startswith(_OF_HELM)}
        if isinstance(words, dict)
        else words
        for key, words in body["metadata"].items()
    }
    return {**body, "metadata": {key: value for key, value in metadata.items() if value}}


def meanings(objects: Objects, *without: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {key: meaning(body) for key, body in objects.items() if key[0] not in without}


@pytest.mark.timeout(300)
def test_default_values_render_what_the_base_manifests_hold(tools: Tools) -> None:
    """Whoever installs either way runs the same operator with the same permissions."""
    chart, base = tools.render_chart(), tools.render_manifests("manifests/base")
    assert meanings(base, "Namespace") == meanings(chart)


@pytest.mark.timeout(300)
def test_a_namespace_and_pod_logs_render_what_the_overlays_hold(tools: Tools) -> None:
    chart = tools.render_chart("namespaces={inference}")
    assert meanings(tools.render_manifests("manifests/namespaced"), "Namespace") == meanings(chart)
    logs = tools.render_manifests("manifests/pod-logs")
    assert meanings(logs).items() <= meanings(tools.render_chart("podLogs=true")).items()


@pytest.mark.timeout(300)
def test_two_operators_render_what_the_component_makes_of_the_base(tools: Tools, tmp_path: Path) -> None:
    there = os.path.relpath(REPOSITORY, tmp_path.resolve())
    overlay = {"resources": [f"{there}/manifests/base"], "components": [f"{there}/manifests/standby"]}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(overlay))
    both = tools.render_manifests(tmp_path)
    assert meanings(both, "Namespace") == meanings(tools.render_chart("replicas=2"))
    operator = both["Deployment", "weft-system", "weft-controller"]["spec"]
    # whole: limits that the API server fills in would stay behind, and be refused, where the second one is taken out
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert (2, strategy) == (operator["replicas"], operator["strategy"])
    assert "--leader-elect" in operator["template"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize(
    ("setting", "kind", "path", "expected"),
    [
        ("image.tag=1.2.3", "Deployment", "spec.template.spec.containers.0.image", "ghcr.io/weft-dev/weft:1.2.3"),
        (
            "image.digest=sha256:" + "a" * 64,
            "Deployment",
            "spec.template.spec.containers.0.image",
            "ghcr.io/weft-dev/weft@sha256:" + "a" * 64,
        ),
        (
            "metrics.prometheusUrl=http://prometheus:9090",
            "Deployment",
            "spec.template.spec.containers.0.args.1",
            "--prometheus-url=http://prometheus:9090",
        ),
        ("moves.perHour=4", "Deployment", "spec.template.spec.containers.0.args.1", "--moves-per-hour=4"),
        (
            "allowRelaxations={RunAsRoot}",
            "Deployment",
            "spec.template.spec.containers.0.args.1",
            "--allow-relaxation=RunAsRoot",
        ),
        (
            "networkPolicy.apiServerPorts={16443}",
            "NetworkPolicy",
            "spec.egress.1.ports",
            [{"protocol": "TCP", "port": 16443}],
        ),
        ("networkPolicy.dnsPorts={5353}", "NetworkPolicy", "spec.egress.0.ports.0.port", 5353),
        ("networkPolicy.prometheus.port=8481", "NetworkPolicy", "spec.egress.3.ports.0.port", 8481),
        (
            "networkPolicy.prometheus.to[0].ipBlock.cidr=10.0.0.7/32",
            "NetworkPolicy",
            "spec.egress.3.to",
            [{"ipBlock": {"cidr": "10.0.0.7/32"}}],
        ),
        ("namespaces={b}", "Deployment", "spec.template.spec.containers.0.args.1", "--namespace=b"),
        ("priorityClassName=", "Deployment", "spec.template.spec.priorityClassName", None),
        ("runAsUser=null", "Deployment", "spec.template.spec.securityContext.runAsUser", None),
        ("runAsUser=null", "Deployment", "spec.template.spec.securityContext.fsGroup", None),
        ("runAsUser=null", "Deployment", "spec.template.spec.securityContext.runAsNonRoot", True),
        ("runAsUser=1001", "Deployment", "spec.template.spec.securityContext.fsGroup", 1001),
        ("nodeSelector.pool=cpu", "Deployment", "spec.template.spec.nodeSelector.pool", "cpu"),
        ("podLabels.team=x", "Deployment", "spec.template.metadata.labels.team", "x"),
        ("image.pullSecrets={one}", "Deployment", "spec.template.spec.imagePullSecrets.0.name", "one"),
        ("resources.limits.memory=2Gi", "Deployment", "spec.template.spec.containers.0.resources.limits.memory", "2Gi"),
    ],
)
@pytest.mark.timeout(300)
def test_each_value_changes_what_it_says(tools: Tools, setting: str, kind: str, path: str, expected: object) -> None:
    found: Any = next(body for key, body in tools.render_chart(setting).items() if key[0] == kind)
    for step in path.split("."):
        found = found[int(step)] if step.isdigit() else (found or {}).get(step)
    assert expected == found


@pytest.mark.timeout(300)
def test_the_front_is_authorized_in_the_namespaces_that_are_listed(tools: Tools) -> None:
    chart = tools.render_chart("router.namespaces={a}")
    assert ("RoleBinding", "a", "weft-router") in chart
    assert chart["RoleBinding", "a", "weft-router"]["subjects"][0]["namespace"] == "a"
    assert not any("weft-router" in key for key in tools.render_chart())


@pytest.mark.parametrize(
    "setting",
    [
        "podLog=true",
        "namespaces={Not_A_Name}",
        "image.digest=latest",
        "crds.install=maybe",
        "networkPolicy.prometheus.port=0",
        "networkPolicy.apiServerPorts={0}",
        "networkPolicy.dnsPorts={}",
        "runAsUser=0",
        "replicas=0",
        "podMonitor.interval=0s",
        "prometheusRule.interval=30s",
    ],
)
@pytest.mark.timeout(300)
def test_a_wrong_value_is_refused_by_name(tools: Tools, setting: str) -> None:
    done = subprocess.run(
        [tools.helm, "template", "weft", CHART, "--set", setting], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert setting.split("=", maxsplit=1)[0].rsplit(".", maxsplit=1)[-1] in done.stderr


def test_the_chart_carries_the_generated_definitions() -> None:
    """`make crds` writes both copies."""
    for source in sorted((REPOSITORY / "crds").glob("weft.dev_*.yaml")):
        assert source.read_text() == (CHART / "files" / "crds" / source.name).read_text()
