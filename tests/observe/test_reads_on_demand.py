"""ConfigMaps, PriorityClasses and logs: read when needed, remembered for a while, and honest about refusals."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from tests.protocol.scripted_server import ScriptedServer
from weft.domain.cluster import ContainerFailure, PodIdentity, PodPhase, PodRecord
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.snapshot import PoolRecord, ResourceKey
from weft.domain.status import PoolStatus
from weft.observe.api_server.lookups import PRIORITY_SECONDS, UNKNOWN_SECONDS, ConfigFiles, Priorities
from weft.observe.api_server.pod_logs import PodLogs
from weft.observe.api_server.reading import Reader
from weft.observe.snapshot_builder import logs_needed

if TYPE_CHECKING:
    from collections.abc import Iterator

KUBELET_SECONDS = 30.0  # until the API server gives up one that does not answer
FAILED = PodRecord(
    namespace="team",
    name="chat-0",
    uid="u",
    phase=PodPhase.Failed,
    node="n1",
    requests=(),
    identity=PodIdentity("pool", 0, 0, "r"),
    failure=ContainerFailure("Error", "", 1),
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


@pytest.fixture
def reader(server: ScriptedServer) -> Reader:
    return Reader(ApiClient(Configuration(host=server.url)))


class Clock:
    """Time that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def says(server: ScriptedServer, body: Any, status: int = 200) -> None:  # noqa: ANN401 - any JSON
    text = body if isinstance(body, str) else json.dumps(body)
    server.answer = lambda _: web.Response(status=status, text=text)


class TestConfigFiles:
    def test_a_text_is_read_once_and_again_when_it_is_old(self, server: ScriptedServer, reader: Reader) -> None:
        clock = Clock()
        files = ConfigFiles(reader, clock)
        says(server, {"data": {"config.json": "{}"}})
        assert files.text("team", "model", "config.json") == "{}"
        says(server, {"data": {"config.json": "[]"}})
        assert files.text("team", "model", "config.json") == "{}"
        clock.now = 31
        assert files.text("team", "model", "config.json") == "[]"
        assert server.count("GET", "/api/v1/namespaces/team/configmaps/model") == 2

    @pytest.mark.parametrize("status", [404, 403])
    def test_a_missing_or_forbidden_one_is_nothing(self, server: ScriptedServer, reader: Reader, status: int) -> None:
        says(server, {}, status)
        assert ConfigFiles(reader).text("team", "model", "config.json") is None

    @pytest.mark.parametrize(("answer", "status"), [({}, 500), ("<html>come back later</html>", 200), ([], 200)])
    def test_an_outage_keeps_the_last_text(
        self, server: ScriptedServer, reader: Reader, answer: object, status: int
    ) -> None:
        """Also one in which a load balancer answers with a page of its own."""
        clock = Clock()
        files = ConfigFiles(reader, clock)
        says(server, {"data": {"config.json": "{}"}})
        files.text("team", "model", "config.json")
        says(server, answer, status)
        clock.now = 100
        assert files.text("team", "model", "config.json") == "{}"

    def test_an_outage_is_waited_for_once_and_not_by_each(self, server: ScriptedServer, reader: Reader) -> None:
        """An API server that hangs takes half a minute for each answer, and liveness allows two minutes for all."""
        clock = Clock()
        files = ConfigFiles(reader, clock)
        says(server, {}, 500)
        assert [None] * 3 == [files.text("team", f"model-{number}", "config.json") for number in range(3)]
        assert len(server.requests) == 1
        says(server, {"data": {"config.json": "{}"}})
        clock.now = 31
        assert files.text("team", "model-2", "config.json") == "{}"

    def test_what_nobody_asks_for_any_more_is_forgotten(self, server: ScriptedServer, reader: Reader) -> None:
        """A ConfigMap may be a megabyte, and pools come and go for years."""
        clock = Clock()
        files = ConfigFiles(reader, clock)
        says(server, {"data": {"config.json": "{}", "another": "x" * 1000}})
        for number in range(100):
            clock.now += 31
            files.text("team", f"model-{number}", "config.json")
        assert ["{}"] * 10 == [text for _, text in files._texts._known.values()]


