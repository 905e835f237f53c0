"""An InferencePool on a real kubelet, with real vLLM: it serves, it scales, it heals, it says why not."""

from __future__ import annotations

import json
import shutil
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.waiting import eventually
from e2e.frozen import Frozen, a_frozen_pool
from e2e.kv_cache import blocks_of, predicted_tokens
from e2e.operator_process import REPOSITORY
from e2e.team import ENGINE_START_SECONDS, WITH_A_WORKER, Endpoint, Load, gates, version
from weft.decide.replicas.health import UNRESPONSIVE_SECONDS
from weft.domain import labels
from weft.domain.hardware import Precision
from weft.engines.terms.sizing import UNROUTING_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from e2e.cluster.node import RealNode
    from e2e.operator_process import OperatorProcess
    from e2e.team import Json, Team

pytestmark = pytest.mark.timeout(900)

LATE_SECONDS = 1.2  # a request that comes this long before SIGTERM is not done by then: 2,000 tokens take 3 s and more
HANGING_SECONDS = UNRESPONSIVE_SECONDS + 120.0  # three probes of ten seconds go before, and a pass comes after
LONG = {"maxModelLen": 2048}  # all that the tiny model was made for


@pytest.fixture(scope="module", autouse=True)
def frozen(operator: OperatorProcess, node: RealNode) -> Iterator[Frozen]:
    """Frozen before the first test of this module, for the last one."""
    assert operator.is_ready()
    with a_frozen_pool(node) as pool:
        yield pool


def test_a_pool_becomes_ready_and_answers(operator: OperatorProcess, team: Team) -> None:
    """Assignment first, pods gated and then released, a completion through the Service, kubectl reads well."""
    assert operator.is_ready()
    since = team.version_now()
    team.apply(team.pool("first"))

    def bound() -> list[Json]:
        return [pod for pod in team.pods("first") if pod["spec"].get("nodeName")]

    (pod,) = eventually(bound, "the pod is bound")
    assigned = [one for one in team.changes("inferencepools", since) if one.get("status", {}).get("assignments")]
    told = team.changes("pods", since)
    assert version(assigned[0]) < version(told[0])
    assert [assignment["nodes"] for assignment in assigned[0]["status"]["assignments"]] == [[pod["spec"]["nodeName"]]]
    gated = [bool(gates(one)) for one in told]
    assert gated[0]
    assert gated == sorted(gated, reverse=True)
    assert told[0]["spec"]["affinity"] == told[-1]["spec"]["affinity"]
    assert not any(one["spec"].get("nodeName") for one in told if gates(one))

    waited = team.kubectl("wait", "--for=condition=Ready", "inferencepools.weft.dev/first", "--timeout=240s")
    assert "condition met" in waited

    answer = Endpoint(*team.service_address("first")).complete(max_tokens=8)
    assert answer["usage"]["completion_tokens"] == 8
    table = team.kubectl("get", "wpool", "first")
    for word in ("DESIRED", "READY", "SHAPE", "SLO", "REASON", "AGE", "cpu FP32 TP1", "Serving"):
        assert word in table, table
    has_the_predicted_kv_cache(team, pod)


def has_the_predicted_kv_cache(team: Team, pod: Json) -> None:
    """VLLM's own number of blocks is what the performance model predicts of the memory that the pod gives it.

    On the CPU that memory is a setting and not what is left, so this is about the bytes of a token and the rounding to
    whole blocks.
    """
    (engine,) = (each for each in pod["spec"]["containers"] if each["name"] == "engine")
    space_gib = float(next(each["value"] for each in engine["env"] if each["name"] == "VLLM_CPU_KVCACHE_SPACE"))
    (running,) = team.pods("first")
    read = blocks_of(Endpoint(running["status"]["podIP"], 8000).metrics())
    predicted = predicted_tokens(json.dumps(team.tiny_model()["config"]["inline"]), Precision.FP32, space_gib)
    assert abs(predicted - read.all_tokens) < read.tokens


def test_load_grows_a_pool_and_silence_shrinks_it_without_losing_a_token(operator: OperatorProcess, team: Team) -> None:
    """With metrics scraped directly: 1 to 2 real pods and back; a stream on the removed pod ends whole."""
    assert operator.is_ready()
    grow_and_shrink(team)


def grow_and_shrink(team: Team, at_the_top: Callable[[], object] = lambda: None) -> None:
    """From 1 to 2 real pods and back; `at_the_top` looks around while two replicas serve.

    A worker of its own takes twice the time for a token: streams are long enough for what happens meanwhile.
    """
    scaling = {"minReplicas": 1, "maxReplicas": 2, "scaleDownDelay": "20s"}
    model = team.tiny_model() | LONG
    team.apply(team.pool("busy", model=model, scaling=scaling, engine=with_a_worker(team)))
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
        at_the_top()
    eventually(
        lambda: team.get("wpool", "busy")["status"].get("desiredReplicas") == 1,
        "silence asks for one replica",
        timeout_seconds=180,
    )
    streams = [Streamed(Endpoint(address, 8000)) for address in addresses(team.pods("busy"))]
    assert len(streams) == 2
    (leaving,) = eventually(lambda: addresses(told_to_go(team.pods("busy"))), "one of the pods is told to go")
    sigterm = time.monotonic() + UNROUTING_SECONDS
    eventually(lambda: time.monotonic() > sigterm - LATE_SECONDS, "the engine is about to be told to stop")
    late = Streamed(Endpoint(leaving, 8000))
    eventually(lambda: len(team.pods("busy")) == 1, "one pod is left", timeout_seconds=180)
    for stream in (*streams, late):
        assert stream.tokens_when_over() == Streamed.TOKENS
    assert late.ended_at > sigterm, "the stream was over before its engine was told to stop"


