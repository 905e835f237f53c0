"""Metric names follow the version, as `vllm/v1/metrics/loggers.py` of each release has them."""

from __future__ import annotations

import pytest

from weft.domain.errors import Invalid
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.engines.terms.versions import parse_version


@pytest.mark.parametrize(
    ("version", "field", "name"),
    [
        ("0.9.1", "kv_usage", "vllm:gpu_cache_usage_perc"),
        ("0.10.2", "kv_usage", "vllm:kv_cache_usage_perc"),
        ("0.9.2", "inter_token", "vllm:time_per_output_token_seconds"),
        ("0.33.0", "inter_token", "vllm:inter_token_latency_seconds"),
        ("0.18.1", "waiting_by_reason", None),
        ("0.32.0+cpu", "waiting_by_reason", "vllm:num_requests_waiting_by_reason"),
        ("0.10.2", "tpot", None),
        ("0.33.0", "tpot", "vllm:request_time_per_output_token_seconds"),
        ("0.12.0", "request_computed_tokens", None),
        ("0.13.0", "request_computed_tokens", "vllm:request_prefill_kv_computed_tokens"),
        ("0.33.0", "transfer", "vllm:nixl_xfer_time_seconds"),
        ("0.11.0", "failed_transfers", None),
        ("0.11.2", "failed_transfers", "vllm:nixl_num_failed_transfers_total"),
        ("0.15.0", "expired_kv", None),
        ("0.15.1", "expired_kv", "vllm:nixl_num_kv_expired_reqs_total"),
        ("0.33.0", "finished", "vllm:request_success_total"),
    ],
)
def test_a_series_has_the_name_of_its_version(version: str, field: str, name: str | None) -> None:
    assert getattr(series_for(EngineName.VLLM, version), field) == name


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.33.0", (0, 33, 0)),
        ("v0.18.1", (0, 18, 1)),
        ("0.32.0+cpu", (0, 32, 0)),
        ("0.33", (0, 33, 0)),
        ("1.0rc1", (1, 0, 0)),
    ],
)
def test_versions_compare_as_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert parse_version(text) == numbers


def test_a_version_without_numbers_is_refused() -> None:
    with pytest.raises(Invalid):
        parse_version("latest")
