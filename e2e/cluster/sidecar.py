#!/usr/bin/env python3
"""Plays llm-d's sidecar of a decode pod, where the real one cannot be had: the same options, header and protocol.

A request whose header names a prefill pod is computed there first, up to one token, and what that pod answers about its
KV goes with the request to the engine beside. Everything else passes through. It runs in an engine's environment.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from aiohttp import ClientSession, ClientTimeout, web

PREFILL_HEADER = "x-prefiller-host-port"
ASKED_OF_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
ENDLESS = ClientTimeout(total=None)


async def serve(engine: int, request: web.Request) -> web.StreamResponse:
    """One request, streamed back as the engine answers."""
    body, prefill = await request.read(), request.headers.get(PREFILL_HEADER, "")
    async with ClientSession(timeout=ENDLESS) as session:
        if prefill:
            told = await _computed_by(session, f"http://{prefill}{request.path}", json.loads(body))
            if isinstance(told, web.Response):
                return told
            body = json.dumps({**json.loads(body), "kv_transfer_params": told}).encode()
        there = f"http://localhost:{engine}{request.path_qs}"
        headers = {"Content-Type": request.content_type}
        async with session.request(request.method, there, data=body, headers=headers) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


async def _computed_by(session: ClientSession, url: str, asked: dict[str, Any]) -> object:
    """What the prefill pod says of the KV that it holds, or its refusal."""
    first = {key: value for key, value in asked.items() if key != "stream_options"}
    first |= {"stream": False, "max_tokens": 1, "kv_transfer_params": ASKED_OF_PREFILL}
    async with session.post(url, json=first) as answer:
        if not answer.ok:
            return web.Response(status=answer.status, body=await answer.read())
        return (await answer.json()).get("kv_transfer_params")


async def healthy(_: web.Request) -> web.Response:
    """Of itself, as the real one."""
    return web.Response()


def main() -> None:
    """Serve until told to end; streams under way are finished then."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--vllm-port", type=int, required=True)
    parser.add_argument("--kv-connector", choices=["nixlv2"], required=True)
    parser.add_argument("--secure-proxy", choices=["false"], required=True)
    options = parser.parse_args()
    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_get("/health", healthy)
    app.router.add_route("*", "/{path:.*}", partial(serve, options.vllm_port))
    web.run_app(app, port=options.port, access_log=None)


if __name__ == "__main__":
    main()