def with_a_worker(team: Team) -> Json:
    """The engine section of pools whose engines have a process for their rank."""
    engine: Json = team.pool("any")["spec"]["engine"]
    return engine | {"env": [WITH_A_WORKER]}


def told_to_go(pods: list[Json]) -> list[Json]:
    """The pods that are being deleted."""
    return [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]


def addresses(pods: list[Json]) -> list[str]:
    """Where their engines answer."""
    return [pod["status"]["podIP"] for pod in pods]


class Streamed:
    """A long streamed completion that runs beside the test."""

    TOKENS = 2000

    def __init__(self, endpoint: Endpoint) -> None:
        """Start it."""
        self.completed = 0
        self.error = ""
        self.ended_at = 0.0
        self._thread = threading.Thread(target=self._read, args=(endpoint,))
        self._thread.start()

    def tokens_when_over(self) -> int:
        """Tokens that the engine says it sent, once the stream has ended."""
        self._thread.join()
        assert not self.error
        return self.completed

    def _read(self, endpoint: Endpoint) -> None:
        try:
            for chunk in endpoint.stream("steady", self.TOKENS):
                self.completed = (chunk.get("usage") or {}).get("completion_tokens", self.completed)
        except (OSError, ValueError, AssertionError) as error:
            self.error = repr(error)
        self.ended_at = time.monotonic()


def test_a_killed_engine_is_replaced_and_the_reason_stays_visible(operator: OperatorProcess, team: Team) -> None:
    """The process dies inside its container; another replica id takes its place after a back-off."""
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

    def waits() -> bool:
        return bool(team.condition("wpool", "fragile", "Placed").get("reason") == "BackingOff")

    eventually(waits, "the next attempt waits", timeout_seconds=30, interval_seconds=0.2)

    def replaced() -> bool:
        before = pod["metadata"]["labels"][labels.REPLICA]
        return any(each["metadata"]["labels"][labels.REPLICA] != before for each in team.pods("fragile"))

    eventually(replaced, "a new replica id", timeout_seconds=120)
    team.wait_for("wpool", "fragile", "Ready")


def test_a_wrong_engine_flag_is_told_in_the_engines_own_words_and_its_correction_recovers(
    operator: OperatorProcess, team: Team
) -> None:
    """The condition carries the line that vLLM printed; nobody has to delete anything afterwards."""
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


@pytest.fixture
def weightless(node: RealNode, team: Team) -> str:
    """A claim with a model whose weights are missing; nobody notices before the engine's core loads them."""
    assert node.engine is not None
    folder = node.directory / "weightless"
    if not folder.exists():
        shutil.copytree(node.engine.model, folder, ignore=shutil.ignore_patterns("*.safetensors*"))
    node.offer_model(team.namespace, "weightless", folder)
    return "weightless"


def test_a_failure_inside_the_engines_core_is_read_from_its_log(
    operator: OperatorProcess, team: Team, weightless: str
) -> None:
    """Forbidden to read the log, Weft names the command; allowed to, it tells the cause; corrected, it recovers.

    The cause is what a worker says, and the core after it.
    """
    assert operator.is_ready()
    model, engine = team.tiny_model(), with_a_worker(team)

    def told(words: str) -> bool:
        ready = team.condition("wpool", "core", "Ready")
        assert words in ready.get("message", ""), json.dumps(ready)
        return bool(ready["status"] == "False")

    team.kubectl("delete", "clusterrolebinding", "weft-pod-logs")
    try:
        team.apply(team.pool("core", engine=engine, model=model | {"source": {"pvc": {"claimName": weightless}}}))
        eventually(lambda: told("kubectl logs"), "the command to read the log", timeout_seconds=180)
    finally:
        team.kubectl("apply", "-k", str(REPOSITORY / "manifests" / "pod-logs"))
    eventually(lambda: told("weights"), "the core's own words", timeout_seconds=180)
    team.apply(team.pool("core", engine=engine, model=model))
    team.wait_for("wpool", "core", "Ready")


def test_an_engine_that_hangs_is_replaced(frozen: Frozen) -> None:
    """Its pod runs on and has no fault but that it is not ready; after five minutes another replica takes its place."""
    team, before = frozen.team, frozen.pod

    def told() -> list[Json]:
        chosen = ("--field-selector", "reason=EngineUnresponsive", "-o", "json")
        found: list[Json] = json.loads(team.kubectl("get", "events", *chosen))["items"]
        return found

    (event,) = eventually(told, "the engine is said to hang", timeout_seconds=HANGING_SECONDS)
    assert f"{before['metadata']['name']} runs, but has not been ready for 300 s" in event["message"]
    at = datetime.fromisoformat(event["metadata"]["creationTimestamp"]).timestamp()
    assert at - frozen.since > UNRESPONSIVE_SECONDS
    team.wait_for("wpool", Frozen.NAME, "Ready")
    (after,) = eventually(lambda: others(team.pods(Frozen.NAME), before), "another replica")
    assert after["metadata"]["labels"][labels.REPLICA] != before["metadata"]["labels"][labels.REPLICA]
    assert Endpoint(*team.service_address(Frozen.NAME)).complete()["usage"]["completion_tokens"]


def others(pods: list[Json], gone: Json) -> list[Json]:
    """All pods, once that one is gone."""
    return [] if gone["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in pods} else pods
