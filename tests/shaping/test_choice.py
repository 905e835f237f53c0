"""Which shape is chosen, on facts that anybody who serves these models knows."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from tests.shaping.cases import (
    A100,
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
    SHARED,
    Wish,
    reasons,
)
from tests.yardstick import assert_each_quick
from weft.domain.errors import Blocked, Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.spec import DomainRule, EngineSpec, PlacementSpec, ShapePins
from weft.domain.texts.units import MIB
from weft.domain.workload import Role, Slo
from weft.shaping import Supply, choice, choose


def test_a_small_model_runs_on_one_gpu() -> None:
    plan = Wish(LLAMA_8B, (H100,)).plan()
    assert str(plan.shape) == "H100 BF16 TP1"
    assert (plan.shape.pods, plan.shape.gpus_per_pod) == (1, 1)
    assert plan.verdict.reason is Reason.ShapeChosen
    assert plan.verdict.message.startswith("1 x H100 BF16 TP1 cost 1 for 5 requests/s and 10% headroom; one serves ")


def test_70b_in_fp8_runs_on_one_h200() -> None:
    assert str(Wish(LLAMA_70B, (H200,), 2.0, precision=Precision.FP8).plan().shape) == "H200 FP8 TP1"


def test_70b_in_16_bits_needs_a_tensor_group() -> None:
    plan = Wish(LLAMA_70B, (H100,)).plan()
    assert plan.shape.tensor_parallel >= 2
    assert reasons(plan)["H100 BF16 TP1"] is Reason.OutOfMemory


def test_deepseek_does_not_fit_a_board_of_h100_and_says_what_is_lacking() -> None:
    with pytest.raises(Invalid, match=r"H100 FP8 TP8.* comes closest and lacks [0-9.]+ GiB on each GPU") as caught:
        Wish(DEEPSEEK, (H100,)).plan()
    assert caught.value.reason is Reason.ModelDoesNotFit
    assert "spec.placement.domain Preferred" in caught.value.message


def test_of_a_board_that_is_too_small_the_shape_is_told_that_comes_closest() -> None:
    """That a model of 600 GB does not fit one GPU tells nobody why it is not on a board of H100."""
    told = Wish(DEEPSEEK, (H100, H200)).plan().alternatives
    of_h100 = next(each for each in told if each.shape.accelerator == "H100")
    assert (str(of_h100.shape), of_h100.verdict.reason) == ("H100 FP8 TP8", Reason.OutOfMemory)


def test_a_part_of_a_gpu_is_as_slow_as_its_share_of_the_memory() -> None:
    """Half an H100 has half of its bandwidth, so that a step which reads all weights takes twice as long."""
    part = replace(H100, memory_bytes=H100.memory_bytes // 2, shared=True)
    whole, half = (Wish(LLAMA_8B, (each,), 0.01, pins=ShapePins(tensor_parallel=1)).plan() for each in (H100, part))
    assert 1.5 < half.prediction.tpot.p50 / whole.prediction.tpot.p50 < 2.1
    assert 1.5 < half.prediction.ttft.p50 / whole.prediction.ttft.p50 < 2.1


def test_parts_of_gpus_that_are_too_small_are_told_as_the_smallest_there_are() -> None:
    """Others may be larger, and the pool can select them."""
    part = replace(H100, memory_bytes=H100.memory_bytes // 8, shared=True)
    with pytest.raises(Invalid, match=r"of which the smallest has 10.0 GiB; spec.placement.nodeSelector may select"):
        Wish(LLAMA_8B, (part,)).plan()
    with pytest.raises(Invalid) as caught:
        Wish(DEEPSEEK, (H100,)).plan()
    assert "parts of GPUs" not in caught.value.message


def test_stages_in_several_domains_are_no_advice_where_there_is_one() -> None:
    """DeepSeek-V3 is far too large for one GPU, and nothing can spread over more than there are."""
    one = replace(H100, domain_gpus=1, gpus_per_node=1, alone=True)
    for supply, pins in ((one, ShapePins()), (replace(H100, alone=True), ShapePins(pipeline_parallel=2))):
        with pytest.raises(Invalid) as caught:
            Wish(DEEPSEEK, (supply,), pins=pins).plan()
        assert "Preferred" not in caught.value.message


def test_deepseek_fits_a_board_of_h200() -> None:
    plan = Wish(DEEPSEEK, (H200,)).plan()
    assert plan.shape.gpus == 8


def test_deepseek_on_a_rack_gets_an_expert_group_inside_the_nvlink_domain() -> None:
    """For short prompts: long ones of any rank hold up all, and a tensor group does as well."""
    plan = Wish(DEEPSEEK, (GB200,), rate=300, input_tokens=100).plan()
    shape = plan.shape
    assert shape.expert_parallel == shape.tensor_parallel * shape.data_parallel >= 8
    assert shape.domain_group_gpus <= 72
    assert (shape.gpus_per_pod, shape.pods) == (4, shape.gpus // 4)


def test_405b_in_16_bits_spreads_stages_over_boards_only_if_it_may() -> None:
    with pytest.raises(Invalid) as caught:
        Wish(LLAMA_405B, (H100,)).plan()
    assert caught.value.reason is Reason.ModelDoesNotFit
    plan = Wish(LLAMA_405B, (H100,), placement=PlacementSpec(domain=DomainRule.Preferred)).plan()
    assert str(plan.shape) == "H100 BF16 TP8 PP2"
    assert (plan.shape.pods, plan.shape.domain_group_gpus) == (2, 8)


def test_no_stages_where_a_tensor_group_holds_the_model() -> None:
    plan = Wish(LLAMA_70B, (H100,), placement=PlacementSpec(domain=DomainRule.Preferred)).plan()
    assert all(each.shape.pipeline_parallel == 1 for each in plan.alternatives)


def test_the_cheapest_accelerator_wins_and_the_others_cost_more() -> None:
    plan = Wish(LLAMA_8B, (H100, H200, B200)).plan()
    assert plan.shape.accelerator == "H100"
    assert reasons(plan)["B200 BF16 TP1"] is Reason.CostsMore


def test_within_a_tenth_the_simpler_shape_wins() -> None:
    """Two replicas on one GPU cost what one on two does."""
    plan = Wish(LLAMA_8B, (H100,), rate=30).plan()
    assert str(plan.shape) == "H100 BF16 TP1"
    assert reasons(plan)["H100 BF16 TP2"] is Reason.SimplerWins


def test_tight_latency_buys_a_larger_group() -> None:
    loose = Wish(LLAMA_70B, (H200,), slo=Slo(tpot=((95, 0.1),))).plan()
    tight = Wish(LLAMA_70B, (H200,), slo=Slo(tpot=((95, 0.018),))).plan()
    assert tight.shape.tensor_parallel > loose.shape.tensor_parallel
    assert reasons(tight)["H200 BF16 TP2"] is Reason.MissesTPOT


def test_a_shape_that_misses_ttft_says_by_how_much() -> None:
    plan = Wish(LLAMA_70B, (H200,), input_tokens=4000, slo=Slo(ttft=((95, 0.9),))).plan()
    loser = next(each for each in plan.alternatives if str(each.shape) == "H200 BF16 TP2")
    assert loser.verdict.reason is Reason.MissesTTFT
    assert "TTFT p95" in loser.verdict.message
    assert "of 900 ms" in loser.verdict.message


def test_an_slo_out_of_reach_gets_the_closest_shape_and_a_capacity_to_scale_by() -> None:
    plan = Wish(LLAMA_70B, (H200,), slo=Slo(tpot=((95, 0.005),))).plan()
    assert plan.verdict.reason is Reason.BestEffort
    found = re.search(r"TPOT p95 ([0-9.]+) ms of 5 ms", plan.verdict.message)
    assert found is not None
    assert plan.shape.tensor_parallel == 8
    assert plan.prediction.capacity > 0
    assert plan.prediction.tpot.p95 <= 1.5 * float(found[1]) / 1000
    assert plan.verdict.message.endswith(
        "even without load; its capacity is the rate up to which it takes no more than 1.5 times that"
    )


@pytest.mark.parametrize("milliseconds", [20, 60, 120])
def test_prefill_whose_prompts_and_kv_are_both_late_has_a_capacity_to_scale_by(milliseconds: int) -> None:
    """Of two misses of one target the larger one counts, whichever that is."""
    slo, devices = Slo(ttft=((95, milliseconds / 1000),)), EngineSpec(resources=(("rdma/ib", "1"),))
    plan = Wish(LLAMA_70B, (H200,), slo=slo, role=Role.Prefill, engine=devices).plan()
    assert plan.verdict.reason is Reason.BestEffort
    assert "KV has come after" in plan.verdict.message or milliseconds > 60
    assert plan.prediction.capacity > 0


def test_a_count_that_is_bounded_needs_a_larger_shape() -> None:
    """Many small replicas are cheapest, but only two are allowed."""
    plan = Wish(LLAMA_8B, (H100,), rate=100, scaling=ScalingSpec(max_replicas=2)).plan()
    assert plan.shape.gpus > 1
    assert 2 * plan.prediction.capacity >= 100
    assert reasons(plan)["H100 BF16 TP1"] is Reason.AtMaximum


def test_a_demand_far_out_of_reach_is_told_in_numbers_that_people_read() -> None:
    """No exponents, and no `0%` of something that is served."""
    plan = Wish(LLAMA_8B, (H100,), rate=1_000_000, scaling=ScalingSpec(max_replicas=2)).plan()
    assert "for 1000000 requests/s" in plan.verdict.message
    assert plan.verdict.message.endswith("as many as are allowed serve under 1% of it")
    assert "e+" not in plan.verdict.message


def test_a_prompt_that_fits_nowhere_is_told_as_that() -> None:
    plan = Wish(LLAMA_8B, (H100,), slo=Slo(), input_tokens=100_000_000).plan()
    assert plan.verdict.reason is Reason.BestEffort
    assert (
        plan.verdict.message
        == "no shape has room for a sequence of the mean length of spec.workload beside the weights"
    )


def test_a_gpu_budget_bounds_the_replicas() -> None:
    plan = Wish(LLAMA_70B, (H200,), rate=500, scaling=ScalingSpec(max_replicas=100, max_gpus=4)).plan()
    assert plan.shape.gpus <= 4
    assert "as many as are allowed serve" in plan.verdict.message


def test_nothing_to_use_is_refused() -> None:
    for wish in (Wish(supplies=(H100,), placement=PlacementSpec(accelerators=("B200",))), Wish(supplies=())):
        with pytest.raises(Blocked, match="no accelerator that this pool may use") as caught:
            wish.plan()
        assert caught.value.reason is Reason.NoAccelerator


def test_a_precision_that_nothing_here_serves_is_refused() -> None:
    with pytest.raises(
        Invalid, match=r"spec\.model\.precision: VLLM does not serve NVFP4 on H100; allowed: BF16"
    ) as caught:
        Wish(LLAMA_8B, (H100,), precision=Precision.NVFP4).plan()
    assert caught.value.reason is Reason.PrecisionUnsupported


def test_a_refused_precision_is_named_by_whose_it_is() -> None:
    """One out of a choice was asked for; only without any is it the checkpoint's."""
    wish = Wish(LLAMA_8B, (H100,)).request()
    asked = replace(wish.spec, model=replace(wish.spec.model, precisions=(Precision.NVFP4,)))
    with pytest.raises(Invalid, match=r"^the precision asked for: VLLM does not serve NVFP4 on H100; allowed: BF16"):
        choose(replace(wish, spec=asked), CATALOG)
    with pytest.raises(Invalid, match=r"^the precision of the checkpoint: VLLM does not serve FP8 on A100; allowed: "):
        Wish(DEEPSEEK, (replace(H100, accelerator="A100"),)).plan()


