"""A pool whose engines a real Prometheus scrapes, decided over and over by what the operator's own source reads of it.

Time is compressed: Prometheus runs in real time, with a scrape every half second and a window of five, while the clock
of `decide` goes on by thirty seconds with each look, and the one by which the operator scrapes engines itself by a
quarter of a second. A look takes some 0.2 s: ten minutes without a Prometheus are 20 looks.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board
from tests.prometheus.engines import PORT, PROMETHEUS, Load, ScriptedEngine
from tests.prometheus.server import OddClock, RealPrometheus
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.workload import Slo
from weft.observe.collector import MetricsCollector
from weft.observe.samples.history import Origin
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.prometheus import PrometheusSource
from weft.observe.sources.source import PreferredSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from weft.domain.snapshot import PoolObservation
    from weft.domain.spec import PoolSpec

WINDOW_SECONDS = 5
OPERATOR_WINDOW_SECONDS = WINDOW_SECONDS / 2
PAUSE_SECONDS, SCRAPED_SECONDS, DECIDED_SECONDS = 0.1, 0.25, 30.0  # of each look, on the three clocks
PATIENCE_LOOKS = 300
REPLICAS, USUAL = 4, 3.5  # that serve, and that the usual load fills
# No more than serve: what is asked is whether a fault takes some away.
SCALING = ScalingSpec(max_replicas=REPLICAS, scale_down_delay_seconds=60.0, headroom=0.0)
FULL = 0.85  # of the KV memory: nothing is learnt then, so that one replica serves as much throughout a test


class LookClock:
    """The operator's, when it scrapes engines: it goes on from look to look, however long one takes."""

    def __init__(self) -> None:
        """No look yet."""
        self.now = 0.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


class WatchedPool:
    """Looks and decisions. `counts` are the desired replicas after each look."""

    def __init__(self, prometheus: RealPrometheus, clock: OddClock, looks: LookClock, source: PreferredSource) -> None:
        """Four replicas serve, of which nobody knows anything yet."""
        self.prometheus, self.clock, self._looks = prometheus, clock, looks
        self.collector = MetricsCollector(source)
        self.world = World.of([board(f"b-{index}") for index in range(4)], pool("chat", _spec()))
        self.world.turn(6)
        plan = self.world.status("chat").plan
        assert plan is not None
        self._capacity = plan.prediction.capacity
        self.engines: dict[str, ScriptedEngine] = {}
        self.counts: list[int] = []
        self._load = Load(0.0)
        self._heeds = ""
        self.offer(USUAL)

    def offer(self, replicas_worth: float) -> None:
        """Requests that so many replicas could serve come in, spread over all."""
        self._load = Load(replicas_worth * self._capacity, kv_usage=FULL)
        self._spread()

    def allow(self, replicas: int) -> None:
        """As many replicas may serve from now on."""
        spec = self.world.pools["chat"].spec
        assert spec is not None
        self.world.edit("chat", replace(spec, scaling=replace(SCALING, max_replicas=replicas)))

    def close_ports(self) -> None:
        """Engines answer Prometheus alone: a policy of the network keeps the operator away."""
        self._heeds = PROMETHEUS
        self._spread()

    def _spread(self) -> None:
        for pod in self.world.pods.values():
            if pod.ready and pod.name not in self.engines:
                self.engines[pod.name] = ScriptedEngine(self._load, self._looks)
                self.world.pods[pod.name] = replace(pod, ip=self.engines[pod.name].host)
                self.scrape_all()
        for gone in self.engines.keys() - self.world.pods.keys():
            self.engines.pop(gone).stop()
        for engine in self.engines.values():
            engine.heeds = self._heeds
            engine.give(replace(self._load, rate=self._load.rate / len(self.engines)))

    def scrape_all(self) -> None:
        """Prometheus knows every engine."""
        self.scrape(*self.engines)

    def scrape(self, *pods: str) -> None:
        """Prometheus scrapes these alone."""
        self.prometheus.scrape({pod: f"{self.engines[pod].host}:{PORT}" for pod in pods})

    @property
    def seen(self) -> PoolObservation:
        """The last look."""
        return self.world.observations["uid-chat"]

    @property
    def told_by_prometheus(self) -> bool:
        """Whether it is what every engine is known from."""
        return self.collector.engines_read == {Origin.Prometheus: len(self.engines), Origin.Engine: 0}

    @property
    def reason(self) -> tuple[str, str]:
        """Reason and message of the count."""
        scale = self.world.status("chat").scale
        assert scale is not None
        return scale.reason.value, scale.message

    async def look(self, times: int = 1) -> None:
        """Collect and decide, as often as asked for."""
        for _ in range(times):
            await asyncio.sleep(PAUSE_SECONDS)
            self._spread()
            self._looks.now += SCRAPED_SECONDS
            await self.collector.collect(tuple(self.world.pools.values()), tuple(self.world.pods.values()))
            self.world.observations = self.collector.observations()
            self.world.turn(seconds=DECIDED_SECONDS)
            self.counts.append(self.world.status("chat").desired_replicas)

    async def look_until(self, true: Callable[[], bool]) -> None:
        """Look until something is so."""
        for _ in range(PATIENCE_LOOKS):
            await self.look()
            if true():
                return
        raise AssertionError(f"not within {PATIENCE_LOOKS} looks: {self.reason}, {self.seen}")

    async def look_for_a_window(self) -> None:
        """Look until nothing that was scraped before now is in either window any more."""
        end, last = time.monotonic() + WINDOW_SECONDS, self._looks.now + OPERATOR_WINDOW_SECONDS
        await self.look_until(lambda: time.monotonic() > end and self._looks.now > last)

    async def settle(self) -> None:
        """Look until Prometheus has told of every engine for a window."""
        await self.look_until(lambda: self.seen.complete and self.told_by_prometheus)
        await self.look(6)
        assert set(self.counts) == {REPLICAS}

    def stop(self) -> None:
        """End the engines."""
        for engine in self.engines.values():
            engine.stop()


def _spec() -> PoolSpec:
    spec = pool_spec(1, SCALING)
    workload = replace(spec.workload, requests_per_second=88.0)
    return replace(spec, workload=workload, slo=Slo(ttft=((95, 1.0),), tpot=((95, 0.05),)))


@asynccontextmanager
async def watched(directory: Path) -> AsyncIterator[WatchedPool]:
    """A pool beside a running Prometheus."""
    prometheus = RealPrometheus(directory)
    clock, looks = OddClock(prometheus.url), LookClock()
    with ThreadPoolExecutor(2) as executor:
        async with clock.served() as url:
            direct = DirectSource(OPERATOR_WINDOW_SECONDS, looks)
            source = PreferredSource(PrometheusSource(url, executor, WINDOW_SECONDS), direct)
            watched = WatchedPool(prometheus, clock, looks, source)
            try:
                prometheus.start()
                yield watched
            finally:
                await source.close()
                watched.stop()
                prometheus.close()
