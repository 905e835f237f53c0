"""What the played engines count is a matter of clocks alone: a machine that is late makes no rate uneven."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.prometheus.engines import LOST_SECONDS, PROMETHEUS, Load, ScriptedEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE = 20.0
ANSWERED = re.compile(r"vllm:request_success_total\{.*\} (\S+)(?: (\d+))?\n")


class Clock:
    """One that is set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def operators() -> Clock:
    return Clock(0.0)


@pytest.fixture
def prometheus(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(1_000_000.0)
    monkeypatch.setattr(time, "time", clock)
    return clock


@pytest.fixture
def engine(prometheus: Clock, operators: Clock) -> Iterator[ScriptedEngine]:
    with ScriptedEngine(Load(RATE), operators) as serving:
        yield serving


def told(engine: ScriptedEngine, agent: str) -> tuple[float, str | None]:
    """The count on the page, and the time that it says it is of, in milliseconds."""
    found = ANSWERED.search(engine.answer(agent)[1])
    assert found is not None
    return float(found[1]), found[2]


def test_a_page_for_prometheus_says_of_which_time_its_counts_are(engine: ScriptedEngine, prometheus: Clock) -> None:
    prometheus.now += 1.5
    assert told(engine, PROMETHEUS) == (RATE * 1.5, "1000001500")
    prometheus.now += 0.4
    assert told(engine, PROMETHEUS) == (RATE * 1.5, "1000001500")
    prometheus.now += 0.2
    assert told(engine, PROMETHEUS) == (RATE * 2.0, "1000002000")


def test_the_operator_is_told_the_counts_of_its_own_time(
    engine: ScriptedEngine, prometheus: Clock, operators: Clock
) -> None:
    operators.now += 0.25
    prometheus.now += 60.0
    assert told(engine, "aiohttp") == (RATE * 0.25, None)


def test_a_restart_loses_as_much_however_late_it_is(
    engine: ScriptedEngine, prometheus: Clock, operators: Clock
) -> None:
    """Who asked some time ago loses no more than who asked just now."""
    operators.now += 1.0
    prometheus.now += 1.0
    for agent in ("aiohttp", PROMETHEUS):
        assert told(engine, agent)[0] == RATE
    prometheus.now += 3.0
    engine.restart()
    assert told(engine, "aiohttp")[0] == 0.0
    operators.now += 1.0
    assert told(engine, "aiohttp")[0] == RATE * (1.0 - LOST_SECONDS)
    assert told(engine, PROMETHEUS)[0] == RATE * (3.0 - LOST_SECONDS)


def test_a_load_that_changes_counts_from_then_on(engine: ScriptedEngine, prometheus: Clock) -> None:
    prometheus.now += 1.0
    engine.give(Load(2 * RATE))
    prometheus.now += 1.0
    assert told(engine, PROMETHEUS)[0] == 3 * RATE
