"""Periods in which pools had fewer replicas than they wanted, with the reason in their status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.twin.outcome import Shortage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord

_REFUSING = ("Planned", "Placed")  # conditions that are False where replicas are missing
_BOUNDED = frozenset({Reason.AtMaximum, Reason.BudgetExhausted})  # reasons that hold a count down


class Shortages:
    """Each lasts while a status gives one reason, and keeps its first message. Times are seconds of the trace."""

    def __init__(self) -> None:
        """Start without shortages."""
        self._open: dict[str, tuple[float, Explanation]] = {}
        self._over: dict[str, list[Shortage]] = {}

    def look(self, pools: Iterable[PoolRecord], now: float) -> None:
        """Open and close shortages by the pools' status now."""
        for pool in pools:
            uid, why = pool.key.uid, _lacks(pool)
            known = self._open.get(uid)
            if known is not None and (why is None or why.reason is not known[1].reason):
                self._close(pool, now)
            if why is not None and uid not in self._open:
                self._open[uid] = now, why

    def of(self, pool: PoolRecord, end: float) -> Iterator[Shortage]:
        """Yield all shortages of one pool, in order of time; one that is still open ends at `end`."""
        if pool.key.uid in self._open:
            self._close(pool, end)
        yield from self._over.get(pool.key.uid, ())

    def _close(self, pool: PoolRecord, now: float) -> None:
        at, why = self._open.pop(pool.key.uid)
        if now > at:
            self._over.setdefault(pool.key.uid, []).append(Shortage(at, now, pool.key.name, why))


def _lacks(pool: PoolRecord) -> Explanation | None:
    for each in pool.conditions:
        if each.status == "False" and each.kind in _REFUSING:
            return each.explanation
    scale = pool.status.scale
    return scale if scale is not None and scale.reason in _BOUNDED else None