def test_where_an_engine_does_not_run_no_precision_is_to_blame() -> None:
    with pytest.raises(Invalid, match=r"^VLLM does not run on Gaudi3; allowed: another accelerator$") as caught:
        Wish(LLAMA_8B, (replace(H100, accelerator="Gaudi3"),)).plan()
    assert caught.value.reason is Reason.EngineUnsupported


def test_a_precision_that_one_accelerator_lacks_sends_the_model_to_the_other() -> None:
    plan = Wish(QWEN_MOE, (A100, H100), precision=Precision.FP8).plan()
    assert plan.shape.accelerator == "H100"
    pinned = Wish(QWEN_MOE, (A100, H100), precision=Precision.FP8, pins=ShapePins(tensor_parallel=1)).plan()
    assert reasons(pinned)["A100 FP8 TP1"] is Reason.PrecisionUnsupported


def test_shared_devices_serve_single_gpu_replicas_only() -> None:
    assert Wish(LLAMA_8B, (SHARED,)).plan().shape.gpus == 1
    with pytest.raises(Invalid, match=r"spec\.shape\.tensorParallel 2: H100 is shared") as caught:
        Wish(LLAMA_8B, (SHARED,), pins=ShapePins(tensor_parallel=2)).plan()
    assert caught.value.reason is Reason.ShapeInvalid


