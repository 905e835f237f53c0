"""Past weeks of traffic from Prometheus, for pools without a daily pattern in their status: read in the background.

Nothing waits for an answer, and without one a pool learns its days by observation.
"""

from __future__ import annotations

import logging
import math
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from weft.domain.errors import Bug
from weft.engines import finished_by_engine
from weft.observe.sources.prometheus import PrometheusAway
from weft.scaling.forecasting.keeping import knows_a_day
from weft.scaling.forecasting.past import STEP_SECONDS, knows_as_much, learnt_from
from weft.scaling.forecasting.seasons import QUARTER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from weft.domain.forecast import Past
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import PoolRecord
    from weft.observe.sources.prometheus import PrometheusSource

# 4032 values, of the 11,000 that Prometheus returns at most.
LONGEST_SECONDS = 14 * 86_400.0
# Until a pool without an answer is asked again.
RETRY_SECONDS = 600.0

log = logging.getLogger(__name__)


class PastTraffic:
    """Asks once per pool. `ask_next` blocks, and is called from another thread than `found`."""

    def __init__(self, source: PrometheusSource | None) -> None:
        """Start with nothing asked. Without a source nothing ever is."""
        self._source = source
        self._asked: dict[str, float] = {}  # by UID of the pool: do not ask before this epoch second
        self._found: dict[str, Past] = {}
        self._away = False
        self._lock = threading.Lock()

    def ask_next(self, pools: Collection[PoolRecord], now: float) -> None:
        """Ask for one pool at most, of those whose status has no daily pattern."""
        self._forget_all_but({pool.key.uid for pool in pools})
        unknown = (pool for pool in pools if not knows_a_day(pool.status.forecast, now))
        waiting = (pool for pool in unknown if now >= self._asked.get(pool.key.uid, -math.inf))
        pool = next((pool for pool in waiting if pool.status.engine is not None), None)
        if pool is None or self._source is None:
            return
        self._asked[pool.key.uid] = now + RETRY_SECONDS
        try:
            self._ask(self._source, pool, now)
        except (PrometheusAway, Bug) as error:
            if not self._away:
                log.info("what Prometheus knows of earlier traffic cannot be read: %s", error)
            self._away = True

    def found(self, memory: Mapping[str, ScaleMemory]) -> dict[str, Past]:
        """Pasts by pool UID, for pools whose forecast lacks them; those it has learnt are dropped here."""
        with self._lock:
            self._found = {uid: past for uid, past in self._found.items() if not _is_learnt(memory.get(uid), past)}
            return dict(self._found)

    def _forget_all_but(self, uids: set[str]) -> None:
        self._asked = {uid: until for uid, until in self._asked.items() if uid in uids}
        with self._lock:
            self._found = {uid: past for uid, past in self._found.items() if uid in uids}

    def _ask(self, source: PrometheusSource, pool: PoolRecord, now: float) -> None:
        """Ask for one pool's past; raises `PrometheusAway`, and `Bug` for an invalid name."""
        end = now // QUARTER_SECONDS * QUARTER_SECONDS
        begin = end - LONGEST_SECONDS
        moments = (datetime.fromtimestamp(begin, tz=UTC), datetime.fromtimestamp(end, tz=UTC))
        past = learnt_from(source.rates(pool.key.namespace, pool.key.name, finished_by_engine(), moments, STEP_SECONDS))
        self._asked[pool.key.uid], self._away = math.inf, False
        if past is not None:
            with self._lock:
                self._found[pool.key.uid] = past


def _is_learnt(memory: ScaleMemory | None, past: Past) -> bool:
    return memory is not None and memory.forecast is not None and knows_as_much(memory.forecast, past)
