"""The catalog's models are the published ones."""

from __future__ import annotations

import pytest

from weft.catalog import KnownModel, load, parameter_count
from weft.domain.hardware import Precision

MODELS = load().models


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.architecture.model_id)
def test_parameters_are_within_two_percent_of_the_published_count(model: KnownModel) -> None:
    assert parameter_count(model.architecture) == pytest.approx(model.parameters, rel=0.02)


def test_ten_models_of_different_kinds_are_known() -> None:
    architectures = [model.architecture for model in MODELS]
    assert len(architectures) == 10
    assert any(each.latent for each in architectures)
    assert any(each.window_tokens for each in architectures)
    assert any(each.experts for each in architectures)
    assert any(each.experts is None for each in architectures)


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"),
        ("llama-3.3-70b-instruct", "meta-llama/Llama-3.3-70B-Instruct"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3"),
        ("QWEN/qwen3-32b", "Qwen/Qwen3-32B"),
    ],
)
def test_a_model_is_found_by_id_alias_and_without_its_organisation(model_id: str, expected: str) -> None:
    found = load().architecture(model_id)
    assert found is not None
    assert found.model_id == expected


def test_an_unknown_model_is_none() -> None:
    assert load().architecture("somebody/else") is None
    assert load().architecture("") is None


def test_gpt_oss_has_a_window_in_every_second_layer_and_gemma_in_five_of_six() -> None:
    gpt_oss, gemma = load().architecture("gpt-oss-120b"), load().architecture("gemma-3-27b-it")
    assert gpt_oss is not None
    assert gemma is not None
    assert (gpt_oss.window_tokens, gpt_oss.window_layers) == (128, 18)
    assert (gemma.window_tokens, gemma.window_layers) == (1024, 52)


def test_published_precisions_are_read_from_the_quantisation() -> None:
    precisions = {model.architecture.model_id: model.architecture.checkpoint_precision for model in MODELS}
    assert precisions["deepseek-ai/DeepSeek-V3"] is Precision.FP8
    assert precisions["openai/gpt-oss-120b"] is Precision.MXFP4
    assert precisions["Qwen/Qwen3-32B"] is Precision.BF16