def test_memory_follows_the_label_and_not_the_catalog() -> None:
    small = replace(H200, memory_bytes=15_000 * MIB)
    with pytest.raises(Invalid):
        Wish(LLAMA_70B, (small,)).plan()


def test_a_long_context_needs_room_for_one_whole_sequence() -> None:
    assert str(Wish(LLAMA_8B, (H100,)).plan().shape) == "H100 BF16 TP1"
    tight = replace(H100, memory_bytes=28_000 * MIB)
    plan = Wish(LLAMA_8B, (tight,), max_context_tokens=131072).plan()
    assert plan.shape.tensor_parallel > 1
    assert reasons(plan)["H100 BF16 TP1"] is Reason.NoRoomForKV


def test_every_role_is_shaped() -> None:
    for role in Role:
        assert Wish(role=role).plan().prediction.capacity > 0


def test_amd_gets_its_own_image() -> None:
    plan = Wish(LLAMA_8B, (MI300X,)).plan()
    assert plan.engine.image == "docker.io/vllm/vllm-openai-rocm:v0.32.0"


def test_a_release_that_is_kept_stays_and_a_wish_is_followed() -> None:
    kept = EngineRelease(EngineName.VLLM, "0.20.2", "registry.example/vllm:mine")
    assert Wish().plan(release=kept).engine == kept
    assert Wish(engine=EngineSpec(version="0.25.1")).plan().engine.image.endswith(":v0.25.1")
    assert Wish(engine=EngineSpec(image="registry.example/own")).plan().engine.image == "registry.example/own"


