"""Weights that come from a Hugging Face, before the engine starts: how far they are, and why they do not come."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.waiting import eventually
from e2e.team import CLAIM, MODEL, VERSION, Endpoint

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from e2e.team import Json, Team

pytestmark = pytest.mark.timeout(600)
PORT, ZEROS, PACE = 8080, 80_000_000, 2_000_000
PROGRESS = re.compile(r"replica \d+ downloads its weights, (\d+)% of 0\.\d+ GB")


def a_hub(team: Team) -> str:
    """A pod that offers the tiny model, and some more; where it answers."""
    program = (Path(__file__).parent / "hub.py").read_text()
    container = {
        "name": "hub",
        "image": f"docker.io/vllm/vllm-openai:v{VERSION}",
        "command": ["python3", "-c", program, MODEL, "/model", str(PORT), str(ZEROS), str(PACE)],
        "volumeMounts": [{"name": "model", "mountPath": "/model", "readOnly": True}],
    }
    volumes = [{"name": "model", "persistentVolumeClaim": {"claimName": CLAIM, "readOnly": True}}]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hub", "namespace": team.namespace}}
    team.apply(body | {"spec": {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 0}})
    address = "jsonpath={.status.podIP}"
    team.kubectl("wait", "--for=condition=Ready", "pod/hub", "--timeout=120s")
    return f"http://{team.kubectl('get', 'pod', 'hub', '-o', address)}:{PORT}"


def downloading(team: Team, name: str, hub: str, repository: str) -> Json:
    """A pool whose weights come from there."""
    source = {"huggingFace": {"repository": repository, "revision": "main", "warmUp": True}}
    body = team.pool(name, model=team.tiny_model() | {"source": source})
    body["spec"]["engine"] |= {"env": [{"name": "HF_ENDPOINT", "value": hub}]}
    return body


def test_weights_come_first_and_say_how_far_they_are(operator: OperatorProcess, team: Team) -> None:
    """The condition tells percent that grow, then the engine serves from what was downloaded, not all of it alike."""
    assert operator.is_ready()
    team.apply(downloading(team, "fetched", a_hub(team), MODEL))
    told: list[int] = []

    def served() -> bool:
        said = team.condition("wpool", "fetched", "Ready")
        found = PROGRESS.search(said.get("message", ""))
        told.extend([int(found[1])] if found else [])
        return bool(said.get("status") == "True")

    eventually(served, "the pool is ready", timeout_seconds=300, interval_seconds=1.0)
    assert told == sorted(told)
    assert len(set(told)) > 1, told
    assert 0 < told[-1] <= 100
    (pod,) = team.pods("fetched")
    ended = pod["status"]["initContainerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 0
    assert Endpoint(*team.service_address("fetched")).complete(max_tokens=8)["usage"]["completion_tokens"] == 8


def test_a_repository_that_is_not_there_is_named(operator: OperatorProcess, team: Team) -> None:
    """The hub's own word stands in the condition."""
    assert operator.is_ready()
    team.apply(downloading(team, "lost", a_hub(team), "weft/nowhere"))

    def said_why() -> Json:
        said = team.condition("wpool", "lost", "Ready")
        found = "cannot download weft/nowhere" in said.get("message", "") and "404" in said["message"]
        return said if found else {}

    said = eventually(said_why, "the condition names what cannot be downloaded", timeout_seconds=120)
    assert said["reason"] == "EngineFailed"
