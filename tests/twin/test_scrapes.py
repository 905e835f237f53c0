"""What the operator knows of simulated engines is what it would have read on their pages, and no more."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twin.serving_cases import CHAT, SPEED, SPLIT, poisson, serving, trace
from weft.domain.shape import EngineName
from weft.domain.start_up import MeasuredStart
from weft.engines import FRONTS, series_for
from weft.observe.samples import arithmetic
from weft.observe.samples.scrape_target import EngineTarget
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.exposition import parse
from weft.twin.live.exposition import EngineMetrics
from weft.twin.serving.observing import percentiles
from weft.twin.serving.scrapes import ScrapeOptions

if TYPE_CHECKING:
    from weft.domain.snapshot import PodObservation, PoolObservation
    from weft.twin.serving.stream import Route, Serving

SERIES = series_for(EngineName.VLLM, "0.21.0")
STARTED = MeasuredStart(7, (0, 12, 0, 0, 21))
GAP = (210.0, 330.0)


class Pages:
    """The pages of the same engines, scraped with the same clock and read as the operator reads them."""

    def __init__(self, served: Serving) -> None:
        self._served = served
        self.now = 0.0
        self._source = DirectSource(clock=lambda: self.now)

    def scrape(self, now: float) -> None:
        self.now = now
        self._served.advance(now)
        for name, each in self._served._engines.items():
            if not each.alive:
                continue
            self._source.remember(name, parse(EngineMetrics("m", each.engine).text().decode(), SERIES.names))
        tried = self._served._front.tried
        page = f"vllm_router_processed_requests_total {tried}\nvllm_router_retries_total 0\n"
        self._source.remember("front", parse(page, FRONTS.names))

    def observe(self, names: list[str], now: float) -> PoolObservation:
        self.now = now
        targets = [target(name, STARTED) for name in names]
        return observe_pool(targets, self._source.windows(), [target("front")])


def target(name: str, start: MeasuredStart | None = None) -> EngineTarget:
    place = (name, "default", name, "127.0.0.1", 8000, "/metrics", ())
    return EngineTarget(*place, None if start is None else 33.0, start=start, series=SERIES)


def flat(observation: PoolObservation | PodObservation) -> dict[str, object]:
    """All fields but those of pods, and of when each was heard."""
    names = {each.name for each in fields(observation)} - {"pods", "heard"}
    return {name: getattr(observation, name) for name in sorted(names)}


def assert_same(expected: PoolObservation | PodObservation, found: PoolObservation | PodObservation) -> None:
    for name, value in flat(expected).items():
        other = flat(found)[name]
        if isinstance(value, tuple) and value and isinstance(value[0], tuple) and isinstance(other, tuple):
            assert [key for key, _ in value] == [key for key, _ in other], name
            assert [each for _, each in value] == pytest.approx([each for _, each in other]), name
        elif isinstance(value, float):
            assert value == pytest.approx(other), name
        else:
            assert value == other, name


@pytest.mark.parametrize("route", [CHAT, SPLIT], ids=["one pool", "split"])
def test_every_figure_is_that_of_the_pages(route: Route) -> None:
    """At each scrape, with engines that start late or die, prompts in common, and nobody to ask for two minutes."""
    served = serving(poisson(8.0, 500.0, families=20), route, delay_seconds=0.0, gaps=(GAP,))
    pages, resolved = Pages(served), 0
    names = {pool: [f"{pool}-{number}" for number in range(3)] for pool in route.pools}
    for now in (15.0 * turn for turn in range(35)):
        if not GAP[0] <= now < GAP[1]:
            pages.scrape(now)
        for pool in route.pools:
            come_and_go(served, pool, names[pool], now)
        for pool in route.pools:
            expected, found = pages.observe(names[pool], now + 4.0), served.observe(pool, names[pool], now + 4.0)
            assert found is not None
            assert_same(expected, found)
            for one, other in zip(expected.pods, found.pods, strict=True):
                assert expected.silent_seconds(one.pod) == pytest.approx(found.silent_seconds(other.pod))
                # without news the pool grows older and its pods stay as they were, as in `MetricsCollector`
                assert_same(replace(one, age_seconds=other.age_seconds) if expected.age_seconds > 15.0 else one, other)
            resolved += found.arrivals_at_front and len(found.ttft) > 0 and found.prefix_hit is not None
    assert resolved > 20


def come_and_go(served: Serving, pool: str, names: list[str], now: float) -> None:
    """Two engines start, later a third one, and still later the first one dies."""
    for name in {0.0: names[:2], 105.0: names[2:]}.get(now, []):
        served.start(name, pool, SPEED, now, STARTED)
    if now == 405.0:
        served.kill(names[0], now)


def test_nothing_is_known_before_the_first_scrape_is() -> None:
    served = serving(trace([1.0]), delay_seconds=2.0)
    served.start("a", "chat", SPEED, 0.0)
    assert served.observe("chat", ["a"], 1.9) is None
    found = served.observe("chat", ["a"], 2.0)
    assert found is not None
    assert (1, 0) == (found.expected, found.answered)  # a rate needs two
    assert not found.complete


def test_without_news_it_is_the_same_again_and_older() -> None:
    served = serving(poisson(5.0, 100.0))
    served.start("a", "chat", SPEED, -10.0)
    first, later, next_one = (served.observe("chat", ["a"], now) for now in (61.0, 70.0, 76.0))
    assert first is not None
    assert later is not None
    assert next_one is not None
    assert (1.0, 10.0, 1.0) == (first.age_seconds, later.age_seconds, next_one.age_seconds)
    assert first.pods is later.pods
    assert first.pods is not next_one.pods


def test_while_nobody_asks_it_is_the_same_value_from_scrape_to_scrape() -> None:
    """Whoever looks at it again finds nothing new at a glance."""
    served = serving(trace([1.0, 400.0]))
    served.start("a", "chat", SPEED, -10.0)
    busy, *idle = (served.observe("chat", ["a"], now) for now in (46.0, 121.0, 136.0, 391.0))
    again = served.observe("chat", ["a"], 421.0)
    assert idle[0] is not None
    assert all(each is idle[0] for each in idle)
    assert busy is not None
    assert again is not None
    assert 0.0 == idle[0].requests_per_second != busy.requests_per_second
    assert 0.0 != again.requests_per_second


def test_other_engines_are_other_news() -> None:
    served = serving(poisson(5.0, 100.0))
    served.start("a", "chat", SPEED, -10.0)
    served.start("b", "chat", SPEED, -10.0)
    both, one = served.observe("chat", ["a", "b"], 61.0), served.observe("chat", ["b"], 61.0)
    assert both is not None
    assert one is not None
    assert ["a", "b"] == [pod.pod for pod in both.pods]
    assert ["b"] == [pod.pod for pod in one.pods]


def test_a_front_counts_what_no_engine_takes() -> None:
    served = serving(trace([2.0 * number for number in range(50)]))
    found = served.observe("chat", [], 61.0)
    assert found is not None
    assert (0, 15.0, True) == (found.expected, found.arrival_seconds, found.arrivals_at_front)
    assert found.arrivals in {7.0, 8.0}


def test_in_a_gap_it_grows_old_and_then_nobody_has_answered() -> None:
    served = serving(poisson(5.0, 300.0), gaps=((100.0, 200.0),))
    served.start("a", "chat", SPEED, 0.0)
    answered = {now: served.observe("chat", ["a"], now) for now in (95.0, 134.0, 136.0, 197.0, 212.0, 227.0)}
    assert [1, 1, 0, 0, 0, 1] == [each.answered for each in answered.values() if each is not None]
    old = answered[134.0]
    assert old is not None
    assert 44.0 == old.age_seconds
    assert old.complete
    blind = answered[197.0]
    assert blind is not None
    assert blind.arrivals is None


def test_some_scrapes_are_lost_by_seed() -> None:
    """A pod that was missed is read by its older scrapes."""
    ages: list[list[float]] = []
    for _ in range(2):
        served = serving(poisson(5.0, 300.0), lost_share=0.5)
        for name in ("a", "b", "c"):
            served.start(name, "chat", SPEED, 0.0)
        found = [served.observe("chat", ["a", "b", "c"], 16.0 + 15.0 * turn) for turn in range(18)]
        ages.append([each.age_seconds for each in found if each is not None])
    assert ages[0] == ages[1]
    assert {1.0, 16.0, 31.0} <= set(ages[0])


@given(
    st.lists(st.integers(0, 50), min_size=4, max_size=4).filter(any),
    st.floats(0.001, 20.0),
)
def test_percentiles_are_those_of_the_arithmetic(counts: list[int], mean: float) -> None:
    """As of any histogram, in the first bucket and beyond the last one too."""
    bounds, below = (0.1, 1.0, 5.0, math.inf), list(accumulate(counts))
    expected = arithmetic.percentiles(tuple(zip(bounds, map(float, below), strict=True)), mean)
    found = percentiles(bounds, below, mean)
    assert [percent for percent, _ in expected] == [percent for percent, _ in found]
    assert [each for _, each in expected] == pytest.approx([each for _, each in found])


def test_options_that_observe_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="room for two scrapes"):
        ScrapeOptions(interval_seconds=30.0, window_seconds=20.0)
