"""Decisions into statuses: what is refused is tried again at growing intervals, and nobody takes what it gives up."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.decide.test_persisting import at, decided, record
from weft.apply import ServerError, WebhookAway
from weft.control.deciding.decision_writing import DecisionWriter
from weft.control.health import SILENT_LOOP_SECONDS
from weft.control.metrics.telemetry import Telemetry
from weft.domain.decision import Decisions, PoolDecision
from weft.domain.errors import Blocked, Retry, WeftError
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Failure

NOT_PERMITTED = Blocked(Reason.NotPermitted, "Weft may not patch inferencepools/status")
GIVER, TAKER = record("b", at(0, "n-0")), record("a")
GIVES_UP, TAKES = decided(GIVER), decided(TAKER, at(1, "n-0"))


class Server:
    """An API server that refuses the status of some pools, and how often it was asked for each; time is a number."""

    def __init__(self, **refused: WeftError) -> None:
        self.refused, self.asked, self.told = refused, list[str](), list[str]()
        self.now = 0.0
        self.answer_seconds = 0.0
        ours: Any = self
        unused: Any = None
        context: Any = SimpleNamespace(
            resources=ours, writer=ours, events=ours, telemetry=Telemetry(), options=unused, clock=unused
        )
        self._writer = DecisionWriter(context, lambda: self.now)

    def body(self, uid: str) -> Any:  # noqa: ANN401 - any JSON
        """As the cache has it."""
        return {"metadata": {"uid": uid, "resourceVersion": "7"}}

    def write_status(self, key: Any, *_: object) -> Any:  # noqa: ANN401 - any JSON
        """Answer a write."""
        self.asked.append(key.name)
        self.now += self.answer_seconds
        if key.name in self.refused:
            raise self.refused[key.name]
        return self.body(key.uid)

    def put(self, _: object) -> None:
        """What the answer is for."""

    def record(self, key: Any, _: Explanation, *, warns: bool = False) -> None:  # noqa: ANN401, ARG002 - as a recorder
        """Note of whom something is told."""
        self.told.append(key.name)

    def write(self, *decisions: PoolDecision, seconds: float = 0.0) -> list[str]:
        """One pass some seconds later: whose status the server was asked to write."""
        self.now += seconds
        self.asked.clear()
        versions = {each.key.uid: 7 for each in decisions}
        seen: Any = SimpleNamespace(pools=(GIVER, TAKER), splits=(), now=0.0)
        self._writer.write(seen, Decisions(decisions, (), {}, None), versions)
        return [*self.asked]


def test_a_status_that_is_refused_is_tried_again_at_growing_intervals() -> None:
    """F13: a pass comes every two seconds, of maybe hundreds of pools, all through the same limit on writes."""
    server = Server(b=NOT_PERMITTED)
    passes = [bool(server.write(GIVES_UP, seconds=2.0)) for _ in range(300)]
    assert 20 > sum(passes)
    assert any(passes[-31:])  # at least once a minute


def test_what_is_refused_is_logged_once_until_it_changes_or_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """Each of these passes tries again."""
    server, other, logged = Server(), Blocked(Reason.NotPermitted, "of somebody else"), []
    for error in (NOT_PERMITTED, NOT_PERMITTED, other, None, other):
        server.refused = {} if error is None else {"b": error}
        server.write(GIVES_UP, seconds=60.0)
        logged.append(len(caplog.records))
    assert [1, 1, 2, 2, 3] == logged


def test_an_outage_is_logged_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    """A pass comes every two seconds, and each error of a connection has words of its own."""
    server, logged = Server(), []
    for number in (0, 1, None, 2):
        server.refused = {} if number is None else {"b": Retry(Reason.ApiUnavailable, f"connection {number}")}
        server.write(GIVES_UP, seconds=60.0)
        logged.append(len(caplog.records))
    assert [1, 1, 1, 2] == logged


def test_nobody_takes_what_a_refused_pool_gives_up_while_its_write_waits() -> None:
    """S2."""
    server = Server(b=NOT_PERMITTED)
    assert ["b"] == server.write(GIVES_UP, TAKES)
    assert [] == server.write(GIVES_UP, TAKES, seconds=0.5)
    server.refused.clear()
    assert ["b", "a"] == server.write(GIVES_UP, TAKES, seconds=60.0)


def test_an_edit_is_tried_at_once_and_a_success_ends_the_back_off() -> None:
    server = Server(b=NOT_PERMITTED)
    server.write(GIVES_UP)
    edited = replace(GIVES_UP, generation=GIVES_UP.generation + 1)
    assert ["b"] == server.write(edited)
    server.refused.clear()
    assert ["b"] == server.write(edited, seconds=2.0)
    assert ["b"] == server.write(edited)


def test_one_status_at_which_the_server_fails_holds_up_no_other_pool() -> None:
    """F23: one that is too large for etcd, or whose managed fields fit no schema, is answered with 500 for ever."""
    server = Server(b=ServerError("etcdserver: request is too large"))
    other = decided(record("c"))
    assert ["b", "c"] == server.write(GIVES_UP, other, TAKES)
    assert ["c"] == server.write(GIVES_UP, other, TAKES, seconds=0.5)
    passes = [server.write(GIVES_UP, other, seconds=2.0) for _ in range(100)]
    assert 30 > sum("b" in each for each in passes)
    assert any("b" in each for each in passes[-6:])  # within ten seconds of its recovery


def test_one_status_that_cannot_be_made_holds_up_no_other_pool() -> None:
    """F9: what cannot be written down, such as a time in a year without a name, is a mistake of ours about one pool."""
    failure = Failure("r", 1, 1e18, Explanation(Reason.EngineFailed, "it ended"))
    unwritable = replace(GIVES_UP, status=replace(GIVES_UP.status, failure=failure))
    server, other = Server(), decided(record("c"))
    for _ in range(4):
        assert ["c"] == server.write(unwritable, other, TAKES, seconds=60.0)
    assert server.told == ["b"]
    assert ["b", "a"] == server.write(GIVES_UP, TAKES, seconds=60.0)


@pytest.mark.parametrize(
    "error", [ServerError("etcdserver: request timed out"), WebhookAway(Reason.PodRefused, "timed out")]
)
def test_a_pass_ends_long_before_the_loop_counts_as_dead_however_slowly_all_is_refused(error: WeftError) -> None:
    """F13: a restart would heal neither an etcd without a quorum nor a webhook that hangs."""
    pools = [decided(record(f"p-{number}")) for number in range(100)]
    server = Server(**{each.key.name: error for each in pools})
    server.answer_seconds = 10.0
    began = server.now
    assert server.write(*pools)
    assert SILENT_LOOP_SECONDS / 2 > server.now - began
    server.refused.clear()
    server.answer_seconds = 1.0  # slow, and well
    assert len(pools) == len(server.write(*pools, seconds=60.0))


@pytest.mark.parametrize("reason", [Reason.StatusConflict, Reason.ApiUnavailable])
def test_what_may_pass_is_tried_in_the_next_pass(reason: Reason) -> None:
    server = Server(b=Retry(reason, "not now"))
    assert [["b"]] * 3 == [server.write(GIVES_UP, TAKES) for _ in range(3)]


def test_events_are_told_once_the_decision_is_written() -> None:
    news = replace(GIVES_UP, events=(Explanation(Reason.Draining, "one leaves"),))
    server = Server(b=NOT_PERMITTED)
    server.write(news)
    assert server.told == []
    server.refused.clear()
    server.write(news, seconds=60.0)
    assert server.told == ["b"]


def test_a_decision_that_is_refused_again_and_again_is_told_in_an_event() -> None:
    """The status itself tells of nothing new, so that a pool that waits for it would wait without a word."""
    server = Server(b=ServerError("etcdserver: request is too large"))
    for _ in range(3):
        server.write(GIVES_UP, seconds=60.0)
    assert server.told == []
    server.write(GIVES_UP, seconds=60.0)
    assert server.told == ["b"]
