"""Speculative decoding of a pool: what it means for the model, and for the shape that is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.shaping.cases import CATALOG, DEEPSEEK, H100, H200, LLAMA_8B, LLAMA_70B, Wish
from weft.catalog.families import FAMILIES
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, ShapePins
from weft.domain.workload import Slo
from weft.shaping.speculating import refuse_drafting_without_heads, resolve_speculation

if TYPE_CHECKING:
    from weft.perf.speculation import Speculation

LLAMA_1B = "meta-llama/Llama-3.2-1B-Instruct"


def drafting(method: str, tokens: int = 3, model: str | None = None) -> EngineSpec:
    named = f',"model":"{model}"' if model else ""
    return EngineSpec(EngineName.VLLM, speculative_json=f'{{"method":"{method}","tokens":{tokens}{named}}}')


def resolved(model_id: str, engine: EngineSpec) -> Speculation:
    architecture = CATALOG.architecture(model_id)
    assert architecture is not None
    found = resolve_speculation(engine, architecture, CATALOG)
    assert found is not None
    return found


def test_a_pool_that_drafts_nothing_has_no_speculation() -> None:
    architecture = CATALOG.architecture(LLAMA_8B)
    assert architecture is not None
    assert resolve_speculation(EngineSpec(), architecture, CATALOG) is None


def test_text_drafts_without_a_draft() -> None:
    found = resolved(LLAMA_8B, drafting("NGram", 5))
    assert (5, None) == (found.tokens, found.draft)


@pytest.mark.parametrize(
    ("engine", "layers", "precision"),
    [
        (drafting("MTP"), 1, None),
        (drafting("EAGLE3", model="x/eagle"), 1, Precision.BF16),
        (drafting("DraftModel", model=LLAMA_1B), 16, Precision.BF16),
        (drafting("DraftModel", model="x/unknown"), 8, None),
    ],
    ids=["mtp", "eagle", "known", "unknown"],
)
def test_each_method_drafts_with_layers_of_its_own(
    engine: EngineSpec, layers: int, precision: Precision | None
) -> None:
    """A model that the catalog does not know is taken for a tenth of the 80 layers."""
    draft = resolved(LLAMA_70B, engine).draft
    assert draft is not None
    assert (layers, precision) == (draft.architecture.layers, draft.precision)


@pytest.mark.parametrize(
    "model",
    [LLAMA_8B, "Qwen/Qwen2.5-32B-Instruct", "openai/gpt-oss-20b", "moonshotai/Kimi-K2.5", "google/gemma-3-27b-it"],
)
def test_drafting_by_heads_that_a_model_lacks_is_refused_with_what_drafts_for_it(model: str) -> None:
    """The engine would end: `Unsupported speculative method: 'mtp'`."""
    architecture = CATALOG.architecture(model)
    assert architecture is not None
    with pytest.raises(Invalid, match=r"has none; allowed: EAGLE3, DraftModel, NGram$") as refused:
        refuse_drafting_without_heads(drafting("MTP"), architecture, CATALOG)
    assert refused.value.reason is Reason.FeatureUnsupported
    for method in ("EAGLE3", "NGram"):
        refuse_drafting_without_heads(drafting(method), architecture, CATALOG)
    refuse_drafting_without_heads(EngineSpec(), architecture, CATALOG)


@pytest.mark.parametrize("model", [DEEPSEEK, "zai-org/GLM-4.6", "Qwen/Qwen3-Next-80B-A3B-Instruct", "GLM-4.7-Flash"])
def test_models_draft_by_heads_of_their_own(model: str) -> None:
    architecture = CATALOG.architecture(model)
    assert architecture is not None
    refuse_drafting_without_heads(drafting("MTP"), architecture, CATALOG)


def test_families_with_heads_are_families_that_the_catalog_reads() -> None:
    assert set(CATALOG.drafting["MTP"].families) <= {family.name for family in FAMILIES.values()}


def test_methods_of_the_resource_are_those_of_the_catalog() -> None:
    assert {"MTP", "EAGLE3", "DraftModel", "NGram"} == set(CATALOG.drafting)
    assert all(0 < method.acceptance < 1 for method in CATALOG.drafting.values())


def test_a_tight_target_per_token_is_met_with_fewer_gpus_by_drafting() -> None:
    """An 8B model that needs several GPUs for 6 ms a token needs one when a draft yields several a step."""
    wish = Wish(LLAMA_8B, (H100,), 1.0, Slo(tpot=((95, 0.006),)))
    alone, drafted = wish.plan(), replace(wish, engine=drafting("EAGLE3", model="x/eagle")).plan()
    assert 1 == drafted.shape.gpus < alone.shape.gpus


def test_drafting_from_text_costs_capacity_where_no_target_asks_for_speed() -> None:
    """Without a target replicas run full, and compute for tokens that are thrown away."""
    wish = Wish(LLAMA_70B, (H200,), slo=Slo(), pins=ShapePins(4), precision=Precision.FP8, input_tokens=200.0)
    alone, drafted = wish.plan().prediction, replace(wish, engine=drafting("NGram", 5)).plan().prediction
    assert drafted.capacity < alone.capacity


def test_the_weights_of_a_draft_count_for_what_fits() -> None:
    wish = Wish(DEEPSEEK, pins=ShapePins(8))
    alone, drafted = wish.plan().prediction, replace(wish, engine=drafting("MTP")).plan().prediction
    assert alone.weight_bytes_per_gpu < drafted.weight_bytes_per_gpu
    assert drafted.kv_tokens < alone.kv_tokens
    assert drafted.tpot.mean < alone.tpot.mean