def test_a_kept_release_changes_only_its_image_when_the_vendor_changes() -> None:
    kept = EngineRelease(EngineName.VLLM, "0.20.2", "docker.io/vllm/vllm-openai:v0.20.2")
    assert Wish(LLAMA_8B, (MI300X,)).plan(release=kept).engine.image == "docker.io/vllm/vllm-openai-rocm:v0.20.2"


def test_auto_chooses_only_from_engines_that_have_run() -> None:
    chosen = Wish(LLAMA_8B).plan()
    assert {chosen.shape.engine, *(each.shape.engine for each in chosen.alternatives)} == {EngineName.VLLM}


def test_at_most_ten_alternatives_best_first_each_with_its_reason() -> None:
    plan = Wish(DEEPSEEK, (H200, GB200), rate=50).plan()
    assert len(plan.alternatives) == 10
    costs = [
        each.shape.gpus * CATALOG.accelerator(each.shape.accelerator).cost
        for each in plan.alternatives
        if each.verdict.reason is Reason.CostsMore
    ]
    assert costs
    assert all(each.verdict.message for each in plan.alternatives)
    assert plan.shape not in [each.shape for each in plan.alternatives]


def test_no_accelerator_hides_the_others_among_the_losers() -> None:
    """Each has one told, though shapes of the best ones could fill the list."""
    plan = Wish(QWEN_MOE, (A100, H100, H200, B200, GB200, MI300X), rate=50).plan()
    told = [each.shape.accelerator for each in plan.alternatives]
    assert len(told) == 10
    assert {"A100", "H100", "H200", "B200", "GB200", "MI300X"} == {plan.shape.accelerator, *told}


def test_an_accelerator_that_cannot_be_is_told_beside_shapes_that_lost() -> None:
    small = Supply("L4", 23034 * MIB, domain_gpus=1, gpus_per_node=1)
    plan = Wish(LLAMA_70B, (H100, H200, B200, GB200, small)).plan()
    assert "L4 BF16 TP1" in reasons(plan)
    assert reasons(plan)["L4 BF16 TP1"] is Reason.OutOfMemory


def test_the_order_of_supplies_does_not_matter_and_errors_repeat() -> None:
    plans = {Wish(supplies=order).plan() for order in itertools.permutations((H100, H200, B200))}
    assert len(plans) == 1
    errors = set()
    for _ in range(3):
        with pytest.raises(Invalid) as caught:
            Wish(DEEPSEEK, (H100,)).plan()
        errors.add(caught.value.message)
    assert len(errors) == 1


def test_choosing_again_is_free_and_gives_the_same() -> None:
    request = Wish(LLAMA_70B, (H100, H200, B200)).request()
    choice._remembered.cache_clear()
    first = choose(request, CATALOG)
    hits = choice._remembered.cache_info().hits
    assert choose(request, CATALOG) == first
    assert choice._remembered.cache_info().hits == hits + 1


def test_an_uncached_choice_is_quick() -> None:
    """Twenty pools every second: 8 ms for a dense 70B on three accelerators where a yard takes 50 microseconds."""
    wishes = (Wish(LLAMA_70B, (H100, H200, B200), rate=5.0 + step).request() for step in count())
    assert_each_quick((partial(choose, wish, CATALOG) for wish in wishes), yards=150)


def test_a_supply_that_the_catalog_does_not_know_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match="accelerator 'TPU' is not in the catalog"):
        Wish(supplies=(Supply("TPU", 1, 1, 1),)).plan()
