"""Metric names of vLLM by version (`vllm/v1/metrics/loggers.py`)."""

from __future__ import annotations

from weft.engines.terms.series import EngineSeries
from weft.engines.terms.versions import parse_version

# Names of the same in older and newer versions, or with --show-hidden-metrics-for-version.
_OTHER_NAMES = (
    ("kv_usage", "vllm:kv_cache_usage_perc"),
    ("kv_usage", "vllm:gpu_cache_usage_perc"),
    ("prefix_queries", "vllm:prefix_cache_queries_total"),
    ("prefix_queries", "vllm:gpu_prefix_cache_queries_total"),
    ("prefix_hits", "vllm:prefix_cache_hits_total"),
    ("prefix_hits", "vllm:gpu_prefix_cache_hits_total"),
    ("inter_token", "vllm:inter_token_latency_seconds"),
    ("inter_token", "vllm:time_per_output_token_seconds"),
    ("tpot", "vllm:request_time_per_output_token_seconds"),
    ("waiting_by_reason", "vllm:num_requests_waiting_by_reason"),
    ("request_computed_tokens", "vllm:request_prefill_kv_computed_tokens"),
    ("failed_transfers", "vllm:nixl_num_failed_transfers_total"),
    ("expired_kv", "vllm:nixl_num_kv_expired_reqs_total"),
    ("transfer", "vllm:nixl_xfer_time_seconds"),
    ("transfer", "vllm:mooncake_xfer_time_seconds"),
)


def vllm_series(version: str) -> EngineSeries:
    """The names that a vLLM version exposes without `--show-hidden-metrics-for-version`."""
    number = parse_version(version)

    def since(first: str, name: str) -> str | None:
        return f"vllm:{name}" if number >= parse_version(first) else None

    return EngineSeries(
        running="vllm:num_requests_running",
        waiting="vllm:num_requests_waiting",
        kv_usage=since("0.9.2", "kv_cache_usage_perc") or "vllm:gpu_cache_usage_perc",
        waiting_by_reason=since("0.20.2", "num_requests_waiting_by_reason"),
        finished="vllm:request_success_total",
        prefix_queries=since("0.9.2", "prefix_cache_queries_total") or "vllm:gpu_prefix_cache_queries_total",
        prefix_hits=since("0.9.2", "prefix_cache_hits_total") or "vllm:gpu_prefix_cache_hits_total",
        failed_transfers=since("0.11.2", "nixl_num_failed_transfers_total"),
        expired_kv=since("0.15.1", "nixl_num_kv_expired_reqs_total"),
        heartbeat="process_cpu_seconds_total",  # from Python's client; missing with several API servers
        ttft="vllm:time_to_first_token_seconds",
        inter_token=since("0.10.2", "inter_token_latency_seconds") or "vllm:time_per_output_token_seconds",
        tpot=since("0.11.2", "request_time_per_output_token_seconds"),
        request_input_tokens="vllm:request_prompt_tokens",
        request_output_tokens="vllm:request_generation_tokens",
        request_computed_tokens=since("0.13.0", "request_prefill_kv_computed_tokens"),
        transfer=since("0.11.2", "nixl_xfer_time_seconds"),
        other_names=_OTHER_NAMES,
        settles_when_idle=True,
        tells_when_idle=True,  # cached blocks count as free, but not those that a decode engine has yet to pull
    )
