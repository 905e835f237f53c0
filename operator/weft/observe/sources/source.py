"""The protocol of metrics sources, and the one that prefers Prometheus and falls back to scraping."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from weft.domain.snapshot import STALE_SECONDS
from weft.observe.sources.prometheus import PrometheusAway

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.observe.samples.history import History
    from weft.observe.samples.scrape_target import Target

log = logging.getLogger(__name__)


class MetricsSource(Protocol):
    """A source of metrics samples."""

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        """The window of samples of every target that has any, by pod UID."""

    async def close(self) -> None:
        """Close connections."""


class PreferredSource:
    """Asks the first source; while it is away, and for pods that it does not know or knows less of, the second.

    The second one is always asked, or its rates would have to start from nothing when needed.
    """

    def __init__(self, preferred: MetricsSource, fallback: MetricsSource) -> None:
        """Both sources stay open until `close`."""
        self._preferred = preferred
        self._fallback = fallback
        self.away = False
        self._unknown = 0

    async def collect(self, targets: Iterable[Target]) -> dict[str, History]:
        """As `MetricsSource.collect`; never raises."""
        wanted = list(targets)
        scraped = await self._fallback.collect(wanted)
        try:
            asked = await self._preferred.collect(wanted)
        except PrometheusAway as error:
            if not self.away:
                log.warning("Prometheus is away, engines are scraped directly: %s", error)
            self.away = True
            return scraped
        self.away = False
        self._tell_of_engines_unknown_there(scraped, asked)
        return {**scraped, **{uid: _better(history, scraped.get(uid)) for uid, history in asked.items()}}

    def _tell_of_engines_unknown_there(self, scraped: dict[str, History], asked: dict[str, History]) -> None:
        """Log when Prometheus starts, or stops, to lack pods: with other labels it answers, but knows none."""
        unknown = len(scraped.keys() - asked.keys())
        if (unknown > 0) != (self._unknown > 0):
            log.info(
                "Prometheus knows %d of %d engines and fronts; the others are scraped directly",
                len(asked),
                len(scraped),
            )
        self._unknown = unknown

    async def close(self) -> None:
        """Close both sources."""
        await self._preferred.close()
        await self._fallback.close()


def _better(asked: History, scraped: History | None) -> History:
    """Prometheus' samples of a pod, unless they are stale or, after a restart without data, begin later than ours.

    Its window is longer, so that a healthy server soon has more.
    """
    if scraped is None:
        return asked
    is_lost = asked.age_seconds > STALE_SECONDS and scraped.age_seconds < asked.age_seconds
    return scraped if is_lost or asked.span_seconds < scraped.span_seconds else asked.beside(scraped)
