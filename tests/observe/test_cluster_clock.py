"""F16: clocks that are wrong, or jump by an hour, end no wait that has hardly begun."""

from __future__ import annotations

import ast
import math
import time
from collections import Counter
from datetime import UTC, datetime
from email.utils import format_datetime, formatdate
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

import weft
from tests.protocol.scripted_server import ScriptedServer
from weft.observe.api_server.clock import CATCHING_UP, ROUNDING_SECONDS, SLOW_ANSWER_SECONDS, ClusterClock
from weft.observe.api_server.reading import Reader

HOUR = 3600.0
NOW = 1_800_000_000.0
PACKAGE = Path(weft.__file__).parent


class Machine:
    """Where an operator runs: a wall clock that may jump, a monotonic one that cannot, and the API server's."""

    def __init__(self, *, skew: float = 0.0) -> None:
        self.wall, self.monotonic, self.server = NOW + skew, 5.0, NOW
        self.clock = ClusterClock(lambda: self.wall, lambda: self.monotonic)

    def wait(self, seconds: float) -> None:
        self.wall, self.monotonic, self.server = (time + seconds for time in (self.wall, self.monotonic, self.server))

    def hear(self, seconds_ago: float = 0.0) -> None:
        self.clock.hear(formatdate(self.server - seconds_ago, usegmt=True))


