"""Times of steps and collectives: arithmetic by hand, and laws that any hardware obeys."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import counted
from tests.perf.replicas import CATALOG, Parallel, architecture, replica, workload
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Limit
from weft.domain.workload import Role, Slo
from weft.perf import ReplicaModel, predict
from weft.perf.collectives import ranks_hit
from weft.perf.speculation import Speculation
from weft.perf.steps import StepTime, soft_max, stepper
from weft.perf.work import crowding

LLAMA_8B = "Llama-3.1-8B-Instruct"
LLAMA_70B = "Llama-3.3-70B-Instruct"
DEEPSEEK = "DeepSeek-V3"

BATCHES = st.floats(min_value=1, max_value=2000)
CONTEXTS = st.floats(min_value=1, max_value=100_000)
FACTORS = st.floats(min_value=1.0, max_value=10.0)
REPLICAS = st.sampled_from(
    [
        replica(LLAMA_8B, "H100", Precision.BF16),
        replica(LLAMA_70B, "H200", Precision.FP8, 4),
        replica(LLAMA_70B, "MI300X", Precision.BF16, Parallel(tensor=4, pipeline=2)),
        replica(DEEPSEEK, "GB200", Precision.NVFP4, Parallel(tensor=2, data=8, expert=16)),
        replica("gpt-oss-120b", "B200", Precision.MXFP4, Parallel(tensor=2, expert=2)),
        replica("gemma-3-27b-it", "H100", Precision.BF16, 2),
        replica("Llama-4-Scout-17B-16E-Instruct", "H200", Precision.BF16, 4),
        replica("DeepSeek-V3.2", "B200", Precision.FP8, Parallel(data=8, expert=8)),
        replica("GLM-5.3", "GB200", Precision.FP8, 8),
        replica("Qwen3-Next-80B-A3B-Instruct", "H200", Precision.BF16, 2),
        replica("NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "H200", Precision.BF16, 4),
        replica("Llama-3_3-Nemotron-Super-49B-v1", "H100", Precision.BF16, 2),
        replica(DEEPSEEK, "H200", Precision.FP8, Parallel(tensor=8, decode_context=8)),
        replica(LLAMA_70B, "GB200", Precision.FP8, Parallel(tensor=32, decode_context=4)),
        replica(DEEPSEEK, "GB200", Precision.FP8, Parallel(tensor=4, prefill_context=4, expert=16)),
    ]
)


def test_one_sequence_takes_the_time_to_read_the_weights_and_the_overhead() -> None:
    small = replica(LLAMA_8B, "H100", Precision.BF16)
    read = (8.03e9 - 128256 * 4096) * 2  # all but the embedding, of which one row is read
    reached = small.efficiency
    overhead = 32 * reached.layer_seconds + reached.step_seconds + reached.sequence_seconds
    assert stepper(small).decode(1, 1).seconds == pytest.approx(read / (3.35e12 * reached.weights) + overhead, rel=0.01)


def test_a_long_prefill_takes_the_time_of_its_matmuls_and_attention() -> None:
    small = replica(LLAMA_8B, "H100", Precision.BF16)
    matmuls = 2 * (8.03e9 - 2 * 128256 * 4096) * 8192
    attention = 32 * 4 * 32 * 128 * 8192**2 / 2
    reached = small.efficiency
    seconds = matmuls / (989e12 * reached.prefill) + attention / (989e12 * reached.attention)
    seconds += 32 * reached.prefill_layer_seconds
    seconds += 64 * 5.5 * 2 * 4096 * 8192 / (3.35e12 * reached.weights)  # hidden states between matmuls
    assert stepper(small).prefill(8192, 0, 1).seconds == pytest.approx(seconds, rel=0.015)


def test_a_prompt_with_experts_is_launched_layer_by_layer() -> None:
    """DeepSeek has three dense layers of 61; a launch is no part of what prompts in one step share."""
    sparse = replica(DEEPSEEK, "H200", Precision.FP8, 8)
    reached = sparse.efficiency
    launch = stepper(sparse).prefill(1024, 0, 1).launch
    assert launch == pytest.approx(61 * reached.prefill_layer_seconds + 58 * reached.prefill_moe_layer_seconds)
    assert reached.prefill_moe_layer_seconds > 0


def test_a_prompt_that_no_graph_holds_takes_as_long_as_the_host_launches_it() -> None:
    """In 8 bits the GPU is done before, and then waits; twice as many tokens as sequences have a graph, 512 at most."""
    small = replica(LLAMA_8B, "H200", Precision.FP8)
    steps, launching = stepper(small), 32 * small.efficiency.host_layer_seconds
    assert launching == pytest.approx(32 * 0.8e-3)
    assert steps.prefill(512, 0, 1).seconds < 0.5 * launching
    assert [launching, launching] == pytest.approx([steps.prefill(each, 0, 1).seconds for each in (513, 920)])
    assert steps.prefill(920, 0, 1).limit is Limit.Latency
    assert steps.prefill(8192, 0, 1).parts.waits == 0
    few = replace(small, efficiency=replace(small.efficiency, sequences=64))
    assert [True, False] == [stepper(few).prefill(each, 0, 1).parts.waits == 0 for each in (128, 129)]


def test_a_graph_of_drafts_holds_twice_what_all_sequences_verify() -> None:
    small = replica(LLAMA_8B, "H200", Precision.FP8)
    few = replace(small, efficiency=replace(small.efficiency, sequences=64))
    assert (128, 512) == (stepper(few).work.graph_tokens, stepper(small).work.graph_tokens)
    drafting = replace(few, speculation=Speculation(tokens=2, acceptance=0.7))
    assert stepper(drafting).work.graph_tokens == 384


def test_a_b200_replays_prompts_for_which_an_h200_waits() -> None:
    one, other = (stepper(replica(LLAMA_8B, gpu, Precision.FP8)) for gpu in ("H200", "B200"))
    assert one.prefill(900, 0, 1).parts.waits > other.prefill(900, 0, 1).parts.waits == 0
    assert other.prefill(1025, 0, 1).parts.waits > 0


def test_what_a_step_decodes_is_done_while_the_host_launches_its_prompt() -> None:
    steps = stepper(replica(LLAMA_8B, "H200", Precision.FP8))
    decode = steps.decode(1, 1000).seconds
    alone, beside = steps.prefill(920, 0, 1), steps.prefill(920, 0, 1, beside=decode)
    assert beside.seconds + decode == pytest.approx(alone.seconds)
    assert beside.parts._replace(waits=0.0) == alone.parts._replace(waits=0.0)


def test_the_host_bounds_prompts_of_present_releases_of_the_engine_that_was_measured() -> None:
    """What early releases took for launches is in what their rows say of a request; the others nobody measured."""
    device, model = CATALOG.accelerator("H200"), replica(LLAMA_8B, "H200", Precision.FP8)
    for engine, release in ((EngineName.VLLM, "0.11.0"), (EngineName.SGLang, None), (EngineName.TensorRTLLM, None)):
        other = replace(model, efficiency=CATALOG.efficiency(device, engine, Precision.FP8, release))
        assert 0 == stepper(other).prefill(920, 0, 1).parts.waits


@given(REPLICAS, st.floats(1, 100_000), st.floats(0, 0.1))
def test_launches_by_the_host_never_make_a_prompt_sooner_and_touch_none_that_a_graph_holds(
    model: ReplicaModel, tokens: float, beside: float
) -> None:
    without = stepper(replace(model, efficiency=replace(model.efficiency, host_layer_seconds=0.0)))
    waiting, alone = stepper(model).prefill(tokens, 0, 1, beside=beside), without.prefill(tokens, 0, 1, beside=beside)
    assert waiting.seconds >= alone.seconds
    if tokens <= model.efficiency.graph_tokens * model.shape.prefill_context_parallel:
        assert waiting == alone._replace(efficiency=model.efficiency)


@given(st.floats(1e-12, 1e6), st.just(0.0) | st.floats(1e-12, 1e6))
def test_neither_time_hides_behind_the_other_but_they_never_add_up(one: float, other: float) -> None:
    assert max(one, other) <= soft_max(one, other) * (1 + 1e-9)
    assert soft_max(one, other) <= 1.2 * max(one, other)


@pytest.mark.parametrize("parallel", [Parallel(tensor=8), Parallel(data=8, expert=8), Parallel(tensor=4, pipeline=2)])
def test_the_parts_of_a_step_add_up_and_messages_follow_the_shape(parallel: Parallel) -> None:
    steps = stepper(replica(DEEPSEEK, "H200", Precision.FP8, parallel))
    for step in (steps.decode(64, 4000), steps.prefill(4000, 0, 1)):
        assert step.seconds == pytest.approx(sum(step.parts))
        assert 0 <= step.compute <= step.seconds
        assert (step.parts.reduces > 0) == (parallel.tensor > 1)
        assert (step.parts.exchanges > 0) == (parallel.data > 1)
        assert (step.parts.hops > 0) == (parallel.pipeline > 1)


def test_attention_over_a_long_context_is_bound_by_memory_and_prefill_by_compute() -> None:
    steps = stepper(replica(LLAMA_70B, "H100", Precision.FP8, 4))
    assert steps.decode(64, 8000).limit is Limit.MemoryBandwidth
    assert steps.prefill(8192, 0, 1).limit is Limit.Compute


def test_a_small_model_on_many_gpus_is_bound_by_overhead() -> None:
    assert stepper(replica(LLAMA_8B, "GB200", Precision.FP8, 8)).decode(1, 1).limit is Limit.Latency


@pytest.mark.parametrize(("message_bytes", "measured_us"), [(128 << 10, 7.9), (1 << 20, 15), (64 << 20, 344)])
def test_all_reduce_on_eight_h100_is_near_the_measured_one(message_bytes: int, measured_us: float) -> None:
    """Kernel tables of graph-captured all-reduces; the fit is to whole engines, so near is within a third."""
    large = replica(LLAMA_70B, "H100", Precision.BF16, 8)
    tokens = message_bytes / (8192 * 2)
    seconds = stepper(large).decode(tokens, 1).parts.reduces / 160
    assert seconds * 1e6 == pytest.approx(measured_us, rel=0.35)


@pytest.mark.parametrize(("message_bytes", "measured_us"), [(1 << 20, 26), (8 << 20, 79), (64 << 20, 322)])
def test_tensorrt_llm_stays_with_one_shot_where_two_would_be_quicker(message_bytes: int, measured_us: float) -> None:
    """The same tables of TensorRT-LLM: slow between 1 and 8 MiB, which is decode at 64 to 512 sequences."""
    vllm = replica(LLAMA_70B, "H100", Precision.BF16, 8)
    large = replace(vllm, efficiency=CATALOG.efficiency(vllm.accelerator, EngineName.TensorRTLLM, Precision.BF16))
    tokens = message_bytes / (8192 * 2)
    seconds, elsewhere = (stepper(each).decode(tokens, 1).parts.reduces / 160 for each in (large, vllm))
    assert seconds * 1e6 == pytest.approx(measured_us, rel=0.35)
    assert seconds > elsewhere


@pytest.mark.parametrize(("ranks", "least", "most"), [(32, 0.12, 0.18), (8, 0.04, 0.08)])
def test_natural_routing_costs_wide_expert_groups_most(ranks: int, least: float, most: float) -> None:
    """Published for DeepSeek-V3 prefill on 32 H100: 15 % against perfect balance. Decode is bound by reading."""
    natural = replica(DEEPSEEK, "H100", Precision.FP8, Parallel(data=ranks, expert=ranks))
    even = replace(natural, efficiency=replace(natural.efficiency, expert_skew=0.0))
    prefill, balanced = (stepper(each).prefill(4096, 0, 1).seconds for each in (natural, even))
    assert least < prefill / balanced - 1 < most
    assert stepper(natural).decode(64, 4096).seconds == stepper(even).decode(64, 4096).seconds


def test_a_rank_with_many_experts_or_all_of_them_is_hardly_crowded() -> None:
    """Of 256 experts: the largest of e means of 256/e loads is sqrt(2 ln e / (256/e)) of their deviation out."""
    deepseek = architecture(DEEPSEEK)
    assert [0.0, 0.36, 0.93] == [round(crowding(deepseek, ranks), 2) for ranks in (1, 8, 32)]
    assert crowding(architecture(LLAMA_70B), 8) == 0.0


@pytest.mark.parametrize(("accelerator", "bridged", "bridge"), [("H100-NVL", 2, 300e9), ("H200-NVL", 4, 450e9)])
def test_a_group_beyond_a_bridge_sends_over_pcie(accelerator: str, bridged: int, bridge: float) -> None:
    """Collectives go at their slowest link, so that on twice as many cards a long prompt takes longer, not half."""
    within, beyond = (stepper(replica(LLAMA_70B, accelerator, Precision.FP8, size)) for size in (bridged, 2 * bridged))
    assert [bridge, 64e9] == [
        each.replica.accelerator.link_bandwidth(size) for each, size in ((within, bridged), (beyond, 2 * bridged))
    ]
    message = 4096 * 8192 * 2.0
    assert within.prefill(4096, 0, 1).work.reduce_seconds == pytest.approx(2 * (1 - 1 / bridged) * message / bridge)
    assert beyond.prefill(4096, 0, 1).work.reduce_seconds == pytest.approx(2 * (1 - 1 / bridged / 2) * message / 64e9)
    assert within.prefill(4096, 0, 1).seconds < beyond.prefill(4096, 0, 1).seconds


def test_one_gpu_reduces_nothing_and_one_rank_is_hit_whole() -> None:
    assert stepper(replica(LLAMA_8B, "H100", Precision.BF16)).decode(8, 100).parts.reduces == 0
    assert ranks_hit(1, 8) == 1
    assert ranks_hit(8, 8) == pytest.approx(5.25, abs=0.01)


@given(REPLICAS, BATCHES, CONTEXTS, FACTORS)
def test_a_larger_batch_or_context_is_never_faster(
    model: ReplicaModel, batch: float, context: float, factor: float
) -> None:
    steps = stepper(model)
    seconds = _finite(steps.decode(batch, context))
    assert _finite(steps.decode(batch * factor, context)) >= seconds * (1 - 1e-9)
    assert _finite(steps.decode(batch, context * factor)) >= seconds * (1 - 1e-9)


@given(
    REPLICAS,
    BATCHES,
    CONTEXTS,
    FACTORS,
    st.sampled_from(["memory_bandwidth", "scale_up_bandwidth", "network_bandwidth"]),
)
def test_more_bandwidth_is_never_slower(
    model: ReplicaModel, batch: float, context: float, factor: float, link: str
) -> None:
    value = getattr(model.accelerator, link)
    faster = replace(model, accelerator=replace(model.accelerator, **{link: value * factor}))
    assert stepper(faster).decode(batch, context).seconds <= stepper(model).decode(batch, context).seconds * (1 + 1e-9)
    before = stepper(model).prefill(context, 0, 1).seconds
    assert stepper(faster).prefill(context, 0, 1).seconds <= before * (1 + 1e-9)


@given(REPLICAS, BATCHES, CONTEXTS, FACTORS)
def test_more_flops_are_never_slower(model: ReplicaModel, batch: float, context: float, factor: float) -> None:
    flops = tuple((precision, peak * factor) for precision, peak in model.accelerator.flops)
    faster = replace(model, accelerator=replace(model.accelerator, flops=flops))
    assert stepper(faster).decode(batch, context).seconds <= stepper(model).decode(batch, context).seconds * (1 + 1e-9)


@given(REPLICAS, st.floats(1, 100_000), FACTORS)
def test_a_longer_prompt_is_never_faster(model: ReplicaModel, tokens: float, factor: float) -> None:
    steps = stepper(model)
    assert _finite(steps.prefill(tokens * factor, 0, 1)) >= _finite(steps.prefill(tokens, 0, 1)) * (1 - 1e-9)


@pytest.mark.parametrize(("tokens", "most"), [(1000, 3300), (250, 7400)])
def test_one_prediction_makes_so_many_calls(tokens: int, most: int) -> None:
    """Deciding tries a hundred shapes: 3,200 calls each, which take 2.2 ms where a yard takes 50 microseconds.

    Short prompts take twice as many, as a batch that outgrows its captured graph now and then wanders (ADR 0114).
    """
    model, slo = replica(LLAMA_70B, "H200", Precision.FP8, 2), Slo(((95, 1.0),), ((95, 0.05),))
    loads = [workload(tokens + each) for each in range(20)]  # an answer is remembered
    _, calls = counted(lambda: [predict(model, load, slo, Role.Aggregated) for load in loads])
    assert most > calls / len(loads)


def _finite(step: StepTime) -> float:
    assert 0 < step.seconds < 1e6
    return step.seconds
