"""Both halves of a split: whatever is chosen, prefill can hand its KV cache to decode."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
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
    MI300X,
    QWEN_MOE,
    Wish,
)
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Plan
from weft.domain.spec import DomainRule, EngineSpec, PlacementSpec, ShapePins
from weft.domain.texts.units import MIB
from weft.domain.workload import Role, Slo
from weft.engines.kv.handover import context_conflict
from weft.engines.vllm.handover import vllm_tensor_conflict
from weft.shaping import ShapeRequest, Supply, Unpaired, choose_pair

ALL = (H100, H200, B200, GB200, MI300X)


def halves(prefill: Wish, decode: Wish, before: tuple[Plan, Plan] | None = None) -> tuple[ShapeRequest, ShapeRequest]:
    first, second = before or (None, None)
    return replace(prefill, role=Role.Prefill).request(first), replace(decode, role=Role.Decode).request(second)


def paired(prefill: Wish, decode: Wish, before: tuple[Plan, Plan] | None = None) -> tuple[Plan, Plan]:
    plans = choose_pair(*halves(prefill, decode, before), CATALOG)
    assert not isinstance(plans, Unpaired), plans.why.message
    return plans


def refused(prefill: Wish, decode: Wish) -> Unpaired:
    plans = choose_pair(*halves(prefill, decode), CATALOG)
    assert isinstance(plans, Unpaired)
    return plans


def generation(plan: Plan) -> str:
    return CATALOG.accelerator(plan.shape.accelerator).generation


wishes = st.builds(
    Wish,
    model=st.just(LLAMA_70B),
    supplies=st.lists(st.sampled_from(ALL), min_size=1, max_size=3, unique=True).map(tuple),
    rate=st.sampled_from([0.1, 5.0, 200.0]),
    pins=st.sampled_from([ShapePins(), ShapePins(tensor_parallel=8)]),
)


@settings(max_examples=60, deadline=None)
@given(
    wishes,
    wishes,
    st.sampled_from([LLAMA_8B, LLAMA_70B, QWEN_MOE, DEEPSEEK]),
    st.sampled_from(["0.11.2", "0.20.2", "0.32.0"]),
)
def test_a_chosen_pair_can_shake_hands_and_stays(prefill: Wish, decode: Wish, model: str, version: str) -> None:
    """One generation of GPUs, one release, one stage each and sizes that the version joins; and so it remains (L1)."""
    engine = EngineSpec(EngineName.VLLM, version)
    prefill, decode = replace(prefill, model=model, engine=engine), replace(decode, model=model, engine=engine)
    plans = choose_pair(*halves(prefill, decode), CATALOG)
    if isinstance(plans, Unpaired):
        assert plans.why.reason in {Reason.PairIncompatible, Reason.ModelDoesNotFit}
        return
    ours, theirs = plans
    assert generation(ours) == generation(theirs)
    assert ours.engine == theirs.engine
    architecture, sizes = decode.request().architecture, (ours.shape.tensor_parallel, theirs.shape.tensor_parallel)
    assert vllm_tensor_conflict(version, "NIXL", architecture, *sizes) is None
    assert context_conflict(ours.shape, theirs.shape) is None
    assert ours.shape.pipeline_parallel == theirs.shape.pipeline_parallel == 1
    assert [plan.shape for plan in paired(prefill, decode, plans)] == [ours.shape, theirs.shape]


def test_each_half_alone_would_choose_another_generation_and_the_pair_does_not() -> None:
    slo = Slo(ttft=((95, 1.0),), tpot=((95, 0.05),))
    pins = ShapePins(tensor_parallel=8)
    nics = EngineSpec(resources=(("rdma/ib", "1"),))
    half = Wish(DEEPSEEK, (H200, B200), 20.0, slo, pins=pins, engine=nics, max_context_tokens=65536)
    alone = replace(half, role=Role.Prefill).plan(), replace(half, role=Role.Decode).plan()
    assert generation(alone[0]) != generation(alone[1])
    ours, theirs = paired(half, half)
    assert generation(ours) == generation(theirs)
    other = {"H200", "B200"} - {ours.shape.accelerator}
    lost = {each.shape.accelerator: each.verdict.reason for each in ours.alternatives}
    assert {lost[name] for name in other} == {Reason.PairIncompatible}


def test_halves_on_different_vendors_are_refused_by_the_names_of_their_gpus() -> None:
    problem = refused(Wish(supplies=(H100,)), Wish(supplies=(MI300X,)))
    assert problem.why.reason is Reason.PairIncompatible
    assert "Hopper" in problem.why.message
    assert "CDNA3" in problem.why.message
    assert problem.role is None


def test_both_halves_run_the_image_of_their_vendor() -> None:
    plans = paired(Wish(supplies=(MI300X,)), Wish(supplies=(MI300X, H100), placement=PlacementSpec(("MI300X",))))
    assert {plan.engine.image for plan in plans} == {CATALOG.release(EngineName.VLLM, None, "amd").image}


OLD = EngineSpec(EngineName.VLLM, "0.11.2")


def test_a_larger_prefill_is_refused_before_the_version_that_joins_it() -> None:
    prefill = Wish(LLAMA_8B, pins=ShapePins(tensor_parallel=8), engine=OLD)
    problem = refused(prefill, replace(prefill, pins=ShapePins(tensor_parallel=4)))
    assert problem.why.reason is Reason.PairIncompatible
    assert "0.14.0 or later" in problem.why.message
    assert "TP 8 of prefill" in problem.why.message


def test_a_prefill_that_copies_heads_is_never_larger_than_decode() -> None:
    """Of 4 KV heads, prefill on 8 GPUs is the fastest: vLLM would refuse each transfer, and decode compute prompts."""
    nics = EngineSpec(EngineName.VLLM, "0.32.0", resources=(("rdma/hca", "1"),))
    slo = Slo(ttft=((95, 0.3),), tpot=((95, 0.05),))
    half = Wish(QWEN_MOE, (H200,), 2.0, slo, engine=nics, input_tokens=8000)
    assert replace(half, role=Role.Prefill).plan().shape.tensor_parallel == 8
    ours, theirs = (plan.shape.tensor_parallel for plan in paired(half, half))
    assert ours <= max(4, theirs)
    problem = refused(
        replace(half, pins=ShapePins(tensor_parallel=8)), replace(half, pins=ShapePins(tensor_parallel=4))
    )
    assert problem.why.reason is Reason.PairIncompatible
    assert "more than the 4 KV heads of Qwen/Qwen3-30B-A3B" in problem.why.message


def test_states_go_between_halves_of_a_release_that_moves_them() -> None:
    half = Wish("Qwen3-Next-80B-A3B-Instruct", engine=EngineSpec(EngineName.VLLM, "0.21.0"))
    assert "allowed: 0.22.0 or later" in refused(half, half).why.message
    half = replace(half, engine=EngineSpec(EngineName.VLLM, "0.32.0"))
    ours, theirs = (plan.shape.tensor_parallel for plan in paired(half, half))
    assert ours == theirs or max(ours, theirs) <= 2
    half = replace(half, engine=EngineSpec(EngineName.SGLang))
    assert paired(half, half)


def test_what_is_free_gives_way_to_what_is_pinned() -> None:
    prefill = Wish(LLAMA_8B, pins=ShapePins(tensor_parallel=4), engine=OLD)
    ours, theirs = paired(prefill, replace(prefill, pins=ShapePins()))
    assert ours.shape.tensor_parallel == 4
    assert theirs.shape.tensor_parallel >= 4


def test_a_half_never_has_pipeline_stages() -> None:
    """NIXL moves no KV between stages; a pool of its own may have them."""
    wish = Wish(LLAMA_405B, (H100,), rate=0.1, placement=PlacementSpec(domain=DomainRule.Preferred))
    assert wish.plan().shape.pipeline_parallel > 1
    assert refused(wish, wish).why.reason is Reason.ModelDoesNotFit
    pinned = replace(wish, model=LLAMA_70B, pins=ShapePins(pipeline_parallel=2))
    problem = refused(pinned, replace(pinned, pins=ShapePins()))
    assert (problem.why.reason, problem.role) == (Reason.PairIncompatible, Role.Prefill)
    assert "pipeline stages" in problem.why.message


def test_generations_with_the_same_problem_share_a_sentence_and_those_that_serve_nothing_have_none() -> None:
    """Three generations, one of them without engines: what helps is told once."""
    gaudi = Supply("Gaudi3", 131072 * MIB, domain_gpus=8, gpus_per_node=8)
    wish = Wish(LLAMA_70B, (H100, MI300X, gaudi), pins=ShapePins(tensor_parallel=3))
    problem = refused(wish, wish)
    assert problem.why.message.startswith("spec.shape.tensorParallel 3: TP 3 does not divide")
    assert problem.why.message.count("TP 3 does not divide") == 1
    fitting = replace(wish, pins=ShapePins(tensor_parallel=1))
    assert {plan.shape.accelerator for plan in paired(fitting, fitting)} == {"MI300X"}
    only = replace(fitting, supplies=(gaudi,))
    assert refused(only, only).why.reason is Reason.EngineUnsupported


def test_a_problem_of_one_half_is_told_of_that_half() -> None:
    wish = Wish(LLAMA_70B)
    problem = refused(wish, replace(wish, pins=ShapePins(tensor_parallel=3)))
    assert problem.role is Role.Decode
    assert problem.why.message.startswith("spec.shape.tensorParallel 3: ")
    with pytest.raises(Invalid):
        replace(wish, role=Role.Decode, pins=ShapePins(tensor_parallel=3)).plan()
