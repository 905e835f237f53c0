"""Shapes of TensorRT-LLM: attention whole on each GPU or cut over all of them, in one pod or in one MPI world."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.shaping.cases import A100, B200, DEEPSEEK, GB200, H200, LLAMA_8B, LLAMA_405B, MI300X, QWEN_MOE, Wish
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import DomainRule, EngineSpec, PlacementSpec, ShapePins
from weft.domain.texts.units import MIB
from weft.domain.workload import Role
from weft.shaping import Supply

NAMED = EngineSpec(name=EngineName.TensorRTLLM)
CPU = Supply("cpu", 65536 * MIB, domain_gpus=1, gpus_per_node=1)


def named(model: str, *supplies: Supply, **fields: Any) -> Wish:  # noqa: ANN401 - fields of Wish
    """A pool that names the engine."""
    return Wish(model, supplies, engine=NAMED, **fields)


@pytest.mark.parametrize("supply", [H200, B200, GB200, A100], ids=lambda each: each.accelerator)
def test_a_pool_that_names_it_is_planned_on_it(supply: Supply) -> None:
    plan = named(LLAMA_8B, supply).plan()
    assert plan.shape.engine is EngineName.TensorRTLLM
    assert plan.engine.image == "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("supply", [H200, GB200], ids=lambda each: each.accelerator)
def test_every_plan_is_one_that_can_be_started(supply: Supply, role: Role) -> None:
    plan = named(QWEN_MOE, supply, role=role, rate=50).plan()
    refused = {Reason.ShapeInvalid, Reason.EngineUnsupported, Reason.ContextNotShared, Reason.PromptNotShared}
    for shape in (plan.shape, *(each.shape for each in plan.alternatives if each.verdict.reason not in refused)):
        assert 1 in {shape.tensor_parallel, shape.data_parallel}
        assert shape.decode_context_parallel == shape.prefill_context_parallel == 1


def test_experts_may_have_ranks_with_attention_of_their_own() -> None:
    pins = ShapePins(tensor_parallel=1, data_parallel=8)
    assert named(DEEPSEEK, H200, pins=pins).plan().shape.data_parallel == 8


@pytest.mark.parametrize(
    ("pins", "words"),
    [
        (ShapePins(tensor_parallel=2, data_parallel=4), "not TP 2 x DP 4; allowed: TP 1 or DP 1"),
        (
            ShapePins(tensor_parallel=8, decode_context_parallel=8),
            "prefix reuse in both halves, which plans count on; allowed: 1",
        ),
    ],
    ids=["tensor-and-data", "shared-context"],
)
def test_a_pinned_shape_that_it_does_not_have_is_refused(pins: ShapePins, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        named(DEEPSEEK, H200, pins=pins).plan()
    assert refused.value.reason is Reason.ShapeInvalid
    assert refused.value.message.endswith(words)


@pytest.mark.parametrize(
    "wish",
    [
        named(DEEPSEEK, replace(GB200, memory_bytes=120 * 10**9)),
        named(LLAMA_405B, replace(H200, memory_bytes=80 * 10**9), placement=PlacementSpec(domain=DomainRule.Preferred)),
    ],
    ids=["ranks", "stages"],
)
def test_a_model_that_no_node_holds_gets_several_pods(wish: Wish) -> None:
    shape = wish.plan().shape
    assert shape.engine is EngineName.TensorRTLLM
    assert shape.pods > 1
    assert shape.gpus == shape.pods * shape.gpus_per_pod


@pytest.mark.parametrize("supply", [MI300X, CPU], ids=lambda each: each.accelerator)
def test_accelerators_without_an_image_are_refused(supply: Supply) -> None:
    told = f"TensorRTLLM does not run on {supply.accelerator}; allowed: spec.engine.name VLLM.*, or another accelerator"
    with pytest.raises(Invalid, match=f"^{told}$") as refused:
        named(LLAMA_8B, supply).plan()
    assert refused.value.reason is Reason.EngineUnsupported


def test_a_checkpoint_is_not_quantised_while_it_is_loaded() -> None:
    """Other engines make FP8 of 16 bits."""
    with pytest.raises(Invalid, match="stored as FP8"):
        named(LLAMA_8B, H200, precision=Precision.FP8).plan()
    assert Wish(LLAMA_8B, (H200,), precision=Precision.FP8).plan().shape.precision is Precision.FP8


def test_a_version_outside_of_the_known_ones_is_refused() -> None:
    with pytest.raises(Invalid) as refused:
        Wish(LLAMA_8B, engine=replace(NAMED, version="1.1.0")).plan()
    assert refused.value.reason is Reason.EngineUnsupported
    assert Wish(LLAMA_8B, engine=replace(NAMED, version="1.3.0rc14")).plan().engine.image.endswith(":1.3.0rc14")
