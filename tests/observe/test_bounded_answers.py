"""A Prometheus whose answers are huge, never end, or tell of times that cannot be: it counts as away, and passes (F19).

Away means that the engines are asked themselves; a few such answers in memory would be the end of the operator.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from tests.listening import listening
from weft.observe.samples.scrape_target import Target
from weft.observe.sources import prometheus
from weft.observe.sources.bounded import bounded_session
from weft.observe.sources.prometheus import LARGEST_ANSWER_BYTES, LONGEST_MESSAGE, PrometheusAway, PrometheusSource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from weft.observe.samples.history import History

    Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

RUNNING = "vllm:num_requests_running"
TARGET = Target("a", "team", "pod-a", "10.0.0.1", 8000, "/metrics", (RUNNING,))
NOW = 1000.0
DRIPPING_SECONDS = 30
QUERY_SECONDS = 2.0  # of which a busy machine needs some for the head of an answer
TAGS = {"__name__": RUNNING, "namespace": "team", "pod": "pod-a"}


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def told(result: object) -> web.Response:
    """What Prometheus says; the words NaN and Infinity are no JSON, and its readers take them all the same."""
    return web.Response(text=json.dumps({"status": "success", "data": {"result": result}}))


async def collected(executor: ThreadPoolExecutor, answer: Answer) -> dict[str, History]:
    async with listening("/api/v1/query", answer) as url:
        return await PrometheusSource(url, executor).collect([TARGET])


async def test_an_answer_too_large_to_be_read_is_not_read_to_its_end(executor: ThreadPoolExecutor) -> None:
    """Of 100 MB the operator would have needed 2 GB, and been killed with every look at the same answer."""
    sent = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        if request.query["query"] == "time()":
            return told([NOW, str(NOW)])
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while sent < 20 * LARGEST_ANSWER_BYTES:
                await response.write(b" " * 2**20)
                sent += 2**20
        return response

    with pytest.raises(PrometheusAway, match="larger than 16 MiB"):
        await collected(executor, answer)
    assert sent < 2 * LARGEST_ANSWER_BYTES


async def test_neither_is_one_that_is_small_until_it_is_unpacked(executor: ThreadPoolExecutor) -> None:
    packed = gzip.compress(b" " * (LARGEST_ANSWER_BYTES + 1), 1)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip"})

    with pytest.raises(PrometheusAway, match="larger than 16 MiB"):
        await collected(executor, answer)


async def test_what_is_packed_is_read(executor: ThreadPoolExecutor) -> None:
    async def answer(request: web.Request) -> web.Response:
        plain = told(
            [NOW, str(NOW)] if request.query["query"] == "time()" else [{"metric": TAGS, "values": [[990, "3"]]}]
        )
        plain.enable_compression(web.ContentCoding.gzip)
        return plain

    assert (await collected(executor, answer))["a"].gauge(RUNNING) == (3.0,)


@pytest.mark.parametrize("length", [None, 10_000], ids=["in chunks", "of a known length"])
async def test_an_answer_that_drips_ends_after_the_time_of_a_query(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, length: int | None
) -> None:
    """A timeout for each part of it would never end, and nobody would ask the engines in the meantime."""
    monkeypatch.setattr(prometheus, "QUERY_TIMEOUT_SECONDS", QUERY_SECONDS)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = length
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            for _ in range(10 * DRIPPING_SECONDS):
                await response.write(b" ")
                await asyncio.sleep(0.1)
        return response

    began = time.monotonic()
    with pytest.raises(PrometheusAway, match="comes too slowly"):
        await collected(executor, answer)
    assert time.monotonic() - began < DRIPPING_SECONDS


async def test_many_slow_answers_end_after_the_time_of_a_collection(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each fifty pods: of a thousand, all but the first would keep what was scraped from being known, too."""
    monkeypatch.setattr(prometheus, "COLLECTION_SECONDS", 0.3)
    asked = list[str]()

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.query["query"])
        await asyncio.sleep(0.2)
        return told([NOW, str(NOW)] if asked[-1] == "time()" else [])

    many = [replace(TARGET, uid=str(number), pod=f"pod-{number}") for number in range(1000)]
    async with listening("/api/v1/query", answer) as url:
        with pytest.raises(PrometheusAway, match="too slowly for so many"):
            await PrometheusSource(url, executor).collect(many)
    assert len(asked) <= 3


@pytest.mark.parametrize("now", ["NaN", "+Inf", "-Inf"])
async def test_a_time_that_is_none_is_no_answer(executor: ThreadPoolExecutor, now: str) -> None:
    """Beside such a time no sample is ever old."""

    async def answer(request: web.Request) -> web.Response:
        return told([NOW, now] if request.query["query"] == "time()" else [{"metric": TAGS, "values": [[990, "3"]]}])

    with pytest.raises(PrometheusAway, match="its time is"):
        await collected(executor, answer)


async def test_samples_of_impossible_times_do_not_make_all_later_ones_old(executor: ThreadPoolExecutor) -> None:
    """One sample of infinity, or of the year 5000, and the server would have been away until the operator restarts."""
    times: list[float] = [math.inf, math.nan, 1e11, NOW - 5]

    async def answer(request: web.Request) -> web.Response:
        if request.query["query"] == "time()":
            return told([NOW, str(NOW)])
        return told([{"metric": TAGS, "values": [[times[0], "3"]]}])

    async with listening("/api/v1/query", answer) as url:
        source = PrometheusSource(url, executor)
        for _ in range(2):
            assert (await source.collect([TARGET]))["a"].gauge(RUNNING) == ()
            del times[0]
        with pytest.raises(PrometheusAway, match="yet to come"):
            await source.collect([TARGET])
        del times[0]
        assert (await source.collect([TARGET]))["a"].gauge(RUNNING) == (3.0,)


async def test_lists_in_lists_are_no_answer(executor: ThreadPoolExecutor) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="[" * 100_000)

    with pytest.raises(PrometheusAway, match="RecursionError"):
        await collected(executor, answer)


async def test_a_page_of_an_error_is_not_logged_as_a_whole(executor: ThreadPoolExecutor) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=503, text="<html>" * 100_000)

    with pytest.raises(PrometheusAway, match="503") as raised:
        await collected(executor, answer)
    assert len(str(raised.value)) <= LONGEST_MESSAGE


async def test_an_answer_within_its_bounds_is_whole(executor: ThreadPoolExecutor) -> None:
    body = bytes(range(256)) * 4096

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body)

    async with listening("/", answer) as url:
        session = bounded_session(len(body), 5.0)
        found = await asyncio.get_running_loop().run_in_executor(executor, session.get, url)
    assert found.content == body
