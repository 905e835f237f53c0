"""A host cache that could not keep one prompt is refused where the shape is chosen, however it is to be shared out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.shaping.cases import DEEPSEEK, LLAMA_8B, Wish
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.spec import KVSpec
from weft.domain.texts.units import MIB
from weft.shaping import refuse_a_host_cache_of_no_prompt

LLAMA_TOKEN = 2 * 32 * 8 * 128 * 2  # keys and values of 32 layers with 8 heads of 128, in 16 bits


def refused(size: str, model: str = LLAMA_8B, tokens: float = 1000.0, precision: Precision | None = None) -> str | None:
    """The sentence about a pool whose prompts have so many tokens; None where it may be planned."""
    request = Wish(model, kv=KVSpec(precision, offload_json=f'{{"size":"{size}"}}')).request()
    spec = replace(request.spec, workload=replace(request.workload, input_tokens=tokens))
    try:
        refuse_a_host_cache_of_no_prompt(spec, request.architecture)
    except Invalid as error:
        assert error.reason is Reason.SpecInvalid  # noqa: PT017 - either outcome is a case here
        return error.message
    return None


def test_a_forgotten_unit_is_told_with_the_least_that_is_allowed() -> None:
    least = math.ceil(1000 * LLAMA_TOKEN / MIB)
    assert (
        "spec.kvCache.offload.size 64 does not hold the KV of a prompt of 1000 tokens "
        "(spec.workload.inputTokens.mean); "
        f"allowed: at least {least}Mi for meta-llama/Llama-3.1-8B-Instruct, where a number without a unit is bytes"
    ) == refused("64")
    assert refused(f"{least - 1}Mi")
    assert refused(f"{least}Mi") is None


@pytest.mark.parametrize(
    ("size", "tokens", "precision"),
    [(str(500 * LLAMA_TOKEN), 500, None), (str(250 * LLAMA_TOKEN), 500, Precision.FP8), ("64Gi", 100_000, None)],
)
def test_what_holds_a_prompt_is_taken(size: str, tokens: int, precision: Precision | None) -> None:
    assert refused(size, tokens=tokens, precision=precision) is None


def test_windows_and_latent_attention_need_less() -> None:
    assert refused("500Mi", DEEPSEEK, tokens=5000) is None
    assert refused("300Mi", DEEPSEEK, tokens=5000)
    assert refused("2Gi", "google/gemma-3-27b-it", tokens=20_000) is None
    assert refused("2Gi", "Qwen/Qwen2.5-32B-Instruct", tokens=20_000)


def test_without_offloading_nothing_is_refused() -> None:
    request = Wish(LLAMA_8B).request()
    refuse_a_host_cache_of_no_prompt(request.spec, request.architecture)
