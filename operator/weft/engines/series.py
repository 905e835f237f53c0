"""Names of an engine's metrics, by what observation needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineSeries:
    """Exposed names of one engine version, all of which observation reads; None where the version has no such series.

    Gauges and counters are whole names (counters with `_total`). Histograms are base names, which `_bucket`, `_sum` and
    `_count` follow. Tokens and requests are counts, times seconds, `kv_usage` a fraction.
    """

    # gauges
    running: str
    waiting: str
    kv_usage: str
    waiting_by_reason: str | None  # label `reason`: `capacity` is the real queue, `deferred` waits for KV
    # counters
    finished: str  # label `finished_reason`; its rate is completed requests per second
    prefix_queries: str  # in tokens
    prefix_hits: str  # in tokens
    # histograms
    ttft: str
    inter_token: str
    tpot: str | None  # one sample per request: the mean gap
    request_input_tokens: str
    request_output_tokens: str
    request_computed_tokens: str | None  # prompt tokens really computed, after cache hits
    transfer: str | None  # KV transfer times of the pulling side

    @property
    def scaling_needs(self) -> tuple[str, ...]:
        """Series without which the load of a pool is unknown."""
        return (self.running, self.waiting, self.kv_usage, self.finished, self.request_input_tokens, self.ttft)
