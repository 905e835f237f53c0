"""Decide on all pools except those on which deciding fails: they stay as they are, and their status says why."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from weft.decide import decide, whose
from weft.domain.stumbling import Stumbled, left_as_they_are

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.catalog import Catalog
    from weft.control.metrics.telemetry import Telemetry
    from weft.domain.decision import Decisions
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import Snapshot

TRIED_AGAIN_SECONDS = 60.0  # the failure may come from the pool's traffic, which changes
MOST_TRIES = 5  # tries in one pass, each as expensive as a pass; culprits that are found are left out of the next one
LONGEST_SEARCH_SECONDS = 10.0  # after which a pass starts no search, which takes eleven passes with 1,000 pools

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """Why a resource is left out, at which generation, and until when (monotonic seconds)."""

    generation: int
    until: float
    why: Explanation


class Isolating:
    """Decides without the resources that make deciding fail, which it remembers. Called from one thread at a time."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float] = time.monotonic) -> None:
        """Each failure is counted in `telemetry` as a failure to decide."""
        self._telemetry = telemetry
        self._clock = clock
        self._left_out: dict[str, _LeftOut] = {}

    @property
    def left_out(self) -> dict[str, Explanation]:
        """By UID, why resources were left out of the last try to decide."""
        return {uid: each.why for uid, each in self._left_out.items()}

    def decide(self, snapshot: Snapshot, catalog: Catalog) -> Decisions:
        """Decisions without those left out. Raises errors that concern no single resource, or too many."""
        self._forget(snapshot)
        began = self._clock()
        for _ in range(MOST_TRIES - 1):
            seen = self._without(snapshot)
            try:
                return decide(seen, catalog)
            except Exception as error:
                is_long = self._clock() - began > LONGEST_SEARCH_SECONDS
                found = _whose(error, seen, catalog, is_searched=not is_long)
                if found is None or found.uids <= self._left_out.keys():
                    raise
                self._leave_out(found, snapshot)
        return decide(self._without(snapshot), catalog)

    def _without(self, snapshot: Snapshot) -> Snapshot:
        why = self.left_out
        return left_as_they_are(snapshot, why) if why else snapshot

    def _leave_out(self, error: Stumbled, snapshot: Snapshot) -> None:
        log.error("deciding on %s failed: they are left as they are", sorted(error.uids), exc_info=error)
        self._telemetry.failures.labels("decide", "Bug").inc()
        until, generations, why = self._clock() + TRIED_AGAIN_SECONDS, _generations(snapshot), error.explanation
        self._left_out |= {uid: _LeftOut(generations[uid], until, why) for uid in error.uids}

    def _forget(self, snapshot: Snapshot) -> None:
        """Forget resources that are gone, and those to retry as they were edited or have waited long enough."""
        now, generations = self._clock(), _generations(snapshot)
        self._left_out = {
            uid: each
            for uid, each in self._left_out.items()
            if now < each.until and generations.get(uid) == each.generation
        }


def _whose(error: Exception, seen: Snapshot, catalog: Catalog, *, is_searched: bool) -> Stumbled | None:
    """The resource that an error is about, by the error itself or, if `is_searched`, by trying; None if unknown."""
    if isinstance(error, Stumbled):
        return error
    return whose(error, seen, partial(_attempt, catalog)) if is_searched else None


def _attempt(catalog: Catalog, snapshot: Snapshot) -> Exception | None:
    """The error of deciding on a snapshot, or None."""
    try:
        decide(snapshot, catalog)
    except Exception as error:  # noqa: BLE001 - which error it is does not matter: it is a bug of ours
        return error
    return None


def _generations(snapshot: Snapshot) -> dict[str, int]:
    pools = {each.key.uid: each.generation for each in snapshot.pools}
    return pools | {each.key.uid: each.generation for each in snapshot.splits}
