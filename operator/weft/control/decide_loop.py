"""The global loop: one snapshot, one decision, and the statuses that it changes."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.control.garbage import collected_afterwards
from weft.control.recording import recorder_of
from weft.control.status_writing import StatusWriter
from weft.decide import Persisted, decide, in_safe_order
from weft.decide.news import news_of
from weft.domain.errors import Retry, WeftError
from weft.domain.reasons import Reason
from weft.observe.snapshot_builder import SnapshotBuilder

if TYPE_CHECKING:
    from weft.control.context import Context
    from weft.control.wake import Wake
    from weft.domain.decision import Decisions, PoolDecision, SplitDecision
    from weft.domain.snapshot import ScaleMemory, Snapshot
    from weft.domain.status import Condition

SHORTEST_SLEEP_SECONDS = 0.05

log = logging.getLogger(__name__)


class DecideLoop:
    """Wakes on changes and every tick. Passes never overlap; deciding and writing happen in a thread."""

    def __init__(self, context: Context, wake: Wake) -> None:
        """Remembers nothing yet: scaling starts its window with this process."""
        self._context = context
        self._wake = wake
        self._builder = SnapshotBuilder(context.sources)
        self._statuses = StatusWriter(context)
        self._memory: dict[str, ScaleMemory] = {}
        self._recorder = recorder_of(context.options)

    async def run(self) -> None:
        """Turn until cancelled. An error ends one pass, never the loop."""
        sleep_seconds = SHORTEST_SLEEP_SECONDS
        while True:
            await self._wake.wait(sleep_seconds)
            sleep_seconds = self._context.options.tick_seconds
            if self._context.observed:
                wake_after = await self._guarded_pass()
                sleep_seconds = min(sleep_seconds, max(SHORTEST_SLEEP_SECONDS, wake_after or sleep_seconds))
            self._context.pulse.decided = time.monotonic()

    async def _guarded_pass(self) -> float | None:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._context.executor, self._pass)
        except Exception:
            log.exception("a decision failed; the next pass starts from a fresh snapshot")
            self._context.telemetry.failures.labels("decide", "Bug").inc()
            return None

    def _pass(self) -> float | None:
        """Decide on everything once; gives the seconds after which time alone changes the answer."""
        snapshot = self._builder.build(self._context.clock.now(), self._context.collector.observations(), self._memory)
        pasts = self._context.past.found(self._memory)
        snapshot = replace(snapshot, budget=self._context.options.budget, pasts=pasts)
        with self._context.telemetry.decision_seconds.time(), collected_afterwards():
            decisions = decide(snapshot, self._context.catalog)
        self._memory = decisions.memory
        self._context.telemetry.show(snapshot, decisions)
        self._write(snapshot, decisions)
        if self._recorder is not None:
            self._recorder.record(snapshot, decisions)
        return decisions.wake_after_seconds

    def _write(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """Every decision, but not those that take what a pool gives up whose own could not be written."""
        versions = self._builder.versions()
        before = {each.key.uid: each.conditions for each in snapshot.pools}
        before |= {each.key.uid: each.conditions for each in snapshot.splits}
        every = (*in_safe_order(decisions.pools, snapshot.pools), *map(Persisted, decisions.splits))
        failed: set[str] = set()
        for each in every:
            key = each.decision.key
            try:
                if each.after.isdisjoint(failed):
                    self._write_one(each.decision, versions, before.get(key.uid, ()), snapshot.now)
            except Retry as error:
                failed.add(key.uid)
                self._context.telemetry.failures.labels("decide", error.reason.value).inc()
                if error.reason is Reason.ApiUnavailable:
                    log.warning("statuses cannot be written: %s", error)
                    return
            except WeftError as error:
                failed.add(key.uid)
                self._context.telemetry.failures.labels("decide", error.reason.value).inc()
                log.warning("status of %s was refused: %s", key, error)

    def _write_one(
        self,
        decision: PoolDecision | SplitDecision,
        versions: dict[str, int],
        before: tuple[Condition, ...],
        now: float,
    ) -> None:
        if self._statuses.write_decision(decision, versions[decision.key.uid], now):
            for event in decision.events:
                self._context.events.record(decision.key, event)
            for news in news_of(before, decision):
                self._context.events.record(decision.key, news.explanation, warns=news.warns)
