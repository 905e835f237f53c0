"""A played engine at an address of loopback, with as much of its API as routers ask for."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bench.routers_bench.engine import PlayedEngine, Tokens
    from bench.routers_bench.traffic import Prompt

MODEL = "played"
CHAT = "/v1/chat/completions"
# SGLang's router asks whether an engine speaks gRPC, which is no error: nothing is told of it.
_SILENT = logging.Logger("played engine", logging.CRITICAL)  # noqa: LOG001 - one that nobody else gets
_SHUTDOWN_SECONDS = 0.5  # nobody waits for what is still inside
_LARGEST_BYTES = 1 << 26
_CHOICE = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
_ABOUT = {"status": "ok", "model_path": MODEL, "served_model_name": MODEL, "is_generation": True}


def body_of(prompt: Prompt) -> dict[str, Any]:
    """A request whose words are its tokens, so that routers that go by text see the same prefixes."""
    roles = (("system", prompt.system), ("user", prompt.user))
    messages = [{"role": role, "content": " ".join(f"w{each}" for each in said)} for role, said in roles if said]
    return {"model": MODEL, "messages": messages}


def tokens_of(body: dict[str, Any]) -> Tokens:
    """The tokens of such a request."""
    return tuple(int(word[1:]) for message in body["messages"] for word in message["content"].split())


@asynccontextmanager
async def served(engine: PlayedEngine) -> AsyncIterator[str]:
    """Its address, for as long as the block runs."""
    runner = web.AppRunner(_api(engine), access_log=None, logger=_SILENT, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _api(engine: PlayedEngine) -> web.Application:
    async def chat(request: web.Request) -> web.Response:
        await engine.serve(tokens_of(await request.json()))
        return web.json_response({"id": "played", "object": "chat.completion", "choices": [_CHOICE]})

    app = web.Application(client_max_size=_LARGEST_BYTES)
    app.router.add_post(f"{CHAT}/render", _render)
    app.router.add_post(CHAT, chat)
    app.router.add_get("/v1/models", _models)
    app.router.add_route("*", "/{any:.*}", _about)
    return app


async def _render(request: web.Request) -> web.Response:
    return web.json_response({"token_ids": tokens_of(await request.json())})


async def _models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})


async def _about(_: web.Request) -> web.Response:
    return web.json_response(_ABOUT)
