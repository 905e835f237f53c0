"""Init containers that download weights are asked how far they are, and nobody else is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from tests.listening import listening
from weft.domain.cluster import Download, PodIdentity, PodPhase, PodRecord
from weft.observe.sources.downloads import Downloads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

POD = PodRecord(
    "team",
    "chat-3",
    "pod-uid",
    PodPhase.Pending,
    "node-a",
    (),
    identity=PodIdentity("pool-uid", 3, 0, "1"),
    ip="127.0.0.1",
    download=Download(100.0),
    engine="vllm",
)
TOLD = "# TYPE weft_weights_downloaded_bytes gauge\nweft_weights_downloaded_bytes 12\nweft_weights_total_bytes 48\n"


@pytest.fixture
async def downloads() -> AsyncIterator[Downloads]:
    found = Downloads()
    yield found
    await found.close()


async def collected(downloads: Downloads, text: str, *pods: PodRecord) -> int:
    """Ask once, while this is what is answered; how often somebody asked."""
    asked: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request)
        return web.Response(text=text)

    async with listening("/metrics", answer) as url:
        await downloads.collect({"vllm": urlsplit(url).port or 0, "sglang": 1}, pods)
    return len(asked)


async def test_bytes_are_those_that_the_init_container_told(downloads: Downloads) -> None:
    assert await collected(downloads, TOLD, POD) == 1
    (pod,) = downloads.told_of([POD])
    assert pod == replace(POD, download=Download(100.0, here=12.0, total=48.0))


async def test_one_that_does_not_answer_is_known_by_its_last_word(downloads: Downloads) -> None:
    await collected(downloads, TOLD, POD)
    await downloads.collect({"vllm": 1}, [POD])
    assert downloads.told_of([POD])[0].download == Download(100.0, here=12.0, total=48.0)


async def test_what_it_does_not_know_yet_is_no_figure(downloads: Downloads) -> None:
    assert await collected(downloads, "", POD) == 1
    assert downloads.told_of([POD]) == (POD,)


@pytest.mark.parametrize(
    "pod",
    [
        replace(POD, download=None),
        replace(POD, download=Download(100.0, done=True)),
        replace(POD, ip=None),
        replace(POD, identity=None),
        replace(POD, engine=""),
    ],
    ids=["it downloads nothing", "it is done", "it has no address", "it is not ours", "it says no engine"],
)
async def test_nobody_else_is_asked(downloads: Downloads, pod: PodRecord) -> None:
    assert await collected(downloads, TOLD, pod) == 0
    assert downloads.told_of([pod]) == (pod,)
