"""Lists of our resources go on whatever answers them."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from tests.protocol.scripted_server import POOLS, ScriptedServer
from weft.control.options import RunOptions
from weft.control.watches import listing
from weft.control.watches.absent_kinds import AbsentKinds
from weft.control.watches.listing import keep_listing
from weft.observe.custom_resources.cache import ResourceCache

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWERS: dict[str, Callable[[], web.Response]] = {
    "outage": lambda: web.Response(status=503),
    "page of a proxy": lambda: web.Response(text="<html>come back later</html>", content_type="text/html"),
    "no list": lambda: web.json_response({"kind": "Status"}),
    "no number": lambda: web.json_response({"metadata": {"resourceVersion": "x"}, "items": []}),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_what_is_no_list_ends_one_attempt_and_not_the_operator(
    monkeypatch: pytest.MonkeyPatch, answer: Callable[[], web.Response]
) -> None:
    """F13: the process would go on dying for as long as a load balancer answers for an API server that is away."""
    monkeypatch.setattr(listing, "RETRY_SECONDS", 0.01)
    cache, asked = ResourceCache(lambda _: None), list[str]()
    cache.expect(())
    with ScriptedServer() as server, ThreadPoolExecutor(1) as threads:
        server.put(POOLS, "chat")

        def first(request: web.Request) -> web.Response | None:
            asked.append(request.path)
            return answer() if len(asked) <= 2 else None

        server.answer = first
        context: Any = SimpleNamespace(options=RunOptions(), resources=cache, executor=threads)
        client = ApiClient(Configuration(host=server.url))
        task = asyncio.create_task(keep_listing(context, client, AbsentKinds()))
        while not cache.synced:
            await asyncio.sleep(0.01)
            assert not task.done()
        task.cancel()
    assert ["chat"] == [body["metadata"]["name"] for body in cache.bodies("InferencePool")]


async def test_definitions_that_are_not_there_are_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where `weft run` is started before they are applied: it tries every few seconds."""
    monkeypatch.setattr(listing, "RETRY_SECONDS", 0.01)
    caplog.set_level(logging.WARNING, "weft")
    cache, absent = ResourceCache(lambda _: None), AbsentKinds()
    cache.expect(())
    with ScriptedServer() as server, ThreadPoolExecutor(1) as threads:
        server.answer = lambda _: web.Response(status=404, text="404 page not found")
        context: Any = SimpleNamespace(options=RunOptions(), resources=cache, executor=threads)
        task = asyncio.create_task(keep_listing(context, ApiClient(Configuration(host=server.url)), absent))
        while len(server.requests) < 5:
            await asyncio.sleep(0.01)
            assert not task.done()
        assert absent
        assert len(caplog.records) == 1
        server.heal()
        while not cache.synced:
            await asyncio.sleep(0.01)
            assert not task.done()
        assert not absent
        task.cancel()
