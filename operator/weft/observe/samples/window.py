"""One pod's window of samples, read by the names that its page really has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.snapshot import Buckets
    from weft.engines import EngineSeries
    from weft.observe.samples.arithmetic import Sample
    from weft.observe.samples.history import History

CAPACITY = (("reason", "capacity"),)
DEFERRED = (("reason", "deferred"),)
# Impossible figures of one process, as found by `odd_counts` and `odd_pages`.
FINISHED, STUCK, INSIDE, INPUTS, OUTPUTS = "finished", "stuck", "inside", "inputs", "outputs"
OLD, CHANGING, GARBLED, STRANGER = "old", "changing", "garbled", "stranger"
# Each of them is reason enough to reject a page.
NO_PAGE = frozenset((STUCK, OLD, CHANGING, GARBLED, STRANGER))


@dataclass(frozen=True, slots=True)
class Window:
    """Samples and names. `expected` are the names of the engine's version, `series` those that exist.

    `contradicted` are impossible figures (`ttft`, `tpot`, `kv_usage`, `hit_rate` and those above), which are read as
    missing.
    """

    history: History
    series: EngineSeries
    expected: EngineSeries
    contradicted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, history: History, expected: EngineSeries) -> Window:
        """A window with the names that were seen."""
        return cls(history, expected.as_shown(history.shows), expected)

    def gauge(self, name: str | None) -> tuple[float, ...]:
        """The newest value of each series of a gauge."""
        return self.history.gauge(name) if name is not None else ()

    def lines(self, name: str | None) -> tuple[list[Sample], ...]:
        """The usable samples of each series with this name, in order of time."""
        return tuple(self.history.lines(name)) if name is not None else ()

    def ratio(self, figure: str) -> float | None:
        """The mean of the newest values of `kv_usage` or `hit_rate` over its series."""
        found = () if figure in self.contradicted else self.gauge(getattr(self.series, figure))
        return sum(found) / len(found) if found else None

    def increase(self, name: str | None) -> float | None:
        """Growth of a counter over the window."""
        return self.history.increase(name) if name is not None else None

    def mean(self, name: str | None) -> float | None:
        """Mean observation of a histogram."""
        return self.history.mean(name) if name is not None else None

    def buckets(self, name: str | None) -> Buckets:
        """Growth of the buckets of a histogram."""
        return self.history.buckets(name) if name is not None else ()

    @property
    def ttft_mean(self) -> float | None:
        """Mean time to the first token, in seconds."""
        return None if "ttft" in self.contradicted else self.mean(self.series.ttft)

    @property
    def tpot_mean(self) -> float | None:
        """Mean time per output token, in seconds."""
        return None if "tpot" in self.contradicted else self.mean(self.series.per_token)

    @property
    def ttft_buckets(self) -> Buckets:
        """Growth of the buckets of the time to the first token."""
        return () if "ttft" in self.contradicted else self.buckets(self.series.ttft)

    @property
    def tpot_buckets(self) -> Buckets:
        """Growth of the buckets of the time per output token."""
        return () if "tpot" in self.contradicted else self.buckets(self.series.per_token)

    @property
    def most_inside(self) -> float:
        """Requests inside (running or waiting): the maximum over the window's scrapes."""
        series = self.series
        names = (series.running, series.waiting, *series.waiting_for_kv)
        return sum(self.history.most(name) for name in names if name is not None)

    @property
    def never_asked(self) -> bool:
        """Whether the engine shows its load but never had a request, so that its counters do not exist yet."""
        inside = self.gauge(self.series.running) + self.gauge(self.series.waiting)
        return (
            self.series.born_late
            and not self.history.shows(self.series.finished)
            and self.history.span_seconds > 0
            and bool(inside)
            and not any(inside)
        )

    @property
    def running(self) -> float | None:
        """Requests that are running; None if unknown."""
        running = () if INSIDE in self.contradicted else self.gauge(self.series.running)
        return sum(running) if running else None

    @property
    def input_buckets(self) -> Buckets:
        """Growth of the buckets of prompt lengths."""
        return () if INPUTS in self.contradicted else self.buckets(self.series.request_input_tokens)

    @property
    def output_buckets(self) -> Buckets:
        """Growth of the buckets of answer lengths."""
        return () if OUTPUTS in self.contradicted else self.buckets(self.series.request_output_tokens)

    @property
    def requests_per_second(self) -> float | None:
        """Finished requests per second."""
        if self._tells_no_answers:
            return None
        return 0.0 if self.never_asked else self.history.rate(self.series.finished)

    def rate_of_last(self, seconds: float) -> float | None:
        """Requests per second that finished in the last `seconds` or a little more; a newer pod had none before."""
        if self._tells_no_answers:
            return None
        if self.never_asked:
            return 0.0
        recent = self.history.recent(seconds, (self.series.finished,))
        grown = recent.increase(self.series.finished)
        return None if grown is None else grown / max(seconds, recent.span_seconds)

    @property
    def seen_seconds(self) -> float:
        """Seconds from the first to the last count of finished requests, or for which nobody was seen to ask."""
        if self.never_asked:
            return self.history.span_seconds
        return self.history.counted_seconds(self.series.finished) or 0.0

    @property
    def waiting(self) -> float | None:
        """Requests that wait for capacity, and those for KV if the engine does not separate them; None if unknown."""
        if INSIDE in self.contradicted:
            return None
        by_reason = self.series.waiting_by_reason
        for_capacity = self.history.gauge(by_reason, CAPACITY) if by_reason else ()
        if for_capacity:
            return sum(for_capacity)
        waiting, for_kv = self.gauge(self.series.waiting), self.history.gauge(by_reason, DEFERRED) if by_reason else ()
        return max(0.0, sum(waiting) - sum(for_kv)) if waiting else None

    @property
    def waiting_for_kv(self) -> float | None:
        """Requests that wait for KV to arrive or to leave; None if the engine does not report it."""
        by_reason = self.series.waiting_by_reason
        waiting = self.history.gauge(by_reason, DEFERRED) if by_reason else ()
        waiting += tuple(value for name in self.series.waiting_for_kv for value in self.history.gauge(name))
        return sum(waiting) if waiting else None

    @property
    def idle(self) -> bool | None:
        """Whether no request is inside and nobody pulls KV any more; None if the engine does not reliably report it."""
        running, held = self.gauge(self.series.running), self.gauge(self.series.kv_usage)
        if not (self.series.tells_when_idle and running and held):
            return None
        return not any((*running, *self.gauge(self.series.waiting), self.waiting_for_kv, *held))

    @property
    def input_tokens(self) -> float | None:
        """Mean prompt length, from the histogram or counters."""
        if INPUTS in self.contradicted:
            return None
        return self._tokens(self.series.request_input_tokens, self.series.input_tokens)

    @property
    def output_tokens(self) -> float | None:
        """Mean answer length, from the histogram or counters."""
        if OUTPUTS in self.contradicted:
            return None
        return self._tokens(self.series.request_output_tokens, self.series.output_tokens)

    @property
    def prefix_tokens(self) -> tuple[float, float] | None:
        """Prompt tokens looked up in the prefix cache, and found; None if nothing was looked up."""
        queries, hits = self._increases(self.series.prefix_queries, self.series.prefix_hits)
        if queries and hits is None and self.series.born_late:
            hits = 0.0
        return (queries, hits) if queries and hits is not None else None

    @property
    def computed_input_tokens(self) -> float | None:
        """Prompt tokens really computed per request: the engine's own count, or those not found in the cache."""
        computed = self.mean(self.series.request_computed_tokens)
        found, prompt = self.prefix_tokens, self.input_tokens
        if computed is not None or found is None or prompt is None:
            return computed
        return prompt * max(0.0, 1.0 - found[1] / found[0])

    @property
    def transfer_seconds(self) -> float | None:
        """Mean seconds of a KV transfer, or the newest one's if the engine only has a gauge; None before the first."""
        name = self.series.transfer
        mean = self.mean(name)
        if mean is None:
            newest = [value for value in self.gauge(name) if value > 0]
            mean = sum(newest) / len(newest) if newest else None
        return None if mean is None else mean * self.series.transfer_unit_seconds

    @property
    def transfers_done(self) -> float | None:
        """KV transfers that succeeded; None if the engine does not count them."""
        return self.increase(None if self.series.transfer is None else f"{self.series.transfer}_count")

    @property
    def transfers_failed(self) -> float | None:
        """KV transfers that failed; None if the engine does not report them."""
        return self.increase(self.series.failed_transfers)

    @property
    def requests_done(self) -> float | None:
        """Requests that ended; None if the engine does not report them."""
        return None if self._tells_no_answers else self.increase(self.series.finished)

    @property
    def kv_expired(self) -> float | None:
        """Prompts whose KV nobody fetched in time, counted on each rank; None if the engine does not report them."""
        return self.increase(self.series.expired_kv)

    @property
    def transfer_buckets(self) -> Buckets:
        """Growth of the buckets of KV transfer seconds; empty if the engine only has a gauge."""
        unit = self.series.transfer_unit_seconds
        return tuple((bound * unit, count) for bound, count in self.buckets(self.series.transfer))

    @property
    def _tells_no_answers(self) -> bool:
        """Whether the count of finished requests, or the whole page, is not believed."""
        return FINISHED in self.contradicted or not self.contradicted.isdisjoint(NO_PAGE)

    def _increases(self, one: str | None, other: str | None) -> tuple[float | None, float | None]:
        """Growth of two counters over the same time."""
        if one is None or other is None:
            return self.increase(one), self.increase(other)
        return self.history.increases(one, other)

    def _tokens(self, histogram: str | None, counter: str | None) -> float | None:
        if histogram is not None and self.history.shows(histogram):
            return self.mean(histogram)
        tokens, requests = self._increases(counter, self.series.finished)
        return tokens / requests if tokens is not None and requests else None
