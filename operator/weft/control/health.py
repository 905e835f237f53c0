"""The endpoints /healthz, /readyz and /metrics."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.control.metrics.telemetry import Telemetry

UNWATCHED_SECONDS = 900.0  # far beyond what watching anew takes, which happens within this process every 20 s
SILENT_LOOP_SECONDS = 120.0
SILENT_CACHE_SECONDS = 900.0  # far beyond an outage, which a restart would not heal


@dataclass(slots=True)
class Pulse:
    """When the loops last ended a pass, well or not, in monotonic seconds. Written by the loops, read by the probes.

    `watched`: when every watcher was last seen alive.
    """

    watched: float = field(default_factory=time.monotonic)
    decided: float = field(default_factory=time.monotonic)
    converged: float = field(default_factory=time.monotonic)
    collected: float | None = None


@dataclass(frozen=True, slots=True)
class Vitals:
    """What the probes check."""

    pulse: Pulse
    synced: Callable[[], bool]
    cache_age_seconds: Callable[[], float]
    watchers: Callable[[], int]
    expected_watchers: int


Check = tuple[str, "Callable[[Vitals, float], bool]"]


def _every_watcher_lives(vitals: Vitals, now: float) -> bool:
    return vitals.watchers() >= vitals.expected_watchers or now - vitals.pulse.watched < UNWATCHED_SECONDS


def _the_decide_loop_turns(vitals: Vitals, now: float) -> bool:
    return now - vitals.pulse.decided < SILENT_LOOP_SECONDS


def _the_converge_loop_turns(vitals: Vitals, now: float) -> bool:
    return now - vitals.pulse.converged < SILENT_LOOP_SECONDS


def _the_caches_hear_the_api_server(vitals: Vitals, _now: float) -> bool:
    return vitals.cache_age_seconds() < SILENT_CACHE_SECONDS


LIVENESS: tuple[Check, ...] = (
    ("every watcher lives", _every_watcher_lives),
    ("the decide loop turns", _the_decide_loop_turns),
    ("the converge loop turns", _the_converge_loop_turns),
    ("the caches hear the API server", _the_caches_hear_the_api_server),
)


def first_broken(vitals: Vitals, now: float) -> str | None:
    """The first liveness claim that does not hold, in words, or None."""
    return next((claim for claim, holds in LIVENESS if not holds(vitals, now)), None)


def first_missing(vitals: Vitals) -> str | None:
    """The first readiness claim that does not hold, in words, or None."""
    if vitals.watchers() < vitals.expected_watchers:
        return "every watcher lives"
    return None if vitals.synced() else "the caches are synced"


class ProbeServer:
    """Serves the three endpoints on one port. Without `vitals` this process stands by: it is well and does nothing."""

    def __init__(self, telemetry: Telemetry, trouble: Callable[[], str | None] = lambda: None) -> None:
        """The server does not listen before `start`; `trouble` is what keeps a standby from going on for the leader."""
        self.vitals: Vitals | None = None
        self._telemetry = telemetry
        self._trouble = trouble
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    async def start(self, host: str, port: int) -> int:
        """Start to listen; returns the port, which matters if 0 was asked for."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening."""
        await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        broken = first_broken(self.vitals, time.monotonic()) if self.vitals else None
        return web.Response(status=500, text=f"not so: {broken}\n") if broken else web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        missing = first_missing(self.vitals) if self.vitals else self._trouble()
        return web.Response(status=503, text=f"not yet: {missing}\n") if missing else web.Response(text="ok\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        """In a thread: a page of a thousand pools takes 0.15 s of one core, and the loop has other work."""
        if self.vitals is None:
            text = self._telemetry.text_of_standby()
        else:
            self._telemetry.snapshot_age.set(self.vitals.cache_age_seconds())
            text = await asyncio.to_thread(self._telemetry.text)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
