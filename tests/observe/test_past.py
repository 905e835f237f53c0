"""Prometheus is asked once for the weeks before, about each pool whose days nobody has seen."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.decide.world import pool, pool_spec
from tests.observe.every_day_the_same import EveryDayTheSame, listening
from tests.scaling.test_forecast import MONDAY, busy_from_nine, followed
from weft.domain.errors import Bug
from weft.domain.pool_memory import ScaleMemory
from weft.domain.shape import EngineName, EngineRelease
from weft.engines import finished_by_engine, series_for
from weft.observe.sources.past import LONGEST_SECONDS, RETRY_SECONDS, PastTraffic
from weft.observe.sources.prometheus import PrometheusSource, rate_of_all
from weft.scaling import kept_now
from weft.scaling.forecasting.past import STEP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.forecast import ForecastState
    from weft.domain.snapshot import PoolRecord

NOW = MONDAY + 1000.0


@cache
def two_weeks() -> ForecastState:
    """What somebody has learnt who saw them; computed for tests that ask alone: every worker reads this file."""
    return followed(busy_from_nine() * 14, apart=60.0)


@pytest.fixture
def past(monkeypatch: pytest.MonkeyPatch) -> Iterator[PastTraffic]:
    monkeypatch.setattr(EveryDayTheSame, "asked", [])
    with listening() as url, ThreadPoolExecutor(1) as executor:
        yield PastTraffic(PrometheusSource(url, executor))


def served(name: str, version: str = "0.33.0") -> PoolRecord:
    record = pool(name, pool_spec())
    engine = EngineRelease(EngineName.VLLM, version, "image")
    return replace(record, status=replace(record.status, engine=engine))


EVERY_ENGINE = ("vllm:request_success_total", "sglang:num_requests_total", "trtllm_request_success_total")


@pytest.mark.parametrize(
    ("engine", "versions"),
    [(EngineName.VLLM, "0.10.0 0.33.0"), (EngineName.SGLang, "0.5.3 0.5.23"), (EngineName.TensorRTLLM, "1.2.0 1.3.0")],
)
def test_no_version_of_an_engine_calls_finished_requests_otherwise(engine: EngineName, versions: str) -> None:
    named = {series_for(engine, version).finished for version in versions.split()}
    assert named == {finished_by_engine()[list(EngineName).index(engine)]}


def test_two_weeks_are_asked_for_in_steps_of_five_minutes(past: PastTraffic) -> None:
    past.ask_next([served("chat")], NOW)
    (asked,) = EveryDayTheSame.asked
    assert asked["query"] == rate_of_all("team", "chat", EVERY_ENGINE, 300.0)
    assert float(asked["end"]) - float(asked["start"]) == LONGEST_SECONDS
    assert float(asked["step"]) == STEP_SECONDS
    assert float(asked["end"]) == NOW // 900.0 * 900.0


def test_one_pool_is_asked_about_after_the_other_and_each_once(past: PastTraffic) -> None:
    pools = [served("chat"), served("search")]
    for later in range(0, 4000, 1000):
        past.ask_next(pools, NOW + later)
    assert len(EveryDayTheSame.asked) == len(pools)
    assert past.found({}).keys() == {"uid-chat", "uid-search"}
    assert all(any(each.days) for each in past.found({}).values())


def test_what_a_forecast_knows_by_now_is_told_no_more(past: PastTraffic) -> None:
    past.ask_next([served("chat")], NOW)
    new = replace(two_weeks(), days=((), ()))
    assert past.found({"uid-chat": ScaleMemory(NOW, forecast=new)}).keys() == {"uid-chat"}
    assert past.found({"uid-chat": ScaleMemory(NOW, forecast=two_weeks())}) == {}
    assert past.found({}) == {}


def test_a_pool_that_is_gone_is_forgotten(past: PastTraffic) -> None:
    past.ask_next([served("chat")], NOW)
    past.ask_next([], NOW)
    assert past.found({}) == {}


def test_a_pool_that_has_lived_through_days_or_has_no_engine_is_not_asked_about(past: PastTraffic) -> None:
    record = served("chat")
    lived = replace(record, status=replace(record.status, forecast=kept_now(two_weeks(), two_weeks().seen)))
    past.ask_next([lived, pool("new", pool_spec())], two_weeks().seen)
    assert EveryDayTheSame.asked == []


def test_a_prometheus_that_does_not_answer_is_asked_again_later(
    past: PastTraffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known until then, and nothing else happens."""
    monkeypatch.setattr(EveryDayTheSame, "status", 503)
    past.ask_next([served("chat")], NOW)
    past.ask_next([served("chat")], NOW + RETRY_SECONDS - 1.0)
    assert (past.found({}), len(EveryDayTheSame.asked)) == ({}, 1)
    monkeypatch.setattr(EveryDayTheSame, "status", 200)
    past.ask_next([served("chat")], NOW + RETRY_SECONDS)
    assert past.found({}).keys() == {"uid-chat"}


def test_days_are_counted_whatever_engine_served_them(past: PastTraffic) -> None:
    """Two weeks may hold a change of it, and how the planned version is written says nothing of the past."""
    past.ask_next([served("chat", "soon")], NOW)
    (asked,) = EveryDayTheSame.asked
    assert all(f"rate({counter}{{" in str(asked["query"]) for counter in EVERY_ENGINE)
    assert past.found({}).keys() == {"uid-chat"}


def test_without_a_prometheus_nobody_is_asked() -> None:
    past = PastTraffic(None)
    past.ask_next([served("chat")], NOW)
    assert past.found({}) == {}


def test_nothing_but_names_gets_into_a_query() -> None:
    assert 'pod=~"a[.]b-' in rate_of_all("team", "a.b", ("finished",), 300.0)
    with pytest.raises(Bug):
        rate_of_all("team", 'a"} or up{x="', ("finished",), 300.0)