def test_hours_that_a_machine_slept_have_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop with its cluster: what is created after it wakes is not of the future."""
    slept = 0.0
    awake = time.clock_gettime

    def read(which: int) -> float:
        return awake(which) + (slept if which == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", read)
    clock = ClusterClock()
    before = clock.now()
    slept = 8 * HOUR
    assert clock.now() - before == pytest.approx(8 * HOUR, abs=60.0)


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_our_own_clock_may_jump_while_we_run(jump: float) -> None:
    machine = Machine()
    machine.hear()
    began = machine.clock.now()
    machine.wall += jump
    machine.wait(7)
    machine.hear()
    assert machine.clock.now() - began == pytest.approx(7)


@pytest.mark.parametrize("skew", [HOUR, -HOUR])
def test_the_api_servers_clock_is_believed_when_ours_differs(skew: float) -> None:
    machine = Machine(skew=skew)
    assert machine.clock.now() == pytest.approx(NOW + skew)
    machine.hear()
    machine.wait(7)
    assert machine.clock.now() == pytest.approx(NOW + 7)


def test_many_first_answers_at_once_set_the_clock_once() -> None:
    """Each cache lists in a thread of its own; set back twice, the clock would be behind for as long as we run."""
    machine, reads = Machine(skew=HOUR), Counter[str]()
    another = Thread(target=machine.hear)

    def monotonic() -> float:
        reads["time"] += 1
        if reads["time"] == 2:  # the clock was made, and this thread hears its first answer: another one does, too
            another.start()
            another.join(0.5)
        return machine.monotonic

    machine.clock = ClusterClock(lambda: machine.wall, monotonic)
    machine.hear()
    another.join(5)
    assert machine.clock.now() == pytest.approx(NOW, abs=1)


def test_an_api_server_that_is_set_back_is_followed() -> None:
    """Else it would stamp every pod as an hour old."""
    machine = Machine()
    machine.hear()
    machine.server -= HOUR
    machine.hear()
    assert machine.clock.now() == pytest.approx(NOW - HOUR)


def test_an_api_server_that_is_set_forward_ends_no_wait() -> None:
    machine = Machine()
    machine.hear()
    machine.server += HOUR
    machine.hear()
    assert machine.clock.now() == pytest.approx(NOW)


def test_a_clock_of_several_that_was_late_is_made_up_for_once_it_answers_no_more() -> None:
    """An hour in 20: neither a restart nor a leap."""
    machine = Machine()
    machine.hear()
    machine.hear(seconds_ago=HOUR)
    assert machine.clock.now() == pytest.approx(NOW - HOUR)
    late = []
    for _ in range(22 * 60):
        machine.wait(60)
        machine.hear()
        late.append(machine.server - machine.clock.now())
    assert late[5 * 60] == pytest.approx(0.75 * HOUR, abs=120), "a twentieth of five hours"
    assert late[19 * 60] > 60
    assert late[-1] == pytest.approx(0, abs=2)


def test_one_answer_of_another_age_is_over_within_the_hour() -> None:
    """A proxy without a clock: to catch up with half a century would take ten, in which no start is ever too late."""
    machine = Machine()
    machine.hear()
    machine.hear(seconds_ago=NOW)
    for _ in range(60):
        machine.wait(60)
        machine.hear()
    assert machine.clock.now() == pytest.approx(machine.server, abs=2)


def test_a_clock_of_several_that_is_late_is_followed_while_it_answers() -> None:
    """What it stamps would else seem an hour old."""
    machine = Machine()
    for minute in range(24 * 60):
        machine.wait(60)
        machine.hear()
        if minute % 9 == 0:
            machine.hear(seconds_ago=HOUR)
            assert machine.clock.now() <= machine.server - HOUR + SLOW_ANSWER_SECONDS
    assert machine.clock.now() == pytest.approx(machine.server - HOUR, abs=SLOW_ANSWER_SECONDS)


def test_a_mended_clock_is_caught_up_with() -> None:
    """All API servers were an hour late, and are set right."""
    machine = Machine(skew=HOUR)
    machine.hear()
    machine.server += HOUR
    for _ in range(22 * 60):
        machine.wait(60)
        machine.hear()
    assert machine.clock.now() == pytest.approx(machine.server, abs=2)


@given(
    st.lists(st.floats(-2 * HOUR, 2 * HOUR), min_size=1, max_size=3),
    st.lists(st.tuples(st.floats(0, 2000), st.integers(0, 2), st.floats(0, 30)), min_size=1, max_size=80),
)
def test_of_whatever_servers_no_wait_ends_early_or_lasts_longer_than_the_latest_clock_asks_for(
    skews: list[float], answers: list[tuple[float, int, float]]
) -> None:
    """`answers`: seconds since the one before, which server, and how many seconds it took."""
    machine, latest = Machine(), math.inf
    for at, (passed, which, took) in enumerate(answers):
        before = machine.clock.now()
        machine.wait(passed)
        recorded = machine.server + skews[which % len(skews)]
        machine.clock.hear(formatdate(recorded - took, usegmt=True))
        now = machine.clock.now()
        latest = min(latest, recorded - took - 1 - machine.monotonic)
        if at:
            assert now - before <= passed * (1 + CATCHING_UP) + 1e-3, "a wait that began before"
        assert now <= recorded + max(SLOW_ANSWER_SECONDS, ROUNDING_SECONDS), "what this server records now is no older"
        assert now >= latest - ROUNDING_SECONDS + machine.monotonic, "further back than any answer was"


def test_an_answer_that_took_long_does_not_set_the_clock() -> None:
    machine = Machine()
    machine.hear()
    machine.wait(100)
    machine.hear(seconds_ago=30)
    assert machine.clock.now() == pytest.approx(NOW + 100)


@pytest.mark.parametrize("date", [None, "", "yesterday", format_datetime(datetime(1970, 1, 1, tzinfo=UTC))[:9]])
def test_an_answer_without_a_date_that_can_be_read_changes_nothing(date: str | None) -> None:
    machine = Machine(skew=HOUR)
    machine.clock.hear(date)
    assert machine.clock.now() == pytest.approx(NOW + HOUR)
    machine.hear()
    assert machine.clock.now() == pytest.approx(NOW), "nor that the first one that can be read sets the clock"


def test_every_answer_tells_the_time_even_a_refusal() -> None:
    heard: list[str | None] = []
    with ScriptedServer() as server:
        reader = Reader(ApiClient(Configuration(host=server.url)), heard.append)
        reader.get("/api/v1/pods")
        server.fail(403)
        with pytest.raises(ApiException):
            reader.get("/api/v1/pods")
    assert len(heard) == 2
    assert all(heard)


@pytest.mark.parametrize("package", ["observe", "control"])
def test_nothing_else_asks_the_machine_for_the_time(package: str) -> None:
    """Where the process measures, it measures monotonic time."""
    asking = {
        path.relative_to(PACKAGE).as_posix()
        for path in (PACKAGE / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"time.time", "datetime.now", "datetime.utcnow"}
    }
    assert asking == ({"observe/api_server/clock.py"} if package == "observe" else set())
