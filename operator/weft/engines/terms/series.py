"""Names of an engine's metrics, by what Weft needs to observe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSeries:
    """Metric names of one engine version, all of which are observed; None if the version has no such series.

    Gauges and counters are full names (counters with `_total`). Histograms are base names, to which `_bucket`, `_sum`
    and `_count` are added. Tokens and requests are counts, times seconds, `kv_usage` and `hit_rate` fractions.
    `other_names` are (field, name) pairs: names in other versions, read where a page lacks the name of its version.
    `needs` says what has to be enabled for the engine to expose what scaling needs.
    """

    # gauges
    running: str | None
    waiting: str | None
    kv_usage: str | None
    waiting_by_reason: str | None = None  # label `reason`: `capacity` is the real queue, `deferred` waits for KV
    waiting_for_kv: tuple[str, ...] = ()  # requests that wait for KV transfer and are not in `waiting`
    startup: str | None = None  # seconds that the engine took to start
    loading: str | None = None  # the part of `startup` in which it loaded weights
    hit_rate: str | None = None  # share of prompt tokens found in the prefix cache, for engines without counters of it
    # counters
    finished: str  # its rate is completed requests per second
    prefix_queries: str | None = None  # in tokens
    prefix_hits: str | None = None  # in tokens
    input_tokens: str | None = None  # for engines without a histogram of prompt lengths
    output_tokens: str | None = None  # for engines without a histogram of answer lengths
    failed_transfers: str | None = None  # failed KV transfers to this engine
    heartbeat: str | None = None  # grows for as long as the process that serves the page is alive, whatever it does
    expired_kv: str | None = None  # prompts whose KV no engine fetched from this one in time, counted on each rank
    # histograms
    ttft: str
    inter_token: str | None = None
    tpot: str | None = None  # one sample per request: the mean gap
    request_input_tokens: str | None = None
    request_output_tokens: str | None = None
    request_computed_tokens: str | None = None  # prompt tokens really computed, without cache hits
    transfer: str | None = None  # KV transfer times; where it is a gauge, of the newest alone
    transfer_unit_seconds: float = 1.0

    born_late: bool = False  # counters and histograms appear with the first request only
    port: int = 8000
    path: str = "/metrics"
    needs: str = ""
    other_names: tuple[tuple[str, str], ...] = ()
    # Whether `running` and `waiting` are current, a prompt in prefill included, and `kv_usage` is 0 once
    # neither a request nor another engine needs any KV.
    tells_when_idle: bool = False
    # Whether `running` is 0 within half a minute after the last request, if no request waits for KV.
    settles_when_idle: bool = False

    @property
    def per_token(self) -> str | None:
        """The histogram of times per output token, with one sample per request if the engine has such a one."""
        return self.tpot or self.inter_token

    @property
    def scaling_needs(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Signals without which a pool's load is unknown, as (signal, series), any one of which is enough."""
        needs = (
            ("running requests", (self.running,)),
            ("waiting requests", (self.waiting,)),
            ("KV use", (self.kv_usage,)),
            ("finished requests", (self.finished,)),
            ("prompt lengths", (self.request_input_tokens, self.input_tokens)),
            ("TTFT", (self.ttft,)),
        )
        return tuple((signal, tuple(name for name in names if name is not None)) for signal, names in needs)

    @property
    def also_expected(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Signals reported as missing if a page lacks them, though scaling can do without; as in `scaling_needs`."""
        signals = (
            ("answer lengths", (self.request_output_tokens, self.output_tokens)),
            ("times per output token", (self.tpot, self.inter_token)),
            ("hits in the prefix cache", (self.prefix_hits, self.request_computed_tokens, self.hit_rate)),
        )
        told_apart = () if self.waiting_by_reason is None else (("waiting by reason", (self.waiting_by_reason,)),)
        return tuple((s, tuple(name for name in names if name is not None)) for s, names in (*signals, *told_apart))

    @property
    def names(self) -> tuple[str, ...]:
        """All names, those of other versions included."""
        kinds = (
            *(self.running, self.waiting, self.kv_usage, self.waiting_by_reason, *self.waiting_for_kv, self.startup),
            *(self.loading, self.hit_rate, self.finished, self.prefix_queries, self.prefix_hits, self.input_tokens),
            *(
                self.output_tokens,
                self.failed_transfers,
                self.expired_kv,
                self.heartbeat,
                self.ttft,
                self.inter_token,
                self.tpot,
                self.request_input_tokens,
            ),
            *(self.request_output_tokens, self.request_computed_tokens, self.transfer),
            *(name for _, name in self.other_names),
        )
        return tuple(sorted({name for name in kinds if name is not None}))

    def as_shown(self, shows: Callable[[str], bool]) -> EngineSeries:
        """The names that a page shows: other versions' if it has only those, inter-token times if it has no TPOT."""
        found: dict[str, str | None] = {
            field: name
            for field, name in self.other_names
            if shows(name) and not ((usual := getattr(self, field)) and shows(usual))
        }
        tpot, gaps = found.get("tpot", self.tpot), found.get("inter_token", self.inter_token)
        if tpot is not None and gaps is not None and not shows(tpot) and shows(gaps):
            found["tpot"] = None
        return replace(self, **found) if found else self  # type: ignore[arg-type]
