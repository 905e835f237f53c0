"""The catalog's models are the published ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.catalog.configs import windows
from tests.yardstick import assert_quick
from weft.catalog import KnownModel, load, parameter_count
from weft.catalog.parameters import embedding_parameters, expert_parameters
from weft.domain.hardware import Precision
from weft.domain.model import Block, GroupedAttention, LatentAttention, LinearAttention

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.model import Architecture

MODELS = load().models


def known(model_id: str) -> Architecture:
    found = load().architecture(model_id)
    assert found is not None, model_id
    return found


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.model_id)
def test_parameters_are_within_two_percent_of_the_published_count(model: KnownModel) -> None:
    assert parameter_count(model.architecture) == pytest.approx(model.parameters, rel=0.02)


@pytest.mark.parametrize(
    ("model_id", "billions"),
    [
        ("DeepSeek-V3", 37),
        ("Kimi-K2-Instruct", 32),
        ("Qwen3-235B-A22B", 22),
        ("Qwen3-Coder-480B-A35B-Instruct", 35),
        ("Qwen3.5-397B-A17B", 17),
        ("gpt-oss-120b", 5.1),
        ("gpt-oss-20b", 3.6),
        ("Mixtral-8x7B-Instruct-v0.1", 12.9),
        ("Mixtral-8x22B-Instruct-v0.1", 39),
        ("GLM-4.5", 32),
        ("GLM-4.5-Air", 12),
        ("GLM-5", 40),
        ("MiniMax-M2", 10),
        ("gemma-4-26B-A4B", 3.8),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 3.2),
        ("NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 12),
        ("NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 55),
        ("Llama-4-Scout-17B-16E-Instruct", 17),
        ("Llama-4-Maverick-17B-128E-Instruct", 17),
    ],
)
def test_active_parameters_are_within_five_percent_of_the_published_count(model_id: str, billions: float) -> None:
    """Published counts differ in whether they have the embedding table or the LM head; either may be meant."""
    architecture = known(model_id)
    experts, table = architecture.experts, architecture.vocabulary * architecture.hidden
    idle = experts.count - experts.per_token if experts else 0
    unmet = architecture.expert_layers * idle * expert_parameters(architecture.hidden, experts) if experts else 0
    active = parameter_count(architecture) - unmet - embedding_parameters(architecture) + table
    counts = [active, active + table, active - table]
    assert min(abs(count / (billions * 1e9) - 1) for count in counts) < 0.05


def _has(kind: type) -> Callable[[Architecture], bool]:
    return lambda architecture: any(isinstance(block.mixer, kind) for block in architecture.blocks)


@pytest.mark.parametrize(
    ("least", "is_of_the_kind"),
    [
        (15, lambda architecture: architecture.experts is None),
        (15, lambda architecture: architecture.experts is not None),
        (4, lambda architecture: architecture.is_latent),
        (6, lambda architecture: any(window is not None for window in windows(architecture))),
        (8, _has(LinearAttention)),
        (2, lambda architecture: any(block.feed_forward is None for block in architecture.blocks)),
    ],
    ids=["dense", "experts", "latent", "windows", "hybrid", "halves"],
)
def test_each_kind_of_model_is_known(least: int, is_of_the_kind: Callable[[Architecture], bool]) -> None:
    assert sum(is_of_the_kind(model.architecture) for model in MODELS) >= least


def test_many_models_are_known_and_some_of_them_see() -> None:
    assert len(MODELS) >= 50
    seeing = {"Qwen3-VL-235B-A22B-Instruct", "Llama-4-Scout-17B-16E-Instruct", "gemma-3-27b-it", "Kimi-K2.5"}
    assert seeing <= {model.model_id.rpartition("/")[2] for model in MODELS}


def test_ids_and_aliases_name_one_model_each_with_and_without_the_organisation() -> None:
    names = [name for model in MODELS for name in model.names]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.3-70B-Instruct"),
        ("llama-3.3-70b-instruct", "meta-llama/Llama-3.3-70B-Instruct"),
        ("meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.3-70B-Instruct"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3"),
        ("QWEN/qwen3-32b", "Qwen/Qwen3-32B"),
    ],
)
def test_a_model_is_found_by_id_alias_and_without_its_organisation(model_id: str, expected: str) -> None:
    assert known(model_id).model_id == expected


def test_an_unknown_model_is_none() -> None:
    assert load().architecture("somebody/else") is None
    assert load().architecture("") is None


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("gpt-oss-120b", {128: 18, None: 18}),
        ("gemma-3-27b-it", {1024: 52, None: 10}),
        ("gemma-2-27b-it", {4096: 23, None: 23}),
        ("gemma-4-31B-it", {1024: 50, None: 10}),
        ("Llama-4-Scout-17B-16E-Instruct", {8192: 36, None: 12}),
        ("Phi-3-mini-4k-instruct", {2047: 32}),
        ("Qwen3.5-27B", {None: 16}),
        ("Mistral-7B-Instruct-v0.3", {None: 32}),
    ],
)
def test_windows_are_in_the_published_layers(model_id: str, expected: dict[int | None, int]) -> None:
    assert windows(known(model_id)) == expected


@pytest.mark.parametrize(
    ("model_id", "heads", "kv_heads", "head_dim"),
    [
        ("Llama-2-7b-chat-hf", 32, 32, 128),
        ("Llama-3.2-1B-Instruct", 32, 8, 64),
        ("Qwen2.5-7B-Instruct", 28, 4, 128),
        ("Qwen3-0.6B", 16, 8, 128),
        ("Mistral-Small-24B-Instruct-2501", 32, 8, 128),
        ("Mistral-Large-Instruct-2407", 96, 8, 128),
        ("phi-4", 40, 10, 128),
        ("GLM-4.5", 96, 8, 128),
        ("MiniMax-M2", 48, 8, 128),
        ("Qwen3-Next-80B-A3B-Instruct", 16, 2, 256),
        ("Nemotron-H-56B-Base-8K", 64, 8, 128),
    ],
)
def test_heads_are_the_published_ones(model_id: str, heads: int, kv_heads: int, head_dim: int) -> None:
    mixers = {block.mixer for block in known(model_id).blocks}
    (attention,) = [mixer for mixer in mixers if isinstance(mixer, GroupedAttention)]
    assert (attention.heads, attention.kv_heads, attention.head_dim) == (heads, kv_heads, head_dim)


def test_a_selector_stands_before_latent_attention_and_may_be_shared() -> None:
    def selecting(block: Block) -> bool:
        mixer = block.mixer
        return isinstance(mixer, LatentAttention) and mixer.selector is not None and mixer.selector.heads > 0

    layers = {
        model_id: sum(block.count for block in known(model_id).blocks if selecting(block))
        for model_id in ("DeepSeek-V3", "DeepSeek-V3.2", "GLM-5", "GLM-5.3")
    }
    assert layers == {"DeepSeek-V3": 0, "DeepSeek-V3.2": 61, "GLM-5": 78, "GLM-5.3": 21}


def test_a_pruned_llama_lacks_attention_in_some_layers() -> None:
    blocks = known("Llama-3_3-Nemotron-Super-49B-v1").blocks
    assert sum(block.count for block in blocks) == 80
    assert sum(block.count for block in blocks if block.mixer is None) == 31


def test_published_precisions_are_read_from_the_quantisation() -> None:
    precisions = {model.model_id: model.architecture.checkpoint_precision for model in MODELS}
    assert precisions["deepseek-ai/DeepSeek-V3"] is Precision.FP8
    assert precisions["moonshotai/Kimi-K2-Instruct"] is Precision.FP8
    assert precisions["moonshotai/Kimi-K2.5"] is Precision.INT4
    assert precisions["openai/gpt-oss-120b"] is Precision.MXFP4
    assert precisions["Qwen/Qwen3-32B"] is Precision.BF16
    assert precisions["meta-llama/Llama-2-7b-chat-hf"] is Precision.BF16


def test_the_architecture_of_a_model_is_read_once() -> None:
    assert known("Qwen3-8B") is known("qwen/qwen3-8b")


def test_loading_is_quick() -> None:
    """Every command line waits for it: a tenth of a second where a yard takes 50 microseconds."""
    assert_quick(load.__wrapped__, yards=2000)
