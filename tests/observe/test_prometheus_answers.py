"""Prometheus servers that store series in their own way, scrape a pod twice, or answer what is no matrix."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder

from tests.listening import listening
from weft.observe.samples.scrape_target import Target
from weft.observe.sources.prometheus import PrometheusAway, PrometheusSource, rate_of_all, selector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.observe.samples.history import History

    Series = tuple[dict[str, str], list[tuple[float, float]]]

RUNNING, TTFT = "vllm:num_requests_running", "vllm:time_to_first_token_seconds"
PROCESS = "process_cpu_seconds_total"
TARGET = Target("a", "team", "pod-a", "10.0.0.1", 8000, "/metrics", (RUNNING, TTFT, PROCESS))
NOW = 1000.0


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


async def answered(executor: ThreadPoolExecutor, result: object) -> History | None:
    """What is made of such a result of a query for samples."""

    async def answer(request: web.Request) -> web.Response:
        told = [NOW, str(NOW)] if request.query["query"] == "time()" else result
        return web.json_response({"status": "success", "data": {"result": told}})

    async with listening("/api/v1/query", answer) as url:
        return (await PrometheusSource(url, executor).collect([TARGET])).get("a")


def series(name: str, samples: list[tuple[float, float]], **labels: str) -> dict[str, object]:
    """One series of a matrix, of the pod that is asked for."""
    tags = {"__name__": name, "namespace": "team", "pod": "pod-a", "job": "pods", "instance": "10.0.0.1:8000", **labels}
    return {"metric": tags, "values": [[at, str(value)] for at, value in samples]}


class TestUnderscores:
    """Prometheus 2 asks for OpenMetrics and not for UTF-8 names, and is told `vllm_num_requests_running` then."""

    def test_are_what_pythons_client_tells_such_a_server_and_nobody_else(self) -> None:
        registry = CollectorRegistry()
        Gauge(RUNNING, "-", registry=registry).set(3)

        def told(accept: str) -> set[str]:
            encode, _ = choose_encoder(accept)
            return {line.split()[0] for line in encode(registry).decode().splitlines() if line[0] != "#"}

        assert told("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2") == {
            "vllm_num_requests_running"
        }
        assert told("*/*") == {RUNNING}

    async def test_are_read_as_the_colons_of_the_engine(self, executor: ThreadPoolExecutor) -> None:
        found = await answered(
            executor,
            [
                series("vllm_num_requests_running", [(990.0, 3.0)]),
                series("vllm_time_to_first_token_seconds_count", [(980.0, 1.0), (990.0, 3.0)]),
                series("vllm_time_to_first_token_seconds_sum", [(980.0, 1.0), (990.0, 2.0)]),
            ],
        )
        assert found is not None
        assert (found.gauge(RUNNING), found.mean(TTFT)) == ((3.0,), 0.5)

    @pytest.mark.parametrize("order", [1, -1], ids=["colons first", "underscores first"])
    async def test_end_where_a_server_was_upgraded_and_the_colons_go_on(
        self, executor: ThreadPoolExecutor, order: int
    ) -> None:
        """Prometheus 2 stored the one, Prometheus 3 in its place the other: one engine, which went on counting."""
        count, other = f"{TTFT}_count", "vllm_time_to_first_token_seconds_count"
        told = [
            series(count, [(970.0, 30.0), (985.0, 45.0)]),
            series(other, [(940.0, 0.0), (955.0, 15.0)]),
            series(RUNNING, [(985.0, 7.0)]),
            series("vllm_num_requests_running", [(955.0, 3.0)]),
        ]
        found = await answered(executor, told[::order])
        assert found is not None
        assert (found.increase(count), found.gauge(RUNNING)) == (45.0, (7.0,))

    def test_are_asked_for_with_the_colons(self) -> None:
        assert '"(vllm[:_]num_requests_running)(' in selector("team", ["p"], [RUNNING], 60)
        scraper = "pod,job,prometheus,prometheus_replica,replica"
        of_one = f"sum(max by (pod) (sum by ({scraper}) (%s)))"
        of_both = of_one % "rate(vllm:x_total{%s}[60s]) or rate(vllm_x_total{%s}[60s])"
        chosen = 'namespace="team",pod=~"chat-[0-9a-f]{5}-[0-9]+-[0-9]+"'
        assert rate_of_all("team", "chat", ("vllm:x_total",), 60.0) == of_both % (chosen, chosen)
        assert rate_of_all("team", "chat", ("x_total",), 60.0) == of_one % f"rate(x_total{{{chosen}}}[60s])"


class TestScrapedTwice:
    COUNT = ((970.0, 100.0), (985.0, 130.0), (1000.0, 160.0))

    async def growth(self, executor: ThreadPoolExecutor, *found: dict[str, object]) -> float | None:
        history = await answered(executor, list(found))
        assert history is not None
        return history.increase(f"{TTFT}_count")

    @pytest.mark.parametrize(
        "labels",
        [{"job": "by-annotation", "app": "chat"}, {"prometheus_replica": "b"}],
        ids=["two jobs", "two servers"],
    )
    async def test_a_pod_is_counted_once(self, executor: ThreadPoolExecutor, labels: dict[str, str]) -> None:
        """Jobs add labels of pods to what they scrape, as two servers add their own."""
        later = [(at - 7.0, value - 14.0) for at, value in self.COUNT]
        other = series(f"{TTFT}_count", later, **labels)
        assert await self.growth(executor, series(f"{TTFT}_count", list(self.COUNT)), other) == 60.0

    async def test_the_one_that_keeps_the_most_series_is_believed(self, executor: ThreadPoolExecutor) -> None:
        whole = [series(f"{TTFT}_count", list(self.COUNT), job="z"), series(RUNNING, [(1000.0, 3.0)], job="z")]
        assert await self.growth(executor, *whole, series(f"{TTFT}_count", [(990.0, 1.0), (1000.0, 2.0)])) == 60.0

    async def test_what_had_the_name_before_is_no_part_of_it(self, executor: ThreadPoolExecutor) -> None:
        """A pod of a StatefulSet that was started anew: its predecessor told more, until a minute ago."""
        gone = [
            series(f"{TTFT}_count", [(900.0, 5000.0), (915.0, 9000.0)], instance="10.0.0.9:8000"),
            series(RUNNING, [(915.0, 40.0)], instance="10.0.0.9:8000"),
        ]
        assert await self.growth(executor, series(f"{TTFT}_count", list(self.COUNT)), *gone) == 60.0


class TestAProcessBesideTheEngine:
    """A proxy in the pod, which tells of its own processor time."""

    BESIDE = series(PROCESS, [(970.0, 1.0), (985.0, 2.0), (1000.0, 3.0)], instance="10.0.0.1:4191")

    async def test_is_not_the_engine(self, executor: ThreadPoolExecutor) -> None:
        assert await answered(executor, [self.BESIDE]) is None

    async def test_does_not_make_an_engine_that_is_scraped_no_more_fresh(self, executor: ThreadPoolExecutor) -> None:
        history = await answered(executor, [self.BESIDE, series(RUNNING, [(900.0, 3.0)])])
        assert history is not None
        assert (history.age_seconds, history.has(PROCESS)) == (100.0, False)


@pytest.mark.parametrize(
    "result",
    [None, "text", 5, [None], ["text"], [{"metric": "text"}], [{"metric": {}, "values": 5}]],
    ids=["null", "text", "number", "nulls", "texts", "no labels", "no samples"],
)
async def test_what_is_no_matrix_is_no_answer(executor: ThreadPoolExecutor, result: object) -> None:
    with pytest.raises(PrometheusAway):
        await answered(executor, result)


@pytest.mark.parametrize("body", ["null", "[]", '"x"', '{"data": null}', '{"data": []}', "<html>", ""])
async def test_neither_is_anything_else_that_comes_with_200(executor: ThreadPoolExecutor, body: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    async with listening("/api/v1/query", answer) as url:
        with pytest.raises(PrometheusAway):
            await PrometheusSource(url, executor).collect([TARGET])
