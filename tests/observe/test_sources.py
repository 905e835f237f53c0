"""Both metrics sources give the same numbers, and say honestly what they do not know."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tests.observe.fake_prometheus import FakePrometheus
from weft.domain.errors import Bug
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.observe.samples.history import History, Origin
from weft.observe.samples.scrape_target import EngineTarget
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.exposition import parse
from weft.observe.sources.prometheus import PrometheusAway, PrometheusSource, queries, selector
from weft.observe.sources.source import PreferredSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator

    from tests.observe.fake_prometheus import Scrape
    from weft.domain.snapshot import PoolObservation
    from weft.observe.samples.history import SeriesKey
    from weft.observe.samples.scrape_target import Target

SERIES = series_for(EngineName.VLLM, "0.33.0")
NAMES = SERIES.names
STEP_SECONDS = 5.0


class Engine:
    """The series of one vLLM, counted by hand."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = {"model_name": "m", "engine": "0"}

        def gauge(name: str, **more: str) -> Gauge:
            made = Gauge(name, "-", [*labels, *more], registry=self.registry)
            return made.labels(**labels, **more)

        def histogram(name: str, *buckets: float) -> Histogram:
            made = Histogram(name, "-", [*labels], buckets=buckets, registry=self.registry)
            return made.labels(**labels)

        self.running = gauge(str(SERIES.running))
        self.waiting = gauge(str(SERIES.waiting))
        self.by_reason = gauge("vllm:num_requests_waiting_by_reason", reason="capacity")
        self.kv = gauge(str(SERIES.kv_usage))
        finished = Counter(SERIES.finished, "-", [*labels, "finished_reason"], registry=self.registry)
        self.finished = finished.labels(**labels, finished_reason="stop")
        self.ttft = histogram(SERIES.ttft, 0.1, 0.25, 0.5, 1.0)
        self.tpot = histogram(SERIES.tpot or "", 0.01, 0.025, 0.05)
        self.inputs = histogram(str(SERIES.request_input_tokens), 100, 1000)
        self.outputs = histogram(str(SERIES.request_output_tokens), 100, 1000)

    def answer(self, ttft: float) -> None:
        """Count one answered request."""
        self.finished.inc()
        self.ttft.observe(ttft)
        self.tpot.observe(0.02)
        self.inputs.observe(400)
        self.outputs.observe(80)

    def values(self) -> dict[SeriesKey, float]:
        """What one scrape of it gives."""
        return parse(generate_latest(self.registry).decode(), NAMES)


def target(uid: str, ip: str = "127.0.0.1", port: int = 8000) -> EngineTarget:
    return EngineTarget(uid, "team", f"pod-{uid}", ip, port, "/metrics", NAMES, series=SERIES)


TARGETS = (target("a"), target("b"))


@pytest.fixture(scope="module")
def history() -> list[Scrape]:
    """A minute of two engines; the second restarts in the middle and loses its counts."""
    engines = {"a": Engine(), "b": Engine()}
    scrapes: list[Scrape] = []
    for step in range(12):
        at = 1000.0 + step * STEP_SECONDS
        if step == 6:
            engines["b"] = Engine()
        for uid, engine in engines.items():
            for number in range(10 if uid == "a" else 4):
                engine.answer(0.05 + 0.04 * number)
            engine.by_reason.set(3)
            engine.waiting.set(7)
            engine.running.set(5)
            engine.kv.set(0.5)
            scrapes.append((at, uid, engine.values()))
    return scrapes


