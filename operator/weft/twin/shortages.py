"""Periods in which pools had fewer replicas than they wanted, with the reason in their status."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.twin.outcome import Shortage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import PoolStatus

_REFUSING = ("Planned", "Placed")  # conditions that are False where replicas are missing
_BOUNDED = frozenset({Reason.AtMaximum, Reason.BudgetExhausted})  # reasons that hold a count down


@dataclass(frozen=True, slots=True)
class _Open:
    """A shortage that lasts since `at`, and what was said at its worst."""

    at: float
    worst_at: float
    depth: tuple[int, int]
    worst: Explanation


class Shortages:
    """Each lasts while a status gives one reason, and keeps the message from when most replicas were missing.

    Times are seconds of the trace.
    """

    def __init__(self) -> None:
        """Start without shortages."""
        self._open: dict[str, _Open] = {}
        self._over: dict[str, list[Shortage]] = {}

    def look(self, pools: Iterable[PoolRecord], now: float) -> None:
        """Open and close shortages by the pools' status now."""
        for pool in pools:
            uid, why = pool.key.uid, _lacks(pool)
            known = self._open.get(uid)
            if known is not None and (why is None or why.reason is not known.worst.reason):
                self._close(pool, now)
                known = None
            if why is not None:
                self._open[uid] = _the_worse(known, _Open(now, now, _depth(pool.status), why))

    def of(self, pool: PoolRecord, end: float) -> Iterator[Shortage]:
        """Yield all shortages of one pool, in order of time; one that is still open ends at `end`."""
        if pool.key.uid in self._open:
            self._close(pool, end)
        yield from self._over.get(pool.key.uid, ())

    def _close(self, pool: PoolRecord, now: float) -> None:
        over = self._open.pop(pool.key.uid)
        if now > over.at:
            found = Shortage(over.at, now, pool.key.name, over.worst, over.worst_at)
            self._over.setdefault(pool.key.uid, []).append(found)


def _the_worse(known: _Open | None, found: _Open) -> _Open:
    """Return what is told of a shortage that lasts, if it was known before, and is found again."""
    if known is None:
        return found
    return replace(found, at=known.at) if found.depth > known.depth else known


def _depth(status: PoolStatus) -> tuple[int, int]:
    """How much a pool lacks: replicas without a place, and where none does, the fewer it may want the more."""
    missing = status.desired_replicas - len(status.assignments)
    return max(0, missing), -status.desired_replicas


def _lacks(pool: PoolRecord) -> Explanation | None:
    for each in pool.conditions:
        if each.status == "False" and each.kind in _REFUSING:
            return each.explanation
    scale = pool.status.scale
    return scale if scale is not None and scale.reason in _BOUNDED else None
