"""A NIM of one model: the profile that its user names decides which shapes are planned with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shaping.cases import B200, CATALOG, H200, LLAMA_8B, LLAMA_70B, MI300X, Wish
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, ShapePins
from weft.shaping import choose
from weft.shaping.choice import what_matters, wish_of

PLAIN = EngineSpec(EngineName.VLLM, "0.31.0")


def by(profile: str | None, tag: str = "2.1.5") -> EngineSpec:
    env = (("NIM_LOG_LEVEL", "INFO"), *((("NIM_MODEL_PROFILE", profile),) if profile is not None else ()))
    return replace(PLAIN, image=f"nvcr.io/nim/meta/llama-3.1-8b-instruct:{tag}", env=env)


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_the_shape_has_the_sizes_of_the_profile(tensor: int) -> None:
    """Also where another one would be cheaper, as one GPU is for this model."""
    shape = Wish(LLAMA_8B, (H200,), engine=by(f"vllm-bf16-tp{tensor}-pp1")).plan().shape
    assert (shape.tensor_parallel, shape.gpus, shape.pods) == (tensor, tensor, 1)
    assert Wish(LLAMA_8B, (H200,), engine=PLAIN).plan().shape.gpus == 1


def test_the_accelerator_is_that_of_the_profile() -> None:
    assert Wish(LLAMA_8B, (H200, B200), engine=by("vllm-nvidia-b200-bf16-tp1-pp1")).plan().shape.accelerator == "B200"
    assert Wish(LLAMA_8B, (H200, B200), engine=by("vllm-nvidia-h200-bf16-tp1-pp1")).plan().shape.accelerator == "H200"


def test_the_precision_of_the_profile_has_to_be_that_of_the_model() -> None:
    wish = Wish(LLAMA_8B, (H200,), engine=by("vllm-fp8-tp1-pp1-18.0"))
    assert replace(wish, precision=Precision.FP8).plan().shape.precision is Precision.FP8
    with pytest.raises(Invalid, match=r"has weights in FP8; allowed: spec\.model\.precision FP8$"):
        wish.plan()


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        (by(None), "a NIM of one model without NIM_MODEL_PROFILE in spec.engine.env is not supported"),
        (by(64 * "a"), "does not say engine, precision (bf16, fp8, mxfp4, nvfp4), TP and PP"),
        (by("sglang-bf16-tp1-pp1"), "allowed: spec.engine.name SGLang"),
        (by("vllm-bf16-tp1-pp1-feat_lora"), "is for adapters"),
        (by("vllm-nvidia-h300-bf16-tp1-pp1"), "is for nvidia-h300, which Weft does not know"),
    ],
    ids=["none", "id", "engine", "adapters", "gpu"],
)
def test_nothing_is_planned_without_a_profile_that_says_what_it_is(engine: EngineSpec, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        Wish(LLAMA_8B, (H200,), engine=engine).plan()
    assert refused.value.reason is Reason.EngineUnsupported
    assert (words in refused.value.message, refused.value.message.count("; allowed: ")) == (True, 1)


def test_sizes_that_no_shape_has_are_said_once() -> None:
    """Pipelines are planned where one stage does not hold the model, or where they are pinned."""
    wish = Wish(LLAMA_8B, (H200, MI300X), engine=by("vllm-bf16-tp1-pp2"))
    with pytest.raises(Invalid) as refused:
        wish.plan()
    assert refused.value.message.count("; allowed: spec.shape.tensorParallel 1 and pipelineParallel 2") == 1
    assert replace(wish, pins=ShapePins(pipeline_parallel=2)).plan().shape.pipeline_parallel == 2


def test_a_profile_too_small_for_the_model_is_refused_for_its_memory() -> None:
    with pytest.raises(Invalid) as refused:
        Wish(LLAMA_70B, (H200,), engine=by("vllm-bf16-tp1-pp1")).plan()
    assert refused.value.reason is Reason.ModelDoesNotFit


def test_another_profile_is_another_wish_and_other_variables_are_not() -> None:
    one, other = (Wish(LLAMA_8B, (H200,), engine=by(f"vllm-bf16-tp{size}-pp1")).request() for size in (1, 2))
    quiet = replace(one.spec, engine=replace(one.spec.engine, env=one.spec.engine.env[1:]))
    assert wish_of(one.spec) != wish_of(other.spec)
    assert wish_of(one.spec) == wish_of(quiet)
    assert what_matters(one) != what_matters(other)
    assert choose(other, CATALOG).shape.gpus == 2


def test_releases_that_are_not_driven_are_planned_as_before() -> None:
    """What refuses them says what they are."""
    assert Wish(LLAMA_8B, (H200,), engine=by(None, tag="1.8.6")).plan().shape.gpus == 1
