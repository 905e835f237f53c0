"""Metric names of SGLang by version (`srt/observability/metrics_collector.py`, older: `srt/metrics/collector.py`).

Before 0.5.20 prompts and answers have histograms only with `--collect-tokens-histogram`; without it, counters give the
means.
"""

from __future__ import annotations

from weft.engines.terms.series import EngineSeries
from weft.engines.terms.versions import parse_version

_RENAMED = parse_version("0.5.23")  # in a release after 0.5.15, which does not have it yet


def sglang_series(version: str) -> EngineSeries:
    """The names that an SGLang version exposes with `--enable-metrics`."""
    new = parse_version(version) >= _RENAMED
    return EngineSeries(
        running="sglang:num_running_reqs",
        waiting="sglang:num_queue_reqs",
        kv_usage="sglang:token_usage",
        waiting_for_kv=(
            # either name: versions in between may have any
            *("sglang:num_prefill_bootstrap_queue_reqs", "sglang:num_prefill_prealloc_queue_reqs"),
            *("sglang:num_prefill_inflight_queue_reqs", "sglang:num_decode_prealloc_queue_reqs"),
            "sglang:num_decode_transfer_queue_reqs",
        ),
        startup="sglang:engine_startup_time",
        loading="sglang:engine_load_weights_time",
        hit_rate="sglang:cache_hit_rate",
        # Also those cancelled while they run, which `num_aborted_requests_total` would count twice.
        finished="sglang:num_requests_total",
        prefix_queries="sglang:prompt_tokens_total",
        prefix_hits="sglang:cached_tokens_total",
        input_tokens="sglang:prompt_tokens_total",
        output_tokens="sglang:generation_tokens_total",
        heartbeat="sglang:process_cpu_seconds_total",  # seen in 0.5.15, of the tokenizer process, which serves the page
        ttft="sglang:time_to_first_token_seconds",
        inter_token="sglang:inter_token_latency_seconds",  # noqa: S106 - a name of a metric
        tpot="sglang:request_time_per_output_token_seconds" if new else None,
        request_input_tokens="sglang:prompt_tokens_histogram",
        request_output_tokens="sglang:generation_tokens_histogram",
        transfer="sglang:kv_transfer_latency_ms",
        transfer_unit_seconds=0.001,
        port=30000,
        born_late=True,
        settles_when_idle=True,  # an idle scheduler updates its gauges every 30 s (`check_memory`)
        needs="--enable-metrics",
        other_names=(("tpot", "sglang:request_time_per_output_token_seconds"),),
    )
