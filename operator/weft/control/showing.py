"""What a pass brought, for whoever looks: metrics and a record. No mistake in that is a reason to write no statuses."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from weft.control.context import Context
    from weft.control.recording import Recorder
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import ResourceKey, Snapshot

log = logging.getLogger(__name__)


class Showing:
    """Called from one thread at a time; remembers of whom something cannot be shown, as it logs each once."""

    def __init__(self, context: Context, recorder: Recorder | None) -> None:
        """Nobody is known yet."""
        self._context = context
        self._recorder = recorder
        self._known: set[ResourceKey] = set()

    def show(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """Metrics of this pass; of whom they cannot be shown, an event says so."""
        try:
            failed = self._context.telemetry.show(snapshot, decisions)
        except Exception:
            log.exception("metrics cannot be shown")
            self._count()
            return
        for key, error in failed.items():
            if key not in self._known:
                log.error("metrics of %s cannot be shown", key, exc_info=error)
            self._count()
            told = (
                f"Weft made a mistake while showing metrics of it, some of which are absent; please report: {error!r}"
            )
            self._context.events.record(key, Explanation(Reason.MetricsMissing, told), warns=True)
        self._known = set(failed)

    def record(self, decided_on: Snapshot, decisions: Decisions) -> None:
        """Keep the pass for `weft replay`, where records are asked for."""
        if self._recorder is None:
            return
        try:
            self._recorder.record(decided_on, decisions)
        except Exception:
            log.exception("this pass is not recorded")
            self._count()

    def _count(self) -> None:
        self._context.telemetry.failures.labels("decide", "Bug").inc()
