"""Show the results of a pass in metrics and a record. No bug in that keeps statuses from being written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.control.context import Context
    from weft.control.deciding.recording import Recorder
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import ResourceKey, Snapshot

log = logging.getLogger(__name__)


class Showing:
    """Called from one thread at a time; remembers resources that cannot be shown, to log each once."""

    def __init__(self, context: Context, recorder: Recorder | None) -> None:
        """No failures are known at first."""
        self._context = context
        self._recorder = recorder
        self._known: set[ResourceKey | None] = set()

    def show(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """Show the metrics of a pass; a resource whose metrics failed in a scrape since the last one gets an event."""
        try:
            failed = self._context.telemetry.show(snapshot, decisions)
        except Exception:
            log.exception("metrics cannot be shown")
            self._count()
            return
        if failed is None:
            return
        for key, error in failed.items():
            if key not in self._known:
                log.error("metrics of %s cannot be shown", key or "the fabric or of all resources", exc_info=error)
            self._count()
            if key is None:
                continue
            told = (
                f"Weft made a mistake while showing metrics of it, some of which are absent; please report: {error!r}"
            )
            self._context.events.record(key, Explanation(Reason.MetricsMissing, told), warns=True)
        self._known = set(failed)

    def record(self, snapshot: Snapshot, decided: Decisions | Exception, left_out: Mapping[str, Explanation]) -> None:
        """Record the pass for `weft replay`, if records are asked for."""
        if self._recorder is None:
            return
        try:
            self._recorder.record(snapshot, decided, left_out)
        except Exception:
            log.exception("this pass is not recorded")
            self._count()

    def _count(self) -> None:
        self._context.telemetry.failures.labels("decide", "Bug").inc()
