"""Recorded and written pages of metrics (tests/fixtures/metrics), read as the operator reads engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from weft.observe.samples.scrape_target import EngineTarget, Target
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.direct import DirectSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.snapshot import PoolObservation
    from weft.engines import EngineSeries
    from weft.observe.samples.history import History

FOLDER = Path(__file__).parents[1] / "fixtures" / "metrics"
APART_SECONDS = 30.0


def page(release: str, name: str) -> str:
    """The text of one scrape, such as (`vllm-0.32.0`, `first`)."""
    return (FOLDER / release / f"{name}.txt").read_text(encoding="utf-8")


def pages(release: str) -> tuple[str, str]:
    """Two scrapes of one engine."""
    return page(release, "first"), page(release, "second")


class Clock:
    """Time that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def said(seen: PoolObservation) -> tuple[str, ...]:
    """The sentences of its caveats."""
    return tuple(caveat.says for caveat in seen.caveats)


async def scraped(targets: tuple[Target, ...], texts: Mapping[str, tuple[str, ...]]) -> dict[str, History]:
    """What the direct source remembers after it scraped every pod for each of its texts, half a minute apart."""
    clock, step = Clock(), 0

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=texts[request.match_info["uid"]][step])

    application = web.Application()
    application.router.add_get("/{uid}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    source = DirectSource(clock=clock)
    served = [
        Target(one.uid, one.namespace, one.pod, "127.0.0.1", port, f"/{one.uid}", one.names, one.startup_seconds)
        for one in targets
    ]
    found: dict[str, History] = {}
    for step in range(max(len(line) for line in texts.values())):  # noqa: B007 - the server reads it
        found = await source.collect(served)
        clock.now += APART_SECONDS
    await source.close()
    await runner.cleanup()
    return found


def target(series: EngineSeries, uid: str = "a", startup_seconds: float | None = None) -> EngineTarget:
    """A pod of an engine."""
    place = (uid, "team", f"pod-{uid}", "10.0.0.1", series.port, series.path, series.names)
    return EngineTarget(*place, startup_seconds, series=series)


async def observed(series: EngineSeries, *texts: str) -> PoolObservation:
    """A pool of one pod that showed these texts."""
    targets = (target(series),)
    return observe_pool(targets, await scraped(targets, {"a": texts}))
