"""HTTP endpoints of simulated engines: each pod answers `/metrics` and `/health` on an address of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from weft.twin.live.fleet import LiveEngine

ENGINE_PORT = 8000


class EngineServers:
    """One small HTTP server per live engine, bound to its pod's (loopback) address."""

    def __init__(self, port: int = ENGINE_PORT) -> None:
        """Nothing listens until `start`."""
        self._port = port
        self._runners: dict[str, web.AppRunner] = {}

    async def start(self, live: LiveEngine) -> None:
        """Serve one engine; raises `OSError` when its address cannot be bound."""
        application = web.Application()
        application.router.add_get("/metrics", _metrics_of(live))
        application.router.add_get("/health", _healthy)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, live.pod.address, self._port, reuse_address=True).start()
        self._runners[live.pod.uid] = runner

    async def stop(self, uid: str) -> None:
        """Stop serving the engine of a pod; does nothing for an unknown UID."""
        runner = self._runners.pop(uid, None)
        if runner is not None:
            await runner.cleanup()

    async def stop_all(self) -> None:
        """Stop serving all engines."""
        for uid in list(self._runners):
            await self.stop(uid)


def _metrics_of(live: LiveEngine) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=live.metrics.text(), content_type="text/plain")

    return metrics


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="")
