"""An InferencePool on a real kubelet, with real vLLM: it serves, it scales, it heals, it says why not."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.waiting import eventually
from e2e.team import ENGINE_START_SECONDS, Endpoint, Load
from weft.domain import labels

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from e2e.team import Json, Team

pytestmark = pytest.mark.timeout(900)


def gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]


def assert_assigned_before_any_pod(team: Team) -> None:
    """By the API server's own record: the first status of the pool that has an assignment precedes its first pod."""
    entries = [json.loads(line) for line in team.node.cluster.audit_log.read_text().splitlines()]
    ours = [entry for entry in entries if (entry.get("objectRef") or {}).get("namespace") == team.namespace]
    kinds = [
        (entry["verb"], entry["objectRef"].get("resource"), entry["objectRef"].get("subresource")) for entry in ours
    ]
    status_written = kinds.index(("patch", "inferencepools", "status"))
    pod_created = kinds.index(("create", "pods", None))
    assert status_written < pod_created


def test_a_pool_becomes_ready_and_answers(operator: OperatorProcess, team: Team) -> None:
    """E1: assignment first, pods gated and then released, a completion through the Service, kubectl reads well."""
    assert operator.is_ready()
    team.apply(team.pool("first"))
    waited = team.kubectl("wait", "--for=condition=Ready", "inferencepools.weft.dev/first", "--timeout=240s")
    assert "condition met" in waited
    pool, (pod,) = team.get("wpool", "first"), team.pods("first")

    (assignment,) = pool["status"]["assignments"]
    assert assignment["nodes"] == [pod["spec"]["nodeName"]]
    assert_assigned_before_any_pod(team)
    assert gates(pod) == []
    scheduled = next(one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled")
    assert scheduled["status"] == "True"

    answer = Endpoint(*team.service_address("first")).complete(max_tokens=8)
    assert answer["usage"]["completion_tokens"] == 8
    table = team.kubectl("get", "wpool", "first")
    for word in ("DESIRED", "READY", "SHAPE", "SLO", "REASON", "AGE", "cpu FP32 TP1", "Serving"):
        assert word in table, table


def test_load_grows_a_pool_and_silence_shrinks_it_without_losing_a_token(operator: OperatorProcess, team: Team) -> None:
    """E2 with metrics scraped directly: 1 to 2 real pods and back; a stream on the removed pod ends whole."""
    assert operator.is_ready()
    grow_and_shrink(team)


def grow_and_shrink(team: Team) -> None:
    """The whole of E2."""
    team.apply(team.pool("busy", scaling={"minReplicas": 1, "maxReplicas": 2, "scaleDownDelay": "20s"}))
    team.wait_for("wpool", "busy", "Ready")
    address = team.service_address("busy")
    with Load(lambda: address, interval_seconds=0.25):
        eventually(
            lambda: team.get("wpool", "busy")["status"].get("desiredReplicas") == 2,
            "load asks for two replicas",
            timeout_seconds=180,
        )
    with Load(lambda: address, interval_seconds=0.45):  # enough for two, and leaves a core to the one that starts
        eventually(
            lambda: team.get("wpool", "busy")["status"].get("readyReplicas") == 2,
            "two replicas are ready",
            timeout_seconds=ENGINE_START_SECONDS,
        )
    addresses = {pod["metadata"]["uid"]: pod["status"]["podIP"] for pod in team.pods("busy")}
    streams = {uid: Streamed(Endpoint(address, 8000), tokens=900) for uid, address in addresses.items()}
    eventually(
        lambda: team.get("wpool", "busy")["status"].get("desiredReplicas") == 1,
        "silence asks for one replica",
        timeout_seconds=180,
    )
    eventually(lambda: len(team.pods("busy")) == 1, "one pod is left", timeout_seconds=180)
    for stream in streams.values():
        assert stream.tokens_when_over() == 900


class Streamed:
    """A long streamed completion that runs beside the test."""

    def __init__(self, endpoint: Endpoint, tokens: int) -> None:
        """Start it."""
        self.completed = 0
        self.error = ""
        self._thread = threading.Thread(target=self._read, args=(endpoint, tokens))
        self._thread.start()

    def tokens_when_over(self) -> int:
        """Tokens that the engine says it sent, once the stream has ended."""
        self._thread.join()
        assert not self.error
        return self.completed

    def _read(self, endpoint: Endpoint, tokens: int) -> None:
        try:
            for chunk in endpoint.stream("steady", tokens):
                self.completed = (chunk.get("usage") or {}).get("completion_tokens", self.completed)
        except (OSError, ValueError, AssertionError) as error:
            self.error = repr(error)


def test_a_killed_engine_is_replaced_and_the_reason_stays_visible(operator: OperatorProcess, team: Team) -> None:
    """E4: the process dies inside its container; another replica id takes its place after a back-off."""
    assert operator.is_ready()
    team.apply(team.pool("fragile"))
    team.wait_for("wpool", "fragile", "Ready")
    (pod,) = team.pods("fragile")
    team.kubectl("exec", pod["metadata"]["name"], "--", "pkill", "-9", "-f", "[E]ngineCore")

    def failed() -> Json:
        failure: Json = team.get("wpool", "fragile")["status"].get("failure") or {}
        return failure

    failure = eventually(failed, "the failure is in status", timeout_seconds=90)
    assert failure["reason"] == "EngineCoreDied"
    assert "engine core exited unexpectedly" in failure["message"]

    def replaced() -> bool:
        before = pod["metadata"]["labels"][labels.REPLICA]
        return any(each["metadata"]["labels"][labels.REPLICA] != before for each in team.pods("fragile"))

    eventually(replaced, "a new replica id", timeout_seconds=120)
    team.wait_for("wpool", "fragile", "Ready")


def test_a_wrong_engine_flag_is_told_in_the_engines_own_words_and_its_correction_recovers(
    operator: OperatorProcess, team: Team
) -> None:
    """E4: the condition carries the line that vLLM printed; nobody has to delete anything afterwards."""
    assert operator.is_ready()
    engine = team.pool("wrong")["spec"]["engine"]
    team.apply(team.pool("wrong", engine=engine | {"args": ["--no-such-flag-exists"]}))

    def told() -> Json:
        ready = team.condition("wpool", "wrong", "Ready")
        assert ready.get("status") == "False"
        assert "no-such-flag-exists" in ready.get("message", ""), json.dumps(ready)
        return ready

    assert eventually(told, "Ready=False with vLLM's line", timeout_seconds=150)["reason"] == "EngineFailed"
    team.apply(team.pool("wrong"))
    team.wait_for("wpool", "wrong", "Ready")


def test_a_failure_inside_the_engines_core_is_read_from_its_log(operator: OperatorProcess, team: Team) -> None:
    """E4: weights that are not there kill the core; the reason comes from the log tail, and the correction recovers."""
    assert operator.is_ready()
    model = team.tiny_model()
    team.apply(team.pool("core", model=model | {"maxModelLen": 1_000_000}))

    def told() -> Json:
        ready = team.condition("wpool", "core", "Ready")
        assert ready.get("status") == "False"
        assert "max_model_len" in ready.get("message", "").lower().replace("-", "_"), json.dumps(ready)
        return ready

    eventually(told, "Ready=False with the core's line", timeout_seconds=180)
    team.apply(team.pool("core", model=model))
    team.wait_for("wpool", "core", "Ready")
