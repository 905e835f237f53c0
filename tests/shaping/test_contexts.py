"""When GPUs share a KV cache (DCP) or tensor groups a prompt (PCP): what is looked at, and what is refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shaping.cases import B200, CATALOG, DEEPSEEK, GB200, H200, LLAMA_70B, MI300X, RELAXED, Wish
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import EngineSpec, KVSpec, ShapePins
from weft.domain.workload import Role, Slo
from weft.engines.kv.handover import context_conflict
from weft.shaping import Unpaired, choose, choose_pair
from weft.shaping.candidates import CandidateSetting, single_stage

QWEN_235B = "Qwen3-235B-A22B"
TP8 = ShapePins(tensor_parallel=8)


def looked_at(wish: Wish, precision: Precision = Precision.FP8) -> list[Shape]:
    request = wish.request()
    supply = request.supplies[0]
    setting = CandidateSetting(supply, CATALOG.accelerator(supply.accelerator), EngineName.VLLM, precision)
    return [option.shape for option in single_stage(request, setting)]


def pinned(wish: Wish, among: int = 1, groups: int = 1) -> Wish:
    pins = replace(wish.pins, decode_context_parallel=among, prefill_context_parallel=groups)
    return replace(wish, pins=pins)


def engine(version: str | None = None, method: str | None = None) -> EngineSpec:
    return EngineSpec(EngineName.VLLM, version, speculative_json=f'{{"method":"{method}"}}' if method else None)


@pytest.mark.parametrize(
    ("wish", "sizes"),
    [
        (Wish(DEEPSEEK, pins=TP8), [1, 2, 4, 8]),
        (Wish(QWEN_235B, pins=TP8), [1, 2]),
        (Wish(LLAMA_70B, pins=TP8), [1]),
        (Wish("gpt-oss-120b", (GB200,), pins=replace(TP8, tensor_parallel=16)), [1]),
        (Wish("DeepSeek-V3.2", pins=TP8), [1]),
        (Wish(DEEPSEEK, pins=TP8, role=Role.Decode), [1, 8]),
        (Wish(QWEN_235B, pins=TP8, role=Role.Decode), [1]),
        (Wish(DEEPSEEK, pins=TP8, role=Role.Prefill), [1]),
    ],
    ids=["latent", "grouped", "not-copied", "windows", "selector", "decode", "grouped-decode", "prefill"],
)
def test_a_context_is_shared_among_those_that_keep_copies_of_it(wish: Wish, sizes: list[int]) -> None:
    assert sizes == sorted({shape.decode_context_parallel for shape in looked_at(wish)})


@pytest.mark.parametrize(
    ("wish", "sizes"),
    [
        (Wish(DEEPSEEK, (GB200,), role=Role.Prefill), [1, 2, 4]),
        (Wish(DEEPSEEK, pins=TP8, role=Role.Prefill), [1]),
        (Wish(DEEPSEEK, (GB200,)), [1]),
        (Wish(LLAMA_70B, (GB200,), role=Role.Prefill), [1]),
        (Wish(DEEPSEEK, pins=ShapePins(data_parallel=2), role=Role.Prefill), [1]),
    ],
    ids=["latent", "no-room", "aggregated", "grouped", "data-parallel"],
)
def test_prompts_are_shared_by_few_groups_of_prefill(wish: Wish, sizes: list[int]) -> None:
    assert sizes == sorted({shape.prefill_context_parallel for shape in looked_at(wish)})


def test_candidates_stay_few() -> None:
    """A rack of 72 GPUs: ranks of data-parallel attention and expert groups are not tried with shared contexts too."""
    shapes = looked_at(Wish(DEEPSEEK, (GB200,)))
    assert len(shapes) < 60
    assert not [shape for shape in shapes if shape.decode_context_parallel > 1 < shape.expert_parallel]


def test_a_shared_context_wins_where_a_long_one_fits_no_other_way() -> None:
    """1.5 million tokens of DeepSeek take 98 GiB on each of eight B200 as copies, and 12 GiB as parts."""
    wish = Wish(DEEPSEEK, (B200,), 0.01, Slo(), pins=TP8, max_context_tokens=1_500_000)
    plan = wish.plan()
    assert plan.shape.decode_context_parallel > 1
    assert Reason.NoRoomForKV in {each.verdict.reason for each in plan.alternatives}


def test_a_shared_context_serves_more_long_requests_within_a_target() -> None:
    """What is read per token shrinks, so that more sequences fit into the time and the memory."""
    wish = Wish(DEEPSEEK, rate=1.0, slo=Slo(tpot=((95, 0.04),)), role=Role.Decode, pins=TP8, input_tokens=64_000.0)
    alone, shared = pinned(wish).plan().prediction, pinned(wish, among=8).plan().prediction
    assert 2.0 * alone.capacity < shared.capacity
    assert alone.kv_tokens * 8 == pytest.approx(shared.kv_tokens, rel=1e-6)


def test_shared_prompts_meet_a_time_to_first_token_that_no_single_group_does() -> None:
    wish = Wish(DEEPSEEK, (GB200,), 0.2, Slo(ttft=((95, 9.0),)), role=Role.Prefill, input_tokens=64_000.0)
    wish = replace(wish, pins=ShapePins(tensor_parallel=8), kv=KVSpec(transport="RDMA"))
    alone, shared = pinned(wish).plan(), wish.plan()
    assert alone.verdict.reason is Reason.BestEffort
    assert shared.verdict.reason is Reason.ShapeChosen
    assert str(shared.shape) == "GB200 FP8 TP8 PCP2 EP16"
    assert shared.shape.gpus == 16


def test_a_running_shape_with_a_shared_context_is_looked_at_and_may_stay() -> None:
    wish = Wish(DEEPSEEK, slo=RELAXED, pins=replace(TP8, decode_context_parallel=4))
    running = wish.plan()
    free = replace(wish, pins=ShapePins())
    again = free.plan(running)
    shapes = {str(again.shape), *(str(each.shape) for each in again.alternatives)}
    assert "H200 FP8 TP8 DCP4" in shapes


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (Wish(DEEPSEEK, pins=TP8), "decodeContextParallel 3: TP 8 keeps 8 copies of the KV cache, and DCP 3 must"),
        (Wish(LLAMA_70B, pins=TP8), "TP 8 keeps 1 copy of the KV cache, and DCP 3 must divide that number; allowed: 1"),
        (Wish("gemma-3-27b-it", pins=TP8), "has windows, recurrences or a token selector"),
    ],
)
def test_a_size_that_no_copies_are_for_is_refused_with_those_that_are(wish: Wish, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        pinned(wish, among=3).plan()
    assert caught.value.reason is Reason.ShapeInvalid
    assert sentence in caught.value.message


LATENT = Wish(DEEPSEEK, pins=TP8)
GROUPED = Wish(QWEN_235B, pins=replace(TP8, decode_context_parallel=2))


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (pinned(replace(LATENT, engine=engine("0.10.1")), 8), "version 0.10.1 shares no such KV cache"),
        (replace(GROUPED, engine=engine("0.11.0")), "allowed: 0.11.2 or later, or 1"),
        (pinned(replace(LATENT, engine=engine("0.20.2"), kv=KVSpec(Precision.FP8)), 8), "no KV cache in FP8"),
        (pinned(replace(LATENT, engine=engine(None, "EAGLE3")), 8), "EAGLE3 drafts with KV heads of its own"),
        (pinned(replace(LATENT, supplies=(MI300X,)), 8), "NVIDIA GPUs only, not for those of amd"),
        (pinned(replace(LATENT, role=Role.Decode), 4), "all of a tensor group share, or none; allowed: 1, 8"),
        (replace(GROUPED, role=Role.Decode), "NIXL transfers shared KV only with latent attention"),
        (pinned(replace(LATENT, role=Role.Decode, engine=engine("0.28.0")), 8), "allowed: 0.29.0 or later"),
        (
            pinned(replace(LATENT, role=Role.Decode, kv=KVSpec(connector="Mooncake")), 8),
            "only NIXL transfers shared KV",
        ),
    ],
    ids=["old", "old-grouped", "fp8", "draft", "amd", "part-of-a-group", "grouped-half", "old-half", "mooncake"],
)
def test_a_context_that_the_engine_cannot_share_is_refused_with_what_is_allowed(wish: Wish, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        wish.plan()
    assert caught.value.message.startswith("spec.shape.decodeContextParallel")
    assert sentence in caught.value.message


PREFILL = Wish(DEEPSEEK, (GB200,), role=Role.Prefill, pins=ShapePins(tensor_parallel=4))


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (replace(PREFILL, role=Role.Aggregated), "only the prefill half of a split shares prompts"),
        (replace(PREFILL, model=LLAMA_70B), "models with latent attention only"),
        (replace(PREFILL, engine=engine("0.29.0")), "version 0.29.0 shares no prompts; allowed: 0.30.0 or later, or 1"),
        (replace(PREFILL, model="DeepSeek-V3.2"), "version 0.32.0 shares no prompts of such a model"),
        (replace(PREFILL, pins=replace(PREFILL.pins, data_parallel=2)), "data-parallel ranks share no prompts"),
        (replace(PREFILL, adapters=(("a", "x/a"),)), "beside LoRA adapters"),
        (replace(PREFILL, engine=engine(None, "EAGLE3")), "while EAGLE3 drafts"),
        (replace(PREFILL, supplies=(MI300X,)), "not for those of amd"),
        (replace(PREFILL, kv=KVSpec(offload_json='{"size": "64Gi"}')), "without spec.kvCache.offload"),
        (replace(PREFILL, kv=KVSpec(connector="Mooncake")), "only NIXL transfers the KV of shared prompts"),
    ],
    ids=[
        "aggregated",
        "grouped",
        "old",
        "selector",
        "data-parallel",
        "adapters",
        "draft",
        "amd",
        "offload",
        "mooncake",
    ],
)
def test_prompts_that_the_engine_cannot_share_are_refused_with_what_is_allowed(wish: Wish, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        pinned(wish, groups=2).plan()
    assert caught.value.message.startswith("spec.shape.prefillContextParallel 2: ")
    assert sentence in caught.value.message


@pytest.mark.parametrize(
    "wish",
    [
        replace(PREFILL, engine=engine("0.30.0")),
        replace(PREFILL, engine=engine(None, "MTP")),
        replace(PREFILL, model="DeepSeek-V3.2", engine=engine("0.33.0")),
    ],
    ids=["oldest", "drafted", "selector"],
)
def test_prompts_are_shared_where_the_engine_can(wish: Wish) -> None:
    plan = pinned(wish, groups=2).plan()
    assert (plan.shape.prefill_context_parallel, plan.shape.gpus, plan.shape.expert_parallel) == (2, 8, 8)


def test_a_context_and_prompts_are_not_shared_in_one_replica() -> None:
    wish = replace(PREFILL, pins=ShapePins(4, prefill_context_parallel=4, decode_context_parallel=4))
    with pytest.raises(Invalid, match="shares either prompts or KV caches"):
        wish.plan()


def test_prefill_that_shares_prompts_never_stands_beside_decode_that_shares_contexts() -> None:
    """NIXL refuses: each group of prefill keeps all of the KV, and each GPU of decode a part."""
    prefill = pinned(PREFILL, groups=2).request()
    decode = replace(Wish(DEEPSEEK, (GB200,), role=Role.Decode, pins=ShapePins(4)), slo=RELAXED)
    pair = choose_pair(prefill, pinned(decode, among=4).request(), CATALOG)
    assert isinstance(pair, Unpaired)
    assert pair.why.reason is Reason.PairIncompatible
    assert "NIXL moves no KV from PCP 2 of prefill to DCP 4 of decode" in pair.why.message
    free = choose_pair(prefill, decode.request(), CATALOG)
    assert not isinstance(free, Unpaired)
    assert context_conflict(free[0].shape, free[1].shape) is None


def test_what_is_shared_counts_as_the_less_simple_shape() -> None:
    """At the same price, the shape without wins."""
    plan = choose(Wish(DEEPSEEK, pins=TP8).request(), CATALOG)
    assert plan.shape.decode_context_parallel == 1
    lost = {str(each.shape): each.verdict.reason for each in plan.alternatives}
    assert lost["H200 FP8 TP8 DCP2"] is Reason.SimplerWins
    assert H200.accelerator == plan.shape.accelerator
