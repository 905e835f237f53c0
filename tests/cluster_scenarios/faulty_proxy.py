"""A proxy between an operator and the API server: counts its writes, and fails in the ways a test asks for."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import threading
from typing import TYPE_CHECKING, Self

import aiohttp
import yaml
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "content-encoding"}


class FaultyProxy:
    """Plain HTTP on loopback in front of a cluster; the operator's own token goes through. A context manager."""

    def __init__(self, kubeconfig: Path) -> None:
        """`kubeconfig` says where the API server is and how to trust it."""
        self._kubeconfig = yaml.safe_load(kubeconfig.read_text())
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._flowing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.url = ""
        self.writes: list[tuple[str, str]] = []  # (method, path) in order, of those that the API server took
        self.on_write: Callable[[int], None] = lambda _: None  # called with the number of writes so far
        self.refuse: int | None = None  # a status that answers everything

    def __enter__(self) -> Self:
        """Start listening."""
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._loop.call_soon_threadsafe(self._flowing.set)
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def kubeconfig(self, path: Path) -> Path:
        """The kubeconfig of an operator behind this proxy."""
        changed = {
            **self._kubeconfig,
            "clusters": [
                {"name": entry["name"], "cluster": {"server": self.url}} for entry in self._kubeconfig["clusters"]
            ],
        }
        path.write_text(yaml.safe_dump(changed))
        return path

    def freeze(self) -> None:
        """Let watches say nothing more, while everything else works: every cache behind it grows old."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def thaw(self) -> None:
        """Let watches go on where they stopped."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def created(self, kind: str) -> int:
        """How many objects of a kind were created by POST."""
        return sum(method == "POST" and path.endswith(f"/{kind}") for method, path in self.writes)

    def deleted(self, kind: str) -> int:
        """How many objects of a kind were deleted."""
        return sum(method == "DELETE" and f"/{kind}/" in path for method, path in self.writes)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._flowing.set()
        cluster = self._kubeconfig["clusters"][0]["cluster"]
        trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            cluster["server"], connector=aiohttp.TCPConnector(ssl=trust, limit=0), timeout=timeout
        ) as session:
            application = web.Application(client_max_size=8 * 1024 * 1024)

            async def forward(request: web.Request) -> web.StreamResponse:
                return await self._forward(request, session)

            application.router.add_route("*", "/{path:.*}", forward)
            runner = web.AppRunner(application, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            self._ready.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _forward(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        if self.refuse is not None:
            return web.json_response({"kind": "Status", "code": self.refuse, "message": "injected"}, status=self.refuse)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        body = await request.read()
        async with session.request(request.method, request.rel_url, headers=headers, data=body or None) as answer:
            if request.query.get("watch") == "true":
                return await self._stream(request, answer)
            content = await answer.read()
            if request.method != "GET" and answer.status < 300:
                self.writes.append((request.method, request.path))
                self.on_write(len(self.writes))
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
            return web.Response(status=answer.status, body=content, headers=kept)

    async def _stream(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            async for chunk in answer.content.iter_any():
                await self._flowing.wait()
                if self.refuse is not None:
                    break
                await response.write(chunk)
        return response
