"""Collect metrics from engines, fronts and Prometheus periodically, beside the loops that act on them."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from weft.engines import ports_by_label
from weft.observe.custom_resources.claims import of_no_foreign_pool
from weft.observe.snapshot_builder import SnapshotBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.control.context import Context

UNSYNCED_SECONDS = 0.3  # between checks whether the caches are filled
LOOK_BACK_SECONDS = 2.0  # from one pool to the next: two weeks of samples are much for a Prometheus

log = logging.getLogger(__name__)


async def keep_collecting(context: Context, told: Callable[[], None]) -> None:
    """Collect metrics every few seconds, and call `told` after each round, to wake what depends on them."""
    builder, loop = SnapshotBuilder(context.sources), asyncio.get_running_loop()
    while True:
        if not context.synced:
            await asyncio.sleep(UNSYNCED_SECONDS)
            continue
        try:
            pools = await loop.run_in_executor(context.executor, builder.pools)
            asks = pools if context.options.prometheus_url is not None else ()  # only Prometheus may read pickers
            pickers = await loop.run_in_executor(context.executor, context.pickers.fronts, asks)
            pods = of_no_foreign_pool(context.cluster.pods(), pools)
            await asyncio.gather(
                context.collector.collect(pools, pods, pickers), context.downloads.collect(ports_by_label(), pods)
            )
            context.telemetry.show_engines_read(context.collector.engines_read)
        except Exception:
            log.exception("metrics could not be collected")
        context.pulse.collected = time.monotonic()
        told()
        await asyncio.sleep(context.options.metrics_seconds)


async def keep_looking_back(context: Context) -> None:
    """Ask Prometheus for the past traffic of one pool after the other; nothing waits for it."""
    builder, loop = SnapshotBuilder(context.sources), asyncio.get_running_loop()
    while context.options.prometheus_url is not None:
        await asyncio.sleep(LOOK_BACK_SECONDS)
        if not context.synced:
            continue
        try:
            pools = await loop.run_in_executor(context.executor, builder.pools)
            await loop.run_in_executor(context.executor, context.past.ask_next, pools, context.clock.now())
        except Exception:
            log.exception("earlier traffic could not be looked up")
