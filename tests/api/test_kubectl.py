"""The resources as they look from kubectl, the real one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster import build
from tests.api.cases import resource

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.cluster.control_plane import ControlPlane
    from tests.api.server import Server


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl in one namespace."""

    binary: Path
    kubeconfig: Path
    namespace: str

    def __call__(self, *words: str, stdin: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        where = [str(self.binary), f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]
        text = json.dumps(stdin) if stdin is not None else None
        return subprocess.run([*where, *words], input=text, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture
def kubectl(server: Server, control_plane: ControlPlane) -> Kubectl:
    try:
        binary = build.ensure(["kubectl"])["kubectl"]
    except build.BinariesMissingError as missing:
        pytest.skip(f"no kubectl: {missing}")
    return Kubectl(binary, control_plane.kubeconfig, server.namespace)


def test_scale_on_an_auto_pool_is_refused_in_one_sentence(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=resource("InferencePool", "chat", {})).check_returncode()
    refused = kubectl("scale", "inferencepools.weft.dev", "chat", "--replicas=3")

    assert refused.returncode != 0
    assert (
        "replicas must be absent while scaling.mode is Auto, because Weft decides the count: set scaling.mode "
        "to External to scale this pool by hand, HPA or KEDA"
    ) in refused.stderr


def test_scale_on_an_external_pool_works(kubectl: Kubectl) -> None:
    body = resource("InferencePool", "chat", {"scaling": {"mode": "External", "replicas": 1}})
    kubectl("apply", "-f", "-", stdin=body).check_returncode()
    kubectl("scale", "wpool", "chat", "--replicas=3").check_returncode()

    assert kubectl("get", "wpool", "chat", "-o=jsonpath={.spec.scaling.replicas}").stdout == "3"


def test_an_unknown_field_is_refused_by_default(kubectl: Kubectl) -> None:
    refused = kubectl("apply", "-f", "-", stdin=resource("InferencePool", "chat", {"scaling": {"minReplica": 1}}))

    assert refused.returncode != 0
    assert 'unknown field "spec.scaling.minReplica"' in refused.stderr


def test_short_names_and_columns(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=resource("InferencePool", "chat", {})).check_returncode()
    kubectl("apply", "-f", "-", stdin=resource("PDSplit", "split", {})).check_returncode()

    header = kubectl("get", "wpool").stdout.splitlines()[0].split()
    assert header == ["NAME", "DESIRED", "READY", "SHAPE", "SLO", "REASON", "AGE"]
    assert kubectl("get", "pds", "-o=name").stdout.split() == ["pdsplit.weft.dev/split"]
    assert len(kubectl("get", "weft", "-o=name").stdout.split()) == 2


def test_the_columns_tell_reasons_in_words(kubectl: Kubectl) -> None:
    """A reader is told why, not `True`."""
    kubectl("apply", "-f", "-", stdin=resource("InferencePool", "chat", {})).check_returncode()
    time = "2026-07-01T08:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": time}
        for kind, reason in (("SLOMet", "WithinSLO"), ("Ready", "Serving"))
    ]
    patch = json.dumps({"status": {"conditions": conditions}})
    kubectl("patch", "wpool", "chat", "--subresource=status", "--type=merge", "-p", patch).check_returncode()

    row = kubectl("get", "wpool", "chat", "--no-headers").stdout.split()
    assert row[-3:-1] == ["WithinSLO", "Serving"]


def test_explain_says_units_and_defaults(kubectl: Kubectl) -> None:
    explained = kubectl("explain", "inferencepools.weft.dev.spec.scaling").stdout

    assert "scaleDownDelay" in explained
    assert "How long fewer replicas must have been enough" in " ".join(explained.split())
    assert "enum: Auto, External" in explained
