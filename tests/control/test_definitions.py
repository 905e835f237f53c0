"""Definitions of an earlier release than the operator's: what they lack is left out of statuses, for a while."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from weft.apply import ServerError, Undeclared
from weft.control.statuses.definitions import LOOK_AGAIN_SECONDS, Definitions
from weft.control.statuses.status_writer import StatusWriter
from weft.domain.decision import PoolDecision
from weft.domain.snapshot import ResourceKey
from weft.domain.start_up import StartUp
from weft.domain.status import Observed, PoolProgress, PoolStatus

Json = dict[str, Any]

KEY = ResourceKey("InferencePool", "team", "chat", "u-1")
NOW = 1_782_892_800.0
STATUS = PoolStatus(desired_replicas=2, start_up=StartUp(60, 30, 40, None), observed=Observed(requests_per_second=10.0))
REFUSED = Undeclared(".status.startUp: field not declared in schema", frozenset({("startUp",)}))


class Server:
    """One pool whose definition lacks some fields; as cache and as API server."""

    def __init__(self, *lacking: str) -> None:
        self.lacking, self.writes, self.refusals = lacking, 0, 0
        self.live: Json = {"metadata": {"uid": KEY.uid, "resourceVersion": "1"}, "status": {}}
        ours: Any = self
        self.statuses = StatusWriter(SimpleNamespace(resources=ours, writer=ours))  # type: ignore[arg-type]

    def body(self, _: str) -> Json:
        """As the cache has it."""
        return copy.deepcopy(self.live)

    def put(self, body: Json) -> None:
        """The answer to a write."""
        self.live = body

    def write_status(self, _key: ResourceKey, status: Json, _manager: str, version: str) -> Json:
        """Take it in, or refuse it whole."""
        unknown = frozenset((name,) for name in status if name in self.lacking)
        if unknown:
            self.refusals += 1
            raise Undeclared("field not declared in schema", unknown)
        self.writes += 1
        meta = {**self.live["metadata"], "resourceVersion": str(int(version) + 1)}
        return {"metadata": meta, "status": {**self.live["status"], **copy.deepcopy(status)}}

    def decide(self, status: PoolStatus = STATUS, seconds: float = 0.0) -> bool:
        """Write a decision on what the cache has."""
        decision = PoolDecision(KEY, 1, status, status.desired_replicas, ())
        version = int(self.live["metadata"]["resourceVersion"])
        return self.statuses.write_decision(decision, version, NOW + seconds)


def test_a_decision_is_written_without_what_the_definition_lacks() -> None:
    server = Server("startUp")
    assert server.decide()
    assert (2, False) == (server.live["status"]["desiredReplicas"], "startUp" in server.live["status"])
    assert (1, 1) == (server.writes, server.refusals)


def test_what_it_lacks_is_no_reason_to_write_again() -> None:
    """L3: nor are the live figures, which every write brings up to date."""
    server = Server("startUp", "placedReplicas")
    server.decide()
    for rate in (10.1, 10.2, 9.9):
        assert not server.decide(replace(STATUS, observed=Observed(requests_per_second=rate)), seconds=2.0)
    assert server.decide(replace(STATUS, desired_replicas=3))
    assert (2, 1) == (server.writes, server.refusals)


def test_progress_is_written_too() -> None:
    server = Server("selector")
    progress = PoolProgress(1, 2, 2, "weft.dev/pool-uid=u-1")
    assert server.statuses.write_progress(KEY, progress, 1, NOW)
    assert 2 == server.live["status"]["readyReplicas"]
    assert not server.statuses.write_progress(KEY, progress, 2, NOW)


def test_a_second_refusal_is_told() -> None:
    class Strict(Server):
        def write_status(self, _key: ResourceKey, _status: Json, _manager: str, _version: str) -> Json:
            raise REFUSED

    with pytest.raises(ServerError):
        Strict().decide()


def test_a_definition_is_asked_again_after_a_while() -> None:
    now = [0.0]
    known = Definitions(lambda: now[0])
    status: Json = {"startUp": {}, "observed": {"live": [], "ttft": {}}, "scale": {}}
    known.note("InferencePool", frozenset({("startUp",)}))
    known.note("InferencePool", frozenset({("observed", "live")}))
    assert {"observed": {"ttft": {}}, "scale": {}} == known.known_part("InferencePool", status)
    assert status == known.known_part("PDSplit", status)
    now[0] = LOOK_AGAIN_SECONDS
    assert status == known.known_part("InferencePool", status)
