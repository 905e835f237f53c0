"""What mixers keep, read and compute for a token, on one GPU."""

from __future__ import annotations

import pytest

from tests.perf.replicas import CATALOG, architecture
from weft.domain.hardware import Precision
from weft.perf.attention import Reading, looked_at, readings

KV = Precision.BF16.bytes_per_weight


def of(model_id: str, tensor: int = 1) -> tuple[Reading, ...]:
    return readings(architecture(model_id), tensor, KV)


def read_bytes(model_id: str, context: float) -> float:
    return sum(reading.decode_bytes(context) for reading in of(model_id))


def test_latent_attention_with_all_heads_is_bound_by_compute_and_with_an_eighth_by_memory() -> None:
    """Intensity 1.9 x heads FLOP/byte: 242 with 128 heads, above what Hopper can feed; 30 with 16."""
    h200 = CATALOG.accelerator("H200")
    balance = (h200.peak_flops(Precision.BF16) or 0.0) / h200.memory_bandwidth
    for tensor, intensity in ((1, 242), (8, 30)):
        for reading in of("DeepSeek-V3", tensor):
            assert reading.decode_flops / reading.token_bytes == pytest.approx(intensity, rel=0.01)
    assert 30 < balance < 242


def test_a_selector_caps_what_attention_reads_but_not_what_it_selects_from() -> None:
    """From 32k to 64k tokens, latent attention reads twice as much; behind a selector only the small keys double."""
    plain = read_bytes("DeepSeek-V3", 65536) - read_bytes("DeepSeek-V3", 32768)
    sparse = read_bytes("DeepSeek-V3.2", 65536) - read_bytes("DeepSeek-V3.2", 32768)
    assert plain == 61 * 32768 * 576 * 2
    assert sparse == 61 * 32768 * 132


def test_layers_that_borrow_a_selection_read_what_it_picked_and_select_nothing() -> None:
    """2048 tokens in all of 78 layers, and the keys of the whole context in the 21 that select."""
    assert read_bytes("GLM-5.3", 65536) == 78 * 2048 * 576 * 2 + 21 * 65536 * 132
    assert sum(reading.layers for reading in of("GLM-5.3") if reading.index_flops) == 21


def test_a_recurrence_takes_as_much_for_a_token_after_a_long_context_as_after_a_short_one() -> None:
    recurrent = [reading for reading in of("Qwen3-Next-80B-A3B-Instruct") if reading.state_bytes]
    assert [reading.layers for reading in recurrent] == [36]
    assert recurrent[0].decode_bytes(1) == recurrent[0].decode_bytes(100_000) == 36 * 2 * recurrent[0].state_bytes
    assert recurrent[0].decode_operations(1) == recurrent[0].decode_operations(100_000) > 0
    assert recurrent[0].prefill_operations(2000, 0) == 2 * recurrent[0].prefill_operations(1000, 5000)


def test_a_layer_without_attention_costs_nothing_of_it() -> None:
    assert sum(reading.layers for reading in of("Llama-3_3-Nemotron-Super-49B-v1")) == 49
    assert sum(reading.layers for reading in of("NVIDIA-Nemotron-3-Super-120B-A12B-BF16")) == 48


@pytest.mark.parametrize(
    ("new", "cached", "at_most", "expected"),
    [
        (100, 0, 1000, 5000),
        (100, 50, 1000, 10_000),
        (100, 0, 10, 50 + 90 * 10),
        (100, 500, 10, 1000),
        (100, 5, 10, 5 * 5 + 12.5 + 95 * 10),
    ],
)
def test_prompt_tokens_look_at_those_before_them_within_the_window(
    new: float, cached: float, at_most: float, expected: float
) -> None:
    assert looked_at(new, cached, at_most) == expected
