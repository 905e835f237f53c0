"""A host cache that could not keep one piece of KV is refused, however it is to be shared out."""

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
from weft.shaping import refuse_a_host_cache_that_keeps_nothing
from weft.shaping.host_kv import PIECE_TOKENS

LLAMA_TOKEN = 2 * 32 * 8 * 128 * 2  # keys and values of 32 layers with 8 heads of 128, in 16 bits


def refused(
    size: str | None, model: str = LLAMA_8B, tokens: float = 1000.0, precision: Precision | None = None
) -> str | None:
    """The sentence about a pool whose prompts have so many tokens; None where it may be planned."""
    offload = None if size is None else f'{{"size":"{size}"}}'
    request = Wish(model, kv=KVSpec(precision, offload_json=offload)).request()
    spec = replace(request.spec, workload=replace(request.workload, input_tokens=tokens))
    try:
        refuse_a_host_cache_that_keeps_nothing(spec, request.architecture)
    except Invalid as error:
        assert error.reason is Reason.SpecInvalid  # noqa: PT017 - either outcome is a case here
        return error.message
    return None


def test_a_forgotten_unit_is_told_with_the_least_that_is_allowed() -> None:
    least = math.ceil(PIECE_TOKENS * LLAMA_TOKEN / MIB)
    assert (
        "spec.kvCache.offload.size 64 does not hold the KV of 256 tokens; "
        f"allowed: at least {least}Mi for meta-llama/Llama-3.1-8B-Instruct, where a number without a unit is bytes"
    ) == refused("64")
    assert refused(f"{least - 1}Mi")
    assert refused(f"{least}Mi") is None


@pytest.mark.parametrize(
    ("size", "tokens", "precision"),
    [(str(100 * LLAMA_TOKEN), 100, None), (str(50 * LLAMA_TOKEN), 100, Precision.FP8), ("64Mi", 100_000, None)],
)
def test_what_holds_a_piece_or_a_short_prompt_is_taken(size: str, tokens: int, precision: Precision | None) -> None:
    """Beside prompts too long for it a tier may keep what they begin with, or shorter ones."""
    assert refused(size, tokens=tokens, precision=precision) is None


def test_latent_attention_needs_less() -> None:
    assert refused("20Mi", DEEPSEEK) is None
    assert refused("15Mi", DEEPSEEK)
    assert refused("20Mi", "Qwen/Qwen2.5-32B-Instruct")


def test_without_offloading_nothing_is_refused() -> None:
    assert refused(None) is None
