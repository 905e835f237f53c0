"""How fast KV leaves a prefill GPU, by what carries it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.perf.replicas import CATALOG, replica
from weft.domain.hardware import Precision
from weft.perf import handed_over_seconds, sent_bytes_per_second

H100 = replica("llama-3.1-8b", "H100", Precision.BF16)
KV_BYTES = 2 * 32 * 8 * 128 * 2  # of a token


def over(wire: str) -> float:
    return sent_bytes_per_second(replace(H100, wire=wire))


def test_tcp_takes_memory_of_a_gpu_through_the_host() -> None:
    assert over("TCP") < over("RDMA") / 10
    assert over("EFA") == over("RDMA") < over("NVLink")


def test_a_prompt_over_tcp_takes_as_long_as_all_its_kv() -> None:
    """8,192 tokens of Llama 8B are a gigabyte: two thirds of a second, where UCX's defaults took two seconds."""
    seconds = handed_over_seconds(replace(H100, wire="TCP"), 8192)
    assert seconds == pytest.approx(8192 * KV_BYTES / over("TCP"), abs=0.05)
    assert 0.5 < seconds < 1.0


def test_a_nic_that_is_slower_than_the_host_bounds_tcp_too() -> None:
    slow = replace(H100.accelerator, network_bandwidth=1e9)
    assert sent_bytes_per_second(replace(H100, accelerator=slow, wire="TCP")) == pytest.approx(0.9e9)


def test_cpus_send_without_copies() -> None:
    cpu = replace(H100, accelerator=CATALOG.accelerator("cpu"))
    assert sent_bytes_per_second(replace(cpu, wire="TCP")) == sent_bytes_per_second(replace(cpu, wire="RDMA"))
