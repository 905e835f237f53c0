"""Simulated engines behind the addresses of simulated pods, under traffic whose rate never changes."""

from __future__ import annotations

import asyncio
import threading
import time
from random import Random
from typing import TYPE_CHECKING, Any, Self

from weft.api.parsing import parse_pool
from weft.catalog import load
from weft.twin.engine.modelled import engine_speed
from weft.twin.live.fleet import LivePod, LiveStream, SimulatedFleet
from weft.twin.live.server import EngineServers
from weft.twin.traffic.open_loop import LogNormalLengths, Profile

if TYPE_CHECKING:
    from tests.installed import Place

Json = dict[str, Any]

STEP_SECONDS = 0.1
SEED = 11


class ConstantLoad:
    """A context: while it is open, the pods that were ready at its start serve, and are asked that often."""

    def __init__(self, place: Place, pools: tuple[str, ...], requests_per_second: float) -> None:
        """Read which pods there are; nothing listens yet."""
        profile = Profile(((0.0, requests_per_second),))
        streams = [LiveStream(name, name, profile, LogNormalLengths(800), LogNormalLengths(100)) for name in pools]
        self._fleet = SimulatedFleet(streams, Random(SEED))
        self._pods = [pod for name in pools for pod in _engines_of(place, name)]
        self._stop = threading.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self) -> Self:
        """Let traffic begin."""
        self._thread.start()
        assert self._listening.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    @property
    def answered(self) -> int:
        """Requests answered so far."""
        return sum(record.answered for record in self._fleet.records.values())

    async def _run(self) -> None:
        servers = EngineServers()
        try:
            for live in self._fleet.sync(self._pods)[0]:
                await servers.start(live)
            self._listening.set()
            await self._advance()
        finally:
            await servers.stop_all()

    async def _advance(self) -> None:
        start, clock = time.monotonic(), 0.0
        while not self._stop.is_set():
            while clock + STEP_SECONDS <= time.monotonic() - start:
                clock += STEP_SECONDS
                self._fleet.advance(clock, STEP_SECONDS)
            await asyncio.sleep(STEP_SECONDS / 2)


def _engines_of(place: Place, name: str) -> list[LivePod]:
    record = parse_pool(place.pool(name))
    assert record.spec is not None
    assert record.status.plan is not None
    speed = engine_speed(record.status.plan, record.spec, load())
    pods = place.objects("api/v1/pods", f"weft.dev/pool={name}")
    return [LivePod(pod["metadata"]["uid"], pod["status"]["podIP"], name, speed, routed=True) for pod in pods]
