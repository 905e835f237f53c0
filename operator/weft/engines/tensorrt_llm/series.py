"""Metric names of TensorRT-LLM's `trtllm-serve` by version (`tensorrt_llm/metrics/collector.py`).

Its `/metrics` is JSON; the Prometheus format is on another path, and only with `return_perf_metrics: true`.
"""

from __future__ import annotations

from weft.engines.terms.series import EngineSeries
from weft.engines.terms.versions import release_order

_ITERATIONS = release_order("1.3.0rc12")  # PR #12545: gauges of each iteration
_TOKENS = release_order("1.3.0")  # on the main branch after 1.3.0rc12

# Exposed early by builds of the main branch, which carry the number of the previous candidate.
_OTHER_NAMES = (
    ("running", "trtllm_num_requests_running"),
    ("waiting", "trtllm_num_requests_waiting"),
    ("kv_usage", "trtllm_kv_cache_utilization"),
    ("hit_rate", "trtllm_kv_cache_hit_rate"),
    ("input_tokens", "trtllm_prompt_tokens_total"),
    ("output_tokens", "trtllm_generation_tokens_total"),
)


def tensorrt_llm_series(version: str) -> EngineSeries:
    """The names that a TensorRT-LLM version exposes with `return_perf_metrics` and `enable_iter_perf_stats`."""
    number = release_order(version)
    iterations, tokens = number >= _ITERATIONS, number >= _TOKENS
    return EngineSeries(
        running="trtllm_num_requests_running" if iterations else None,
        waiting="trtllm_num_requests_waiting" if iterations else None,
        kv_usage="trtllm_kv_cache_utilization" if iterations else None,
        hit_rate="trtllm_kv_cache_hit_rate" if iterations else None,
        finished="trtllm_request_success_total",
        input_tokens="trtllm_prompt_tokens_total" if tokens else None,
        output_tokens="trtllm_generation_tokens_total" if tokens else None,
        ttft="trtllm_time_to_first_token_seconds",
        tpot="trtllm_time_per_output_token_seconds",
        path="/prometheus/metrics",
        born_late=True,
        needs="return_perf_metrics: true and enable_iter_perf_stats: true",
        other_names=_OTHER_NAMES,
    )
