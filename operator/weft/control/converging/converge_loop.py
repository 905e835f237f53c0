"""The loop per resource: a queue of UIDs, some workers, and a back-off for each UID."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from weft.apply import DeletedAgain, RetryLater, Unanswered
from weft.control.converging.one_pass import Before, Converger
from weft.control.converging.work_queue import WorkQueue
from weft.domain.errors import Retry
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.control.context import Context
    from weft.control.converging.carrying_out import FailedPass
    from weft.control.converging.one_pass import Converged
    from weft.control.converging.view import View

STIR_SECONDS = 0.5
UNTOLD_SECONDS = 10.0  # until the next look at everything after a bug of ours
LONGEST_AFTER_A_BUG_SECONDS = 60.0  # until the next pass over one resource
CONFLICT_SECONDS = 0.3  # the watch usually brings the newer object before
QUIET_SECONDS = 60.0  # for which an absent webhook or a failing API server is not reported yet

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


class ConvergeLoop:
    """Converges each resource asked for with `want`, which any thread may call, and all of them at each resync."""

    def __init__(self, context: Context, view: Callable[[], View]) -> None:
        """Bound to the running event loop; `view` returns the current view, and may block."""
        self._context = context
        self._queue = WorkQueue()
        self._view = view
        self._converger = Converger(context)
        self._refusals: dict[str, FailedPass] = {}
        self._unanswered: dict[str, float] = {}  # by UID, since when each pass got no answer, in the loop's time
        self._loop = asyncio.get_running_loop()
        self._stirred = False

    def want(self, uid: str | None) -> None:
        """Converge one resource soon; None: the cluster changed, which concerns those that wait for free room."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._want, uid)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._resync())
            group.create_task(self._stir())
            for _ in range(self._context.options.workers):
                group.create_task(self._work())

    def _want(self, uid: str | None) -> None:
        if uid is None:
            self._stirred = True
        else:
            self._queue.add(uid)

    async def _work(self) -> None:
        while True:
            uid = await self._queue.take()
            try:
                await self._one(uid)
            except Exception:
                log.exception("%s cannot be looked at", uid)
                self._stumble(uid, 0)
            self._context.pulse.converged = time.monotonic()

    async def _one(self, uid: str) -> None:
        if not self._context.synced:
            self._queue.done(uid)  # the first resync after the caches are filled brings everything
            return
        view = await self._in_thread(self._view)
        resource = view.pools.get(uid) or view.splits.get(uid)
        if resource is None:
            self._refusals.pop(uid, None)
            self._unanswered.pop(uid, None)
            self._queue.forget(uid)
            return
        waits = self._queue.is_backing_off(uid, resource.generation)
        known = self._refusals.get(uid) if waits else None
        if waits and known is None:
            self._queue.release(uid)  # an API server out of reach, or a bug of ours: the timer brings it back
            return
        last = self._refusals.get(uid)
        before = Before(known, self._is_patient(uid), last.held.chosen if last is not None else frozenset())
        try:
            done = await self._in_thread(partial(self._converger.converge, view, uid, before))
        except Exception:
            log.exception("converging %s failed", resource.key)
            self._stumble(uid, resource.generation)
            return
        self._context.telemetry.passes.inc()
        if known is None:
            self._note_unanswered(uid, done.refused)
        self._settle(uid, done, known)

    def _stumble(self, uid: str, generation: int) -> None:
        """Back off from a resource after a mistake of ours; its pods may be the cause, and they change."""
        self._context.telemetry.failures.labels("converge", "Bug").inc()
        self._refusals.pop(uid, None)
        self._queue.failed(uid, generation, at_most_seconds=LONGEST_AFTER_A_BUG_SECONDS)

    def _is_patient(self, uid: str) -> bool:
        """Whether an unanswered request is not reported yet; it is at once if another problem was reported before."""
        last, now = self._refusals.get(uid), self._loop.time()
        alone = last is None or isinstance(last.error, Unanswered)
        return alone and now - self._unanswered.get(uid, now) < QUIET_SECONDS

    def _note_unanswered(self, uid: str, refused: FailedPass | None) -> None:
        """Note since when requests are unanswered; a pass that ended with a `Retry` tells nothing about it."""
        if refused is not None and refused.held.hears_nothing:
            self._unanswered.setdefault(uid, self._loop.time())
        elif refused is None or not isinstance(refused.error, Retry):
            self._unanswered.pop(uid, None)

    def _settle(self, uid: str, done: Converged, known: FailedPass | None) -> None:
        """Schedule the next pass of this resource by the result of this one."""
        if done.refused is not None and done.refused.error.reason is Reason.StatusConflict:
            self._queue.release(uid)
            self._queue.add_after(uid, CONFLICT_SECONDS)
        elif done.refused is not None:
            self._fail(uid, done.generation, done.refused)
        elif known is not None and not known.is_tried_each_pass:
            self._queue.release(uid)  # what was refused keeps waiting; everything else is done
        else:
            self._refusals.pop(uid, None)
            self._queue.done(uid, done.again_seconds)

    def _fail(self, uid: str, generation: int, refused: FailedPass) -> None:
        problem = refused.error
        self._context.telemetry.failures.labels("converge", problem.reason.value).inc()
        self._refusals.pop(uid, None)
        if not isinstance(problem, Retry):
            self._refusals[uid] = refused
        self._queue.failed(uid, generation, problem.seconds if isinstance(problem, RetryLater) else 0.0)
        if isinstance(problem, DeletedAgain) and problem.seconds > 0.0:
            self._queue.add_after(uid, problem.seconds)  # a missing object is urgent: it does not wait for the back-off

    async def _resync(self) -> None:
        """Queue everything once the caches are filled, then at each jittered resync; keeps the heartbeat meanwhile."""
        due = 0.0
        while True:
            if self._context.synced and time.monotonic() >= due:
                told = await self._add(lambda view: (*view.pools, *view.splits))
                jitter = random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, hides nothing
                due = time.monotonic() + (self._context.options.resync_seconds if told else UNTOLD_SECONDS) * jitter
            if self._queue.idle:
                self._context.pulse.converged = time.monotonic()
            await asyncio.sleep(STIR_SECONDS)

    async def _stir(self) -> None:
        """Queue the pools that wait for cluster changes, once for many changes."""
        while True:
            await asyncio.sleep(STIR_SECONDS)
            if self._stirred and self._context.synced:
                self._stirred = False
                if not await self._add(lambda view: view.waiting()):
                    self._stirred = True  # nobody was asked, and the same change is told no second time
                    await asyncio.sleep(UNTOLD_SECONDS)

    async def _add(self, chosen: Callable[[View], Iterable[str]]) -> bool:
        """Queue the resources chosen from the current view; False if a bug of ours prevents it."""
        try:
            for uid in chosen(await self._in_thread(self._view)):
                self._queue.add(uid)
        except Exception:
            log.exception("what is to be converged cannot be told")
            self._context.telemetry.failures.labels("converge", "Bug").inc()
            return False
        return True

    async def _in_thread(self, job: Callable[[], Answer]) -> Answer:
        return await self._loop.run_in_executor(self._context.executor, job)