class TestPriorities:
    def test_are_values_by_name_and_zero_otherwise(self, server: ScriptedServer, reader: Reader) -> None:
        says(server, {"items": [{"metadata": {"name": "high"}, "value": 1000}]})
        priorities = Priorities(reader)
        assert [priorities.value(name) for name in ("high", "unknown", None)] == [1000, 0, 0]
        assert len(server.requests) == 1

    def test_say_which_classes_take_no_place_of_others(self, server: ScriptedServer, reader: Reader) -> None:
        polite = {"metadata": {"name": "polite"}, "value": 10, "preemptionPolicy": "Never"}
        says(server, {"items": [polite, {"metadata": {"name": "usual"}, "preemptionPolicy": "PreemptLowerPriority"}]})
        priorities = Priorities(reader)
        assert priorities.value("polite") == 10
        assert [priorities.preempts(name) for name in ("polite", "usual", "unknown", None)] == [False, True, True, True]

    def test_are_read_again_soon_where_the_first_read_fails(self, server: ScriptedServer, reader: Reader) -> None:
        """For a minute nobody had a priority then, and everybody preempted."""
        clock = Clock()
        priorities = Priorities(reader, clock)
        says(server, {}, 503)
        assert priorities.value("high") == 0
        assert (priorities.preempts("high"), priorities.preempts(None)) == (False, True)
        says(server, {"items": [{"metadata": {"name": "high"}, "value": 1000}]})
        clock.now += UNKNOWN_SECONDS
        assert priorities.value("high") == 1000
        assert priorities.preempts("high")
        says(server, {}, 503)
        clock.now += PRIORITY_SECONDS
        assert priorities.value("high") == 1000

    def test_are_zero_where_nobody_may_read_them(self, server: ScriptedServer, reader: Reader) -> None:
        says(server, {}, 403)
        assert Priorities(reader).value("high") == 0


class TestPodLogs:
    def test_a_silent_failure_gets_the_end_of_its_log(self, server: ScriptedServer, reader: Reader) -> None:
        says(server, "x" * 100_000 + "the last line")
        (pod,) = PodLogs(reader).add([FAILED], lambda _: True)
        assert pod.failure is not None
        assert pod.failure.log_tail is not None
        assert pod.failure.log_tail.endswith("the last line")
        assert len(pod.failure.log_tail) == 16 * 1024

    def test_each_failed_pod_is_read_once(self, server: ScriptedServer, reader: Reader) -> None:
        says(server, "why")
        logs = PodLogs(reader)
        for _ in range(3):
            logs.add([FAILED], lambda _: True)
        assert len(server.requests) == 1

    def test_a_kubelet_that_does_not_answer_holds_up_no_decision(self, server: ScriptedServer, reader: Reader) -> None:
        """The API server waits half a minute for it, and a rack of engines may fail together."""
        over = threading.Event()
        server.answer = lambda _: web.Response(text="late" if over.wait(KUBELET_SECONDS) else "too late")
        logs, pods = PodLogs(reader, 0.2), [replace(FAILED, uid=f"u-{number}") for number in range(20)]
        began = time.monotonic()
        assert [None] * 20 == [pod.failure and pod.failure.log_tail for pod in logs.add(pods, lambda _: True)]
        assert time.monotonic() - began < KUBELET_SECONDS
        over.set()

    def test_a_refusal_is_said_and_nothing_else_breaks(self, server: ScriptedServer, reader: Reader) -> None:
        says(server, {}, 403)
        (pod,) = PodLogs(reader).add([FAILED], lambda _: True)
        assert pod.failure == ContainerFailure("Error", "", 1, None, log_forbidden=True)

    def test_what_needs_no_log_is_not_read(self, server: ScriptedServer, reader: Reader) -> None:
        foreign = replace(FAILED, identity=None)
        healthy = replace(FAILED, failure=None)
        assert PodLogs(reader).add([FAILED], lambda _: False) == (FAILED,)
        assert PodLogs(reader).add([foreign, healthy], lambda _: True) == (foreign, healthy)
        assert server.requests == []

    @pytest.mark.parametrize(
        ("failure", "needed"),
        [
            (ContainerFailure("Error", "", 1), True),
            (ContainerFailure("Completed", "", 0), True),
            (ContainerFailure("Error", "vllm.EngineDeadError: EngineCore encountered an issue.", 1), True),
            (ContainerFailure("Error", "ValueError: No available memory for the cache blocks.", 1), False),
            (ContainerFailure("ErrImagePull", "not found"), False),
        ],
        ids=["silent", "a core that was killed", "only that the core died", "a cause", "never started"],
    )
    def test_are_read_where_the_last_words_name_no_cause(self, failure: ContainerFailure, needed: bool) -> None:  # noqa: FBT001
        status = PoolStatus(engine=EngineRelease(EngineName.VLLM, "0.32.0", "image"))
        pool = PoolRecord(ResourceKey("InferencePool", "team", "chat", "pool"), 1, None, status)
        assert logs_needed((pool,))(replace(FAILED, failure=failure)) is needed
        assert not logs_needed((pool,))(replace(FAILED, failure=failure, terminating=True))

    def test_last_words_are_those_of_the_engine_in_the_pod(self) -> None:
        """Its pool may want another one by now."""
        status = PoolStatus(engine=EngineRelease(EngineName.SGLang, "0.5.23", "image"))
        pool = PoolRecord(ResourceKey("InferencePool", "team", "chat", "pool"), 1, None, status)
        failure = ContainerFailure(
            "Error", "(EngineCore pid=1) ERROR 11-22 10:00:00 [core.py:700] ValueError: no memory", 1
        )
        pods = {name: replace(FAILED, failure=failure, engine=name) for name in ("vllm", "sglang")}
        needed = {name: logs_needed((pool,))(pod) for name, pod in pods.items()}
        assert needed == {"vllm": False, "sglang": True}
