"""Requests longer than the model's context are refused where the shape is chosen, by field, value and limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shaping.cases import LLAMA_8B, Wish
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.spec import EngineSpec
from weft.domain.workload import Workload
from weft.shaping import refuse_lengths

CONTEXT = 131072  # of Llama 3.1
LONG = Workload(1.0, 1000, 200, input_tokens_p95=2 * CONTEXT, output_tokens_p95=2 * CONTEXT)


def refused(workload: Workload, most: int | None = None, engine: EngineSpec | None = None) -> str | None:
    """The sentence about a pool of Llama 3.1 8B with this traffic; None where it may be planned."""
    request = Wish(LLAMA_8B, max_context_tokens=most, engine=engine or EngineSpec()).request()
    try:
        refuse_lengths(replace(request.spec, workload=workload), request.architecture)
    except Invalid as error:
        assert error.reason is Reason.ContextExceeded  # noqa: PT017 - either outcome is a case here
        return error.message
    return None


def means(prompt: float, answer: float) -> Workload:
    return replace(LONG, input_tokens=prompt, output_tokens=answer)


@pytest.mark.parametrize(
    ("prompt", "answer", "field"),
    [
        (CONTEXT - 1, 1, None),
        (1, CONTEXT - 1, None),
        (CONTEXT // 2, CONTEXT // 2, None),
        (CONTEXT, 1, "inputTokens.mean 131072: "),
        (1, CONTEXT, "outputTokens.mean 131072: "),
        (CONTEXT // 2, CONTEXT // 2 + 1, "inputTokens.mean 65536 and spec.workload.outputTokens.mean 65537 are 131073"),
    ],
)
def test_a_mean_request_fits_into_the_context_to_the_last_token(
    prompt: float, answer: float, field: str | None
) -> None:
    """An engine takes a prompt only with room for one token of an answer."""
    found = refused(means(prompt, answer))
    assert (found is None) if field is None else (found or "").startswith(f"spec.workload.{field}")


def test_a_percentile_is_refused_only_where_somebody_declared_it() -> None:
    assert refused(LONG) is None
    assert "inputTokens.p95 262144: " in (refused(replace(LONG, input_p95_declared=True)) or "")
    assert "outputTokens.p95 262144: " in (refused(replace(LONG, output_p95_declared=True)) or "")


def test_a_shorter_context_that_is_asked_for_is_the_limit() -> None:
    assert refused(means(900, 100), most=1000) is None
    assert "spec.model.maxModelLen allows 1000 tokens" in (refused(means(901, 100), most=1000) or "")


def test_a_longer_one_takes_an_engine_that_is_told_how() -> None:
    """Whoever writes the override knows how far it reaches; what is asked for on top still has to fit."""
    assert "spec.model.maxModelLen 131073" in (refused(means(10, 10), most=CONTEXT + 1) or "")
    for stretched in (
        EngineSpec(args=("--hf-overrides", "{}")),
        EngineSpec(args=("--hf_overrides.rope_scaling.factor=4",)),
        EngineSpec(env=(("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1"),)),
    ):
        assert refused(means(2 * CONTEXT, 10), engine=stretched) is None
        assert refused(means(10, 10), most=4 * CONTEXT, engine=stretched) is None
        assert "inputTokens.mean 2001" in (refused(means(2001, 10), most=2000, engine=stretched) or "")
    assert refused(means(2 * CONTEXT, 10), engine=EngineSpec(env=(("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "0"),)))
