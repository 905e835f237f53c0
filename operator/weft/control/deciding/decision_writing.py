"""Write the decisions of one pass into statuses, in an order that gives no GPU away twice, with back-off per status."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.apply import ServerError, Unanswered
from weft.control.converging.work_queue import backoff_seconds
from weft.control.statuses.status_writer import StatusWriter
from weft.control.told_once import ToldOnce
from weft.decide import Persisted, in_safe_order
from weft.decide.telling.news import news_of
from weft.domain.errors import Retry, WeftError
from weft.domain.reasons import Explanation, Reason
from weft.domain.stumbling import Stumbled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.control.context import Context
    from weft.domain.decision import Decisions, PoolDecision, SplitDecision
    from weft.domain.snapshot import Snapshot
    from weft.domain.status import Condition

MOST_BACKOFF_SECONDS = 60.0  # a refusal is usually a lacking permission, and whoever restores it watches
FAILING_SECONDS = 10.0  # at most, while the API server fails: nothing else announces its recovery
EVERYTHING = "everything"  # what is told of all statuses together
TOLD_FROM = 4  # refusals in a row, which take seven seconds, and which no condition can report
ILL_SECONDS = 30.0  # of unanswered requests in one pass: without quorum etcd takes seven for each status, a webhook ten

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Refused:
    """How often the status of a generation was refused, and until when (monotonic seconds) it is not retried."""

    generation: int
    count: int
    until: float


class DecisionWriter:
    """Writes decisions, called from one thread at a time; remembers refused statuses."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.monotonic) -> None:
        """Uses the writers of `context`."""
        self._context = context
        self._clock = clock
        self._statuses = StatusWriter(context)
        self._refused: dict[str, _Refused] = {}
        self._told = ToldOnce()

    def write(self, snapshot: Snapshot, decisions: Decisions, versions: Mapping[str, int]) -> None:
        """Write every decision, except those that take GPUs from a pool whose own status could not be written.

        A pass ends before liveness takes its silence for a dead loop: a restart heals no API server.
        """
        before = {each.key.uid: each.conditions for each in snapshot.pools}
        before |= {each.key.uid: each.conditions for each in snapshot.splits}
        every = (*in_safe_order(decisions.pools, snapshot.pools), *map(Persisted, decisions.splits))
        known = {each.decision.key.uid for each in every}
        self._refused = {uid: each for uid, each in self._refused.items() if uid in known}
        failed, waited = set[str](), 0.0
        for each in every:
            uid = each.decision.key.uid
            if self._backs_off(each.decision):
                failed.add(uid)
                continue
            if not each.after.isdisjoint(failed):
                continue
            began = self._clock()
            error = self._try(each.decision, versions[uid], before.get(uid, ()), snapshot.now)
            if error is None:
                continue
            failed.add(uid)
            if isinstance(error, Unanswered):
                waited += self._clock() - began
            if _everything_waits(error) or waited > ILL_SECONDS:
                return

    def _try(
        self, decision: PoolDecision | SplitDecision, version: int, before: tuple[Condition, ...], now: float
    ) -> WeftError | None:
        """Why a decision could not be written, None if it was."""
        try:
            if self._statuses.write_decision(decision, version, now):
                self._told.end(EVERYTHING)
                for event in decision.events:
                    self._context.events.record(decision.key, event)
                for news in news_of(before, decision):
                    self._context.events.record(decision.key, news.explanation, warns=news.warns)
        except WeftError as error:
            self._context.telemetry.failures.labels("decide", error.reason.value).inc()
            self._note(decision, error)
            return error
        except Exception as error:
            log.exception("the status of %s cannot be made", decision.key)
            self._context.telemetry.failures.labels("decide", "Bug").inc()
            stumbled = Stumbled((decision.key.uid,), error)
            self._note(decision, stumbled)
            return stumbled
        self._refused.pop(decision.key.uid, None)
        self._told.end(decision.key.uid)
        return None

    def _note(self, decision: PoolDecision | SplitDecision, error: WeftError) -> None:
        """Back off from a refused status; a changed object or an unreachable API server is retried in the next pass."""
        if _everything_waits(error):
            if self._told.is_news(EVERYTHING, error.reason):
                log.warning("statuses cannot be written: %s", error)
        elif not isinstance(error, Retry):
            if self._told.is_news(decision.key.uid, str(error)):
                log.warning("status of %s was refused: %s", decision.key, error)
            most = FAILING_SECONDS if isinstance(error, ServerError) else MOST_BACKOFF_SECONDS
            before = self._refused.get(decision.key.uid)
            count = before.count + 1 if before is not None and before.generation == decision.generation else 1
            until = self._clock() + min(most, backoff_seconds(count))
            self._refused[decision.key.uid] = _Refused(decision.generation, count, until)
            if count >= TOLD_FROM:
                self._context.events.record(decision.key, Explanation(error.reason, error.message), warns=True)

    def _backs_off(self, decision: PoolDecision | SplitDecision) -> bool:
        known = self._refused.get(decision.key.uid)
        return known is not None and known.generation == decision.generation and self._clock() < known.until


def _everything_waits(error: WeftError) -> bool:
    """Whether other statuses would fail, too: the API server does not answer, or asked to be left alone."""
    return isinstance(error, Retry) and error.reason is Reason.ApiUnavailable
