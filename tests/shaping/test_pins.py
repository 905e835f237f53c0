"""What is pinned stays pinned; a pin that cannot be is refused by name with what is allowed."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shaping.cases import (
    B200,
    CATALOG,
    DEEPSEEK,
    GB200,
    H100,
    H200,
    LLAMA_8B,
    LLAMA_70B,
    LLAMA_405B,
    QWEN_MOE,
    SHARED,
    Wish,
)
from weft.domain.errors import Blocked, Invalid
from weft.domain.model import kv_copies
from weft.domain.reasons import Reason
from weft.domain.spec import DomainRule, PlacementSpec, ShapePins
from weft.domain.workload import Role
from weft.shaping import Supply, choose

PREFERRED = PlacementSpec(domain=DomainRule.Preferred)


def test_a_pinned_tensor_size_is_used() -> None:
    plan = Wish(LLAMA_8B, (H100,), pins=ShapePins(tensor_parallel=4)).plan()
    assert plan.shape.tensor_parallel == 4
    assert not plan.alternatives


def test_a_pinned_pair_of_stages_fits_one_pod() -> None:
    plan = Wish(LLAMA_8B, (H100,), pins=ShapePins(tensor_parallel=2, pipeline_parallel=2)).plan()
    assert (plan.shape.gpus, plan.shape.pods) == (4, 1)


def test_an_expert_group_may_be_pinned_alone() -> None:
    plan = Wish(DEEPSEEK, (GB200,), pins=ShapePins(expert_parallel=32)).plan()
    assert plan.shape.expert_parallel == 32
    assert plan.shape.gpus == 32


def test_an_expert_group_that_is_no_power_of_two_is_formed_by_data_parallel_ranks() -> None:
    """384 experts, and 12 trays of 4 GPUs."""
    plan = Wish("Kimi-K2-Instruct", (GB200,), pins=ShapePins(expert_parallel=48)).plan()
    assert (48, 48) == (plan.shape.expert_parallel, plan.shape.gpus)


def test_data_parallel_ranks_may_be_pinned() -> None:
    plan = Wish(DEEPSEEK, (H200,), pins=ShapePins(tensor_parallel=1, data_parallel=8)).plan()
    assert str(plan.shape) == "H200 FP8 TP1 DP8 EP8"


def test_pins_of_one_mean_one_for_a_dense_model_too() -> None:
    pins = ShapePins(tensor_parallel=2, pipeline_parallel=1, expert_parallel=1, data_parallel=1)
    assert str(Wish(LLAMA_70B, (H200,), pins=pins).plan().shape) == "H200 BF16 TP2"


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (
            Wish(LLAMA_70B, pins=ShapePins(tensor_parallel=3)),
            "spec.shape.tensorParallel 3: TP 3 does not divide 64 attention heads and 8 KV heads; allowed: 1, 2, 4",
        ),
        (
            Wish(LLAMA_70B, pins=ShapePins(tensor_parallel=16)),
            "spec.shape.tensorParallel 16: a group of 16 GPUs leaves the NVLink domain; allowed: up to 8, the largest",
        ),
        (
            Wish(LLAMA_8B, placement=PREFERRED, pins=ShapePins(pipeline_parallel=33)),
            "spec.shape.pipelineParallel 33: PP 33 is more than 32 layers; allowed: 1 to 32",
        ),
        (
            Wish(LLAMA_8B, pins=ShapePins(tensor_parallel=8, pipeline_parallel=2)),
            "16 GPUs are more than the 8 of the largest H200 domain",
        ),
        (
            Wish(QWEN_MOE, (GB200,), pins=ShapePins(data_parallel=24, tensor_parallel=1)),
            "spec.shape.dataParallel 24: EP 24 does not divide 128 experts; allowed: 1, 2, 4, 8, 16, 32, 64, 128",
        ),
        (
            Wish(QWEN_MOE, pins=ShapePins(tensor_parallel=4, expert_parallel=3)),
            "spec.shape.expertParallel 3: EP 3 is not what TP 4 x DP 1 form",
        ),
        (
            Wish(DEEPSEEK, (GB200,), pins=ShapePins(expert_parallel=72)),
            "spec.shape.expertParallel 72: EP 72 does not divide 256 experts; allowed: 1, 2, 4",
        ),
        (
            Wish(DEEPSEEK, (B200, replace(GB200, domain_gpus=60)), pins=ShapePins(expert_parallel=64)),
            "a group of 64 GPUs leaves the NVLink domain; allowed: up to 60, the largest GB200 domain",
        ),
        (Wish(LLAMA_8B, pins=ShapePins(expert_parallel=4)), "has no experts; allowed: 1"),
        (Wish(LLAMA_8B, pins=ShapePins(data_parallel=4)), "allowed: 1, and more replicas do the same"),
        (
            Wish(DEEPSEEK, (GB200,), pins=ShapePins(tensor_parallel=8, data_parallel=2)),
            "spec.shape.dataParallel 2: a data-parallel rank of 8 GPUs does not fit a node; allowed: up to 4",
        ),
    ],
)
def test_a_pin_that_cannot_be_is_named_with_what_is_allowed(wish: Wish, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        wish.plan()
    assert caught.value.reason is Reason.ShapeInvalid
    assert sentence in caught.value.message


def test_a_pin_that_makes_the_model_too_large_says_that_others_are_forbidden() -> None:
    with pytest.raises(Invalid, match=r"lacks .* GiB on each GPU .*; spec\.shape forbids others") as caught:
        Wish(LLAMA_405B, (H200,), pins=ShapePins(tensor_parallel=4, pipeline_parallel=1)).plan()
    assert caught.value.reason is Reason.ModelDoesNotFit


SIZES = st.none() | st.integers(1, 80)
PINS = tuple(each.name for each in fields(ShapePins))
FEW = st.none() | st.integers(1, 9)


@given(
    model=st.sampled_from([LLAMA_8B, LLAMA_70B, DEEPSEEK, QWEN_MOE, "gpt-oss-120b"]),
    supplies=st.lists(
        st.sampled_from([H100, H200, B200, GB200, SHARED]), max_size=2, unique_by=lambda supply: supply.accelerator
    ),
    pins=st.builds(
        ShapePins,
        tensor_parallel=SIZES,
        pipeline_parallel=SIZES,
        expert_parallel=SIZES,
        data_parallel=SIZES,
        decode_context_parallel=FEW,
        prefill_context_parallel=FEW,
    ),
    rule=st.sampled_from(list(DomainRule)),
    role=st.sampled_from(list(Role)),
)
def test_whatever_is_pinned_the_shape_keeps_every_hard_rule_or_is_refused(
    model: str, supplies: list[Supply], pins: ShapePins, rule: DomainRule, role: Role
) -> None:
    """S9 among them: no tensor or expert group is larger than an NVLink domain."""
    wish = Wish(model, tuple(supplies), pins=pins, placement=PlacementSpec(domain=rule), role=role)
    request = wish.request()
    try:
        shape = choose(request, CATALOG).shape
    except (Invalid, Blocked) as error:
        assert error.message  # noqa: PT017 - either outcome is fine, others are not
        return
    supply = next(each for each in request.supplies if each.accelerator == shape.accelerator)
    architecture = request.architecture
    attention = [block for block in architecture.blocks if block.mixer is not None]
    assert architecture.heads % shape.tensor_parallel == 0
    assert shape.domain_group_gpus <= supply.domain_gpus
    assert shape.expert_parallel in {1, shape.domain_group_gpus}
    assert architecture.experts is None or architecture.experts.count % shape.expert_parallel == 0
    assert shape.pipeline_parallel <= architecture.layers
    assert shape.gpus == 1 or not supply.shared
    assert shape.gpus_per_pod <= supply.gpus_per_node
    assert shape.pods * shape.gpus_per_pod == shape.gpus
    assert rule is DomainRule.Preferred or shape.gpus <= supply.domain_gpus
    assert all(
        kv_copies(block.mixer, shape.tensor_parallel) % shape.decode_context_parallel == 0 for block in attention
    )
    assert shape.prefill_context_parallel == 1 or role is Role.Prefill
    assert all(getattr(pins, name) in {None, getattr(shape, name)} for name in PINS)


def test_a_model_that_does_not_fit_for_a_label_that_takes_memory_is_told_so() -> None:
    """Plans go by the smallest memory of a kind: one node's label makes those of all of them smaller."""
    few = replace(H200, memory_bytes=H200.memory_bytes // 3, domain_gpus=1, gpus_per_node=1)
    with pytest.raises(Invalid, match=r"\(a node's label says 46.8 GiB of memory, where such GPUs have 140.4\)"):
        Wish(LLAMA_70B, (few,)).plan()
    with pytest.raises(Invalid) as caught:
        Wish(LLAMA_405B, (replace(H200, domain_gpus=1, gpus_per_node=1),)).plan()
    assert "label" not in caught.value.message