class Clock:
    """Time that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def directly(scrapes: list[Scrape]) -> PoolObservation:
    """What the direct source makes of them."""
    clock = Clock()
    source = DirectSource(clock=clock)
    for at, uid, values in scrapes:
        clock.now = at
        source.remember(uid, values)
    return observe_pool(TARGETS, source.windows())


@pytest.fixture
async def prometheus(history: list[Scrape]) -> AsyncIterator[tuple[FakePrometheus, str]]:
    fake = FakePrometheus(history)
    async with fake.served() as url:
        yield fake, url


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_mean_latencies_come_from_sums_and_not_from_buckets(history: list[Scrape]) -> None:
    """Ten and four requests at a time, of 50 ms and 40 ms more each: 0.23 s and 0.11 s; every gap is 20 ms."""
    seen = directly(history)
    assert seen.ttft_mean == pytest.approx((10 * 0.23 + 4 * 0.11) / 14, rel=0.03)
    assert seen.tpot_mean == pytest.approx(0.02)


def test_means_are_unknown_while_a_busy_engine_does_not_tell_its_own(history: list[Scrape]) -> None:
    """One that answered nothing is not missed."""

    def without(values: dict[SeriesKey, float], uid: str, *names: str) -> dict[SeriesKey, float]:
        return {key: value for key, value in values.items() if uid != "b" or not key[0].startswith(names)}

    partial = directly([(at, uid, without(values, uid, SERIES.ttft)) for at, uid, values in history])
    assert partial.ttft_mean is None
    assert partial.tpot_mean == pytest.approx(0.02)


async def test_both_sources_give_the_same_numbers(
    history: list[Scrape], prometheus: tuple[FakePrometheus, str], executor: ThreadPoolExecutor
) -> None:
    asked = observe_pool(TARGETS, await PrometheusSource(prometheus[1], executor).collect(TARGETS))
    assert asked == directly(history)


def test_the_numbers_are_those_of_the_engines(history: list[Scrape]) -> None:
    seen = directly(history)
    assert (seen.expected, seen.answered, seen.complete) == (2, 2, True)
    assert seen.requests_per_second == pytest.approx(10 / STEP_SECONDS + 4 / STEP_SECONDS)
    assert seen.input_tokens == pytest.approx(400)
    assert seen.output_tokens == pytest.approx(80)
    assert seen.running == 10
    assert seen.kv_usage == pytest.approx(0.5)
    assert dict(seen.ttft)[50] == pytest.approx(0.2, abs=0.06)


def test_requests_that_wait_for_kv_are_no_queue(history: list[Scrape]) -> None:
    """The gauge by reason counts; the plain one holds deferred requests too."""
    seen = directly(history)
    assert seen.waiting == 6


def test_a_pod_seen_once_has_not_answered_yet(history: list[Scrape]) -> None:
    """S5: without a rate of every pod the pool may not shrink."""
    of_a = [scrape for scrape in history if scrape[1] == "a"]
    seen = directly([*of_a, history[-1]])
    assert (seen.expected, seen.answered, seen.complete) == (2, 1, False)


def test_a_missing_series_is_named_and_not_zero(history: list[Scrape]) -> None:
    without = [(at, uid, {k: v for k, v in values.items() if k[0] != SERIES.kv_usage}) for at, uid, values in history]
    seen = directly(without)
    assert seen.missing == (SERIES.kv_usage,)
    assert seen.kv_usage is None


async def test_while_prometheus_is_away_the_engines_are_asked(
    history: list[Scrape], prometheus: tuple[FakePrometheus, str], executor: ThreadPoolExecutor
) -> None:
    fake, url = prometheus
    fake.status = 500
    direct = DirectSource()
    for _, uid, values in history[-2:]:
        direct.remember(uid, values)
    source = PreferredSource(PrometheusSource(url, executor), direct)
    assert set(await source.collect(TARGETS)) == {"a", "b"}
    assert source.away
    fake.status = 200
    await source.collect(TARGETS)
    assert not source.away
    await source.close()


async def test_what_prometheus_knows_wins_and_the_rest_is_scraped(
    history: list[Scrape],
    prometheus: tuple[FakePrometheus, str],
    executor: ThreadPoolExecutor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fake, url = prometheus
    direct = DirectSource()
    for _, uid, values in history[-2:]:
        direct.remember(uid, values)
    source = PreferredSource(PrometheusSource(url, executor), direct)
    everybody = fake.scrapes
    with caplog.at_level(logging.INFO, logger="weft.observe.sources.source"):
        assert _origins(await source.collect(TARGETS)) == {"a": Origin.Prometheus, "b": Origin.Prometheus}
        fake.scrapes = [scrape for scrape in everybody if scrape[1] == "a"]
        assert _origins(await source.collect(TARGETS)) == {"a": Origin.Prometheus, "b": Origin.Engine}
        await source.collect(TARGETS)
    assert [record.getMessage() for record in caplog.records] == [
        "Prometheus knows 1 of 2 engines and fronts; the others are scraped directly"
    ]
    await source.close()


class Fixed:
    """A source that tells one and the same of engine `a`, and of no other."""

    def __init__(self, told: History) -> None:
        self.told = told

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        return {each.uid: self.told for each in targets if each.uid == "a"}

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize("scraped_at", [98.0, 60.0])
async def test_whoever_heard_an_engine_last_says_for_how_long_it_is_silent(scraped_at: float) -> None:
    """Prometheus asks once in a while; how old its samples are stays what it is."""
    key: SeriesKey = (SERIES.finished, ())
    asked = History(100.0, {key: ((20.0, 1.0), (80.0, 2.0))}, Origin.Prometheus)
    scraped = History(100.0, {key: ((scraped_at - 5.0, 1.0), (scraped_at, 2.0))})
    found = await PreferredSource(Fixed(asked), Fixed(scraped)).collect(TARGETS)
    assert {"a"} == found.keys()
    assert (20.0, Origin.Prometheus, asked.series) == (found["a"].age_seconds, found["a"].origin, found["a"].series)
    assert found["a"].silent_seconds == min(20.0, 100.0 - scraped_at)


def test_an_engine_of_one_sample_was_heard_though_it_tells_no_rate(history: list[Scrape]) -> None:
    """A new process has seen no more of anybody when it decides for the first time."""
    seen = directly(history[-2:])
    assert (0, ()) == (seen.answered, seen.pods)
    assert {each.pod for each in TARGETS} == {pod for pod, _ in seen.heard}


def _shown(source: DirectSource, scrapes: list[Scrape], clock: Clock) -> None:
    """The direct source scraped the engines at these times."""
    for at, uid, values in scrapes:
        clock.now = at
        source.remember(uid, values)


@pytest.mark.parametrize(
    "known", [slice(-2, None), slice(None, 16)], ids=["it was restarted empty", "it scrapes nobody any more"]
)
async def test_what_prometheus_knows_less_of_is_scraped(
    history: list[Scrape], prometheus: tuple[FakePrometheus, str], executor: ThreadPoolExecutor, known: slice
) -> None:
    """A minute was scraped; of one sample no rate can be told, and what ended half a minute ago is not now."""
    fake, url = prometheus
    fake.scrapes = history[known]
    clock = Clock()
    direct = DirectSource(clock=clock)
    _shown(direct, history, clock)
    source = PreferredSource(PrometheusSource(url, executor), direct)
    unreachable = [target(each.uid, port=1) for each in TARGETS]
    assert _origins(await source.collect(unreachable)) == {"a": Origin.Engine, "b": Origin.Engine}
    await source.close()


async def test_a_prometheus_whose_clock_was_set_back_is_away_until_it_is_where_it_was(
    prometheus: tuple[FakePrometheus, str], executor: ThreadPoolExecutor
) -> None:
    """It shows the past. Two servers behind one address may be a window apart."""
    fake, url = prometheus
    source, now = PrometheusSource(url, executor), fake.scrapes

    def moved(seconds: float) -> list[Scrape]:
        return [(at + seconds, uid, values) for at, uid, values in now]

    await source.collect(TARGETS)
    fake.scrapes = moved(-3600.0)
    for _ in range(2):
        with pytest.raises(PrometheusAway, match="its clock was set back"):
            await source.collect(TARGETS)
    for seconds in (-100.0, 10.0):
        fake.scrapes = moved(seconds)
        assert {"a", "b"} == (await source.collect(TARGETS)).keys()


def _origins(histories: dict[str, History]) -> dict[str, Origin]:
    return {uid: history.origin for uid, history in histories.items()}


async def test_a_prometheus_that_is_not_there_is_away(executor: ThreadPoolExecutor) -> None:
    with pytest.raises(PrometheusAway):
        await PrometheusSource("http://127.0.0.1:1", executor).collect(TARGETS)


class TestQueries:
    def test_name_the_pods_the_families_and_the_window(self) -> None:
        text = selector("team", ["pod-a", "pod.b"], ["vllm:x_total"], 120)
        assert (
            text == '{__name__=~"(vllm[:_]x_total)(|_bucket|_sum|_count)",namespace="team",pod=~"pod-a|pod[.]b"}[120s]'
        )

    @pytest.mark.parametrize(
        ("namespace", "pod", "name"),
        [('t"} or vector(1)', "p", "x"), ("t", 'p"}', "x"), ("t", "p", "x{}"), ("t", ".*", "x")],
        ids=["namespace", "pod", "metric", "pattern"],
    )
    def test_take_nothing_but_names(self, namespace: str, pod: str, name: str) -> None:
        """F23: no injection through what users may name."""
        with pytest.raises(Bug):
            selector(namespace, [pod], [name], 60)

    def test_stay_short_with_many_pods(self) -> None:
        many = [target(f"{number:04}") for number in range(120)]
        asked = queries(many, 60)
        assert len(asked) == 3
        assert all(len(query) < 4000 for query in asked)


class TestScraping:
    @pytest.fixture
    async def engine(self) -> AsyncIterator[tuple[int, dict[str, web.Response]]]:
        """A port that answers as the test says."""
        script: dict[str, web.Response] = {}

        async def answer(_: web.Request) -> web.Response:
            return script.pop("answer")

        application = web.Application()
        application.router.add_get("/metrics", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1], script
        await runner.cleanup()

    async def collected(self, port: int) -> int:
        source = DirectSource()
        found = await source.collect([target("a", port=port)])
        await source.close()
        return len(found)

    async def test_an_engine_that_answers_is_remembered(self, engine: tuple[int, dict[str, web.Response]]) -> None:
        port, script = engine
        script["answer"] = web.Response(body=generate_latest(Engine().registry))
        assert await self.collected(port) == 1

    @pytest.mark.parametrize(
        "answer",
        [
            web.Response(status=503, text="vllm:num_requests_running 1"),
            web.Response(text="<html>no metrics</html>"),
            web.Response(text="vllm:num_requests_running{ 1"),
            web.Response(body=b"#" * (5 * 1024 * 1024)),
            web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        ],
        ids=["status", "html", "broken", "endless", "redirect"],
    )
    async def test_anything_else_is_no_answer(
        self, engine: tuple[int, dict[str, web.Response]], answer: web.Response
    ) -> None:
        port, script = engine
        script["answer"] = answer
        assert await self.collected(port) == 0

    async def test_a_pod_that_is_away_does_not_hold_up_the_others(self) -> None:
        async with asyncio.timeout(50):
            assert await self.collected(1) == 0
