"""The global loop: one snapshot, one decision, and the statuses that it changes."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.control.deciding.decision_writing import DecisionWriter
from weft.control.deciding.garbage import collected_afterwards
from weft.control.deciding.isolating import Isolating
from weft.control.deciding.recording import recorder_of
from weft.control.deciding.showing import Showing
from weft.observe.snapshot_builder import SnapshotBuilder

if TYPE_CHECKING:
    from weft.control.context import Context
    from weft.control.wake import Wake
    from weft.domain.decision import Decisions
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import ResourceKey, Snapshot
    from weft.domain.stumbling import Stumbled

SHORTEST_SLEEP_SECONDS = 0.05

log = logging.getLogger(__name__)


class DecideLoop:
    """Wakes on changes and every tick. Passes never overlap; deciding and writing happen in a thread."""

    def __init__(self, context: Context, wake: Wake) -> None:
        """Start without memory: the scaling window begins with this process."""
        self._context = context
        self._wake = wake
        self._builder = SnapshotBuilder(context.sources, self._tell_of_misread)
        self._isolating = Isolating(context.telemetry)
        self._writer = DecisionWriter(context)
        self._memory: dict[str, ScaleMemory] = {}
        self._showing = Showing(context, recorder_of(context.options))

    async def run(self) -> None:
        """Run passes until cancelled. An error ends one pass, never the loop."""
        sleep_seconds = SHORTEST_SLEEP_SECONDS
        while True:
            await self._wake.wait(sleep_seconds)
            sleep_seconds = self._context.options.tick_seconds
            if self._context.observed:
                wake_after = await self._guarded_pass()
                sleep_seconds = min(sleep_seconds, max(SHORTEST_SLEEP_SECONDS, wake_after or sleep_seconds))
            self._context.pulse.decided = time.monotonic()

    def _tell_of_misread(self, key: ResourceKey, mistake: Stumbled) -> None:
        """Report by an event that a resource cannot be read: if not even its status can, nothing else tells."""
        log.error("%s cannot be read: it is left as it is", key, exc_info=mistake)
        self._context.telemetry.failures.labels("decide", "Bug").inc()
        self._context.events.record(key, mistake.explanation, warns=True)

    async def _guarded_pass(self) -> float | None:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._context.executor, self._pass)
        except Exception:
            log.exception("a decision failed; the next pass starts from a fresh snapshot")
            self._context.telemetry.failures.labels("decide", "Bug").inc()
            return None

    def _pass(self) -> float | None:
        """Decide on everything once; returns the seconds after which the passage of time alone changes the answer."""
        snapshot = self._builder.build(self._context.clock.now(), self._context.collector.observations(), self._memory)
        pasts = self._context.past.found(self._memory)
        snapshot = replace(snapshot, budget=self._context.options.budget, pasts=pasts)
        decisions = self._decide(snapshot)
        self._memory = decisions.memory
        self._showing.show(snapshot, decisions)
        self._writer.write(snapshot, decisions, self._builder.versions())
        self._showing.record(snapshot, decisions, self._isolating.left_out)
        return decisions.wake_after_seconds

    def _decide(self, snapshot: Snapshot) -> Decisions:
        """Decide without what makes deciding fail; an error that remains is recorded before it ends the pass."""
        try:
            with self._context.telemetry.decision_seconds.time(), collected_afterwards():
                return self._isolating.decide(snapshot, self._context.catalog)
        except Exception as error:
            self._showing.record(snapshot, error, self._isolating.left_out)
            raise
