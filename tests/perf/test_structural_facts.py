"""Facts that published measurements agree on, as directions and rough sizes, and properties of every prediction.

What `test_offline`, `test_capacity`, `test_steps` and `test_disaggregated` hold is not repeated here. A rough size is a
ratio within a factor of 1.5 of the published one. Offline facts are of TensorRT-LLM, whose tables they come from.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.perf.replicas import CATALOG, Parallel, architecture, replica
from weft.catalog.parameters import mixer_parameters
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName
from weft.domain.workload import Role, Slo, Workload
from weft.perf import ReplicaModel, at_rate, kv_bytes_per_token, predict, sequence_bytes_per_gpu
from weft.perf.benchmarks.disaggregated import Half, disaggregated_latencies
from weft.perf.benchmarks.offline import offline_throughput
from weft.perf.benchmarks.seats import seats
from weft.perf.memory import layer_weights, linear_parameters_per_gpu, weight_bytes_per_gpu

if TYPE_CHECKING:
    from weft.domain.shape import Percentiles

LLAMA_70B, LLAMA_405B, DEEPSEEK = "Llama-3.3-70B-Instruct", "Llama-3.1-405B-Instruct", "DeepSeek-V3"
GPT_OSS = "gpt-oss-120b"
SIZES = (1, 2, 4, 8)
# Prompt and answer of the published offline tables.
LENGTHS = (
    (128, 2048),
    (128, 4096),
    (500, 2000),
    (1000, 1000),
    (1000, 2000),
    (2048, 128),
    (2048, 2048),
    (5000, 500),
    (20000, 2000),
)
ROUGHLY = 1.5


def measured_replica(model: str, accelerator: str, precision: Precision, parallel: Parallel | int = 1) -> ReplicaModel:
    """As the tables have it: TensorRT-LLM with a KV cache in FP8."""
    found = replica(model, accelerator, precision, parallel, kv=Precision.FP8)
    efficiency = CATALOG.efficiency(found.accelerator, EngineName.TensorRTLLM, precision)
    return replace(found, shape=replace(found.shape, engine=EngineName.TensorRTLLM), efficiency=efficiency)


def per_gpu(model: ReplicaModel, lengths: tuple[float, float]) -> float:
    """Output tokens a second and GPU with all requests queued at once."""
    return offline_throughput(model, *lengths).output_tokens_per_second / model.shape.gpus


def by_size(accelerator: str, precision: Precision) -> list[dict[int, float]]:
    """70B per GPU by tensor-parallel size, for each pair of lengths."""
    models = {size: measured_replica(LLAMA_70B, accelerator, precision, size) for size in SIZES}
    return [{size: per_gpu(model, lengths) for size, model in models.items()} for lengths in LENGTHS]


def best(found: dict[int, float]) -> int:
    return max(found, key=found.__getitem__)


def is_roughly(published: float, predicted: float) -> bool:
    return published / ROUGHLY < predicted < published * ROUGHLY


class TestOffline:
    """Throughput per GPU at whatever latency."""

    @pytest.mark.parametrize(
        ("accelerator", "precision", "kept"), [("H200", Precision.FP8, 0.62), ("B200", Precision.NVFP4, 0.42)]
    )
    def test_70b_is_best_on_one_gpu_and_eight_keep_part_of_it(
        self, accelerator: str, precision: Precision, kept: float
    ) -> None:
        """In most shapes; where prompts are so long that one GPU holds few of them, two are better."""
        found = by_size(accelerator, precision)
        assert [best(each) for each in found].count(1) >= len(LENGTHS) - 1
        assert is_roughly(kept, median(each[8] / each[1] for each in found))

    def test_the_faster_gpu_loses_more_by_tensor_parallelism(self) -> None:
        """Its steps are shorter, and collectives are not."""
        slower, faster = by_size("H200", Precision.FP8), by_size("B200", Precision.NVFP4)
        assert all(fast[8] / fast[1] < slow[8] / slow[1] for slow, fast in zip(slower, faster, strict=True))

    def test_70b_on_h100_is_best_on_two_or_four(self) -> None:
        """One has hardly any room for KV: not a quarter of the seats that each of two has."""
        found = by_size("H100", Precision.FP8)
        assert {best(each) for each in found} == {2, 4}
        one, two = (seats(measured_replica(LLAMA_70B, "H100", Precision.FP8, size), 1000, 1000) for size in (1, 2))
        assert one < two / 2 / 4

    def test_gpt_oss_gives_two_and_a_half_times_as_much_on_two_h100(self) -> None:
        """More than twice, since the second GPU brings room for KV; less where prompts are most of the work."""
        one, two = (measured_replica(GPT_OSS, "H100", Precision.MXFP4, size) for size in (1, 2))
        raised = [2 * per_gpu(two, lengths) / per_gpu(one, lengths) for lengths in LENGTHS]
        assert median(raised) > 2
        assert is_roughly(2.5, median(raised))
        assert seats(two, 1000, 1000) > 2 * 2 * seats(one, 1000, 1000)


def at_most(ttft: float, tpot: float) -> Slo:
    """Limits in seconds that 99 % of the requests keep, as MLPerf Inference sets them."""
    return Slo(ttft=((99, ttft),), tpot=((99, tpot),))


# MLPerf Inference 5.1: mean lengths of its data sets, whose answers have long tails where a model reasons.
REASONING = Workload(1.0, 800, 3880, 1600, 9700)
LONG_PROMPTS = Workload(1.0, 9400, 680, 18800, 1020)
SERVER_R1, SERVER_405B, INTERACTIVE_405B = at_most(2.0, 0.080), at_most(6.0, 0.175), at_most(4.5, 0.080)
R1_ON_B200 = tuple(
    measured_replica(DEEPSEEK, "B200", Precision.NVFP4, sizes)
    for sizes in (Parallel(tensor=8), Parallel(tensor=8, expert=8), Parallel(data=8, expert=8))
)
STAGES, GROUP, BOTH = (
    measured_replica(LLAMA_405B, "B200", Precision.NVFP4, sizes)
    for sizes in (Parallel(tensor=2, pipeline=2), Parallel(tensor=4), Parallel(tensor=4, pipeline=2))
)
ALL_405B = (STAGES, GROUP, BOTH, measured_replica(LLAMA_405B, "B200", Precision.NVFP4, 8))


def within(model: ReplicaModel, workload: Workload, slo: Slo) -> float:
    """Output tokens a second and GPU within limits."""
    return predict(model, workload, slo, Role.Aggregated).capacity * workload.output_tokens / model.shape.gpus


def kept_within(models: tuple[ReplicaModel, ...], workload: Workload, slo: Slo) -> float:
    """Of the best offline rate, what the best shape gives within limits."""
    lengths = (workload.input_tokens, workload.output_tokens)
    return max(within(each, workload, slo) for each in models) / max(per_gpu(each, lengths) for each in models)


class TestLatencyLimits:
    """What limits cost, and which shape they favour."""

    def test_405b_wants_stages_offline_and_a_tensor_group_within_limits(self) -> None:
        lengths = (LONG_PROMPTS.input_tokens, LONG_PROMPTS.output_tokens)
        assert per_gpu(STAGES, lengths) > per_gpu(GROUP, lengths)
        assert within(GROUP, LONG_PROMPTS, INTERACTIVE_405B) > 1.1 * within(STAGES, LONG_PROMPTS, INTERACTIVE_405B)

    @pytest.mark.parametrize(
        ("models", "workload", "slo", "published"),
        [
            (R1_ON_B200, REASONING, SERVER_R1, 0.56),
            (ALL_405B, LONG_PROMPTS, SERVER_405B, 0.76),
            (ALL_405B, LONG_PROMPTS, INTERACTIVE_405B, 0.46),
        ],
        ids=["R1 server", "405B server", "405B interactive"],
    )
    def test_limits_cost_a_part_of_the_offline_rate(
        self, models: tuple[ReplicaModel, ...], workload: Workload, slo: Slo, published: float
    ) -> None:
        """What is left of the gap is told in docs/limits.md."""
        kept = kept_within(models, workload, slo)
        assert kept < 0.9
        assert is_roughly(published, kept)

    def test_tighter_limits_cost_more(self) -> None:
        server, interactive = (kept_within(ALL_405B, LONG_PROMPTS, slo) for slo in (SERVER_405B, INTERACTIVE_405B))
        assert interactive < 0.9 * server


def best_prefills(lengths: tuple[float, float]) -> int:
    """Of eight equal replicas, how many prefill where the most requests are answered (Little's law)."""
    model, users = replica(LLAMA_70B, "H200", Precision.FP8, 2), 256

    def per_second(prefills: int) -> float:
        found = disaggregated_latencies(Half(model, prefills), Half(model, 8 - prefills), users, *lengths)
        return users / (found.ttft + lengths[1] * found.tpot)

    return max(range(1, 8), key=per_second)


def test_the_best_ratio_moves_from_prefill_to_decode_as_answers_grow() -> None:
    found = [best_prefills(lengths) for lengths in ((16000, 100), (8000, 400), (2000, 1000), (500, 4000))]
    assert sorted(found, reverse=True) == found
    assert found[0] > 4 > found[-1]


MODELS = (
    replica(LLAMA_70B, "H200", Precision.FP8, 2),
    replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16),
    replica(DEEPSEEK, "GB200", Precision.FP8, Parallel(tensor=2, data=8, expert=16)),
    replica(GPT_OSS, "H100", Precision.MXFP4, 2),
    replica(LLAMA_405B, "B200", Precision.NVFP4, Parallel(tensor=2, pipeline=2)),
)
WORKLOADS = st.builds(
    lambda prompt, answer, hit: Workload(1.0, prompt, answer, 2 * prompt, 2 * answer, hit),
    st.floats(100, 20_000),
    st.floats(64, 4000),
    st.sampled_from([0.0, 0.5, 0.9]),
)
ROLES = st.sampled_from(list(Role))
FEW = settings(max_examples=40)
SEARCHED = 1.004  # a capacity is that of a load, or of a target, that is found to 0.2 %


def with_more(model: ReplicaModel, what: str, factor: float) -> ReplicaModel:
    """The same devices with more of something."""
    device = model.accelerator
    if what == "flops":
        faster = replace(device, flops=tuple((precision, factor * rate) for precision, rate in device.flops))
    elif what == "memory bandwidth":
        faster = replace(device, memory_bandwidth=factor * device.memory_bandwidth)
    else:
        faster = replace(device, scale_up_bandwidth=factor * device.scale_up_bandwidth)
    return replace(model, accelerator=faster)


def latencies(model: ReplicaModel, workload: Workload, rate: float, role: Role) -> tuple[Percentiles, Percentiles]:
    found = at_rate(model, replace(workload, requests_per_second=rate), role)
    assert found is not None
    return found


# Ranks in lockstep hold each other up nearly all the time.
PROMPTS_ABOVE_ALL = Workload(1.0, 16_000, 100, 32_000, 200)
BETTER = st.builds(
    lambda model, what, factor: (model, with_more(model, what, factor)),
    st.sampled_from(MODELS),
    st.sampled_from(["flops", "memory bandwidth", "link"]),
    st.floats(1.0, 4.0),
)


@FEW
@given(BETTER, WORKLOADS, ROLES)
@example((MODELS[2], with_more(MODELS[2], "memory bandwidth", 3.0)), PROMPTS_ABOVE_ALL, Role.Aggregated)
@example(
    (MODELS[2], with_more(MODELS[2], "memory bandwidth", 3.7)),
    replace(PROMPTS_ABOVE_ALL, prefix_hit=0.5),
    Role.Aggregated,
)
def test_better_devices_never_serve_less(
    devices: tuple[ReplicaModel, ReplicaModel], workload: Workload, role: Role
) -> None:
    """Without targets, and within half again what an idle replica reaches."""
    model, better = devices
    idle = latencies(model, workload, 1e-6, role)[1].p95
    tight, loose = (Slo(tpot=((95, slack * 1.5 * idle),)) if idle > 0 else Slo() for slack in (1.0, SEARCHED))
    for before, after in ((Slo(), Slo()), (tight, loose)):
        served = predict(model, workload, before, role).capacity
        assert 0 < served <= SEARCHED * predict(better, workload, after, role).capacity


@FEW
@given(BETTER, WORKLOADS, ROLES, st.floats(0.05, 0.7))
def test_better_devices_never_answer_later(
    devices: tuple[ReplicaModel, ReplicaModel], workload: Workload, role: Role, load: float
) -> None:
    """Means, and every percentile of TPOT, at a rate that the slower one can take.

    Percentiles of TTFT are those of a fitted distribution, and may be off by a few percent (docs/limits.md).
    """
    rate = load * predict(devices[0], workload, Slo(), role).capacity
    slow, fast = (latencies(each, workload, rate, role) for each in devices)
    assert fast[0].mean <= SEARCHED * slow[0].mean
    for percentile in ("mean", "p50", "p90", "p95", "p99"):
        assert getattr(fast[1], percentile) <= SEARCHED * getattr(slow[1], percentile)


@FEW
@given(st.sampled_from(MODELS), WORKLOADS, ROLES, st.floats(0.05, 0.95), st.floats(0.1, 1.0))
def test_less_load_is_never_answered_later(
    model: ReplicaModel, workload: Workload, role: Role, load: float, part: float
) -> None:
    rate = load * predict(model, workload, Slo(), role).capacity
    busy, calm = (latencies(model, workload, each, role) for each in (rate, part * rate))
    for percentile in ("mean", "p90", "p95"):
        for many, few in zip(busy, calm, strict=True):
            assert getattr(few, percentile) <= SEARCHED * getattr(many, percentile)


SHARDED = st.sampled_from([LLAMA_70B, LLAMA_405B, DEEPSEEK, GPT_OSS, "Qwen3-235B-A22B", "Qwen3-30B-A3B"])
POWERS = st.sampled_from([1, 2, 4, 8, 16])


def copies_in_a_tensor_group(model_id: str, tensor: int) -> float:
    """Parameters beyond one copy: KV projections of heads that are fewer than GPUs, and what no head owns."""
    extra = 0.0
    for block in architecture(model_id).blocks:
        mixer = mixer_parameters(architecture(model_id).hidden, block.mixer)
        heads = getattr(block.mixer, "kv_heads", 1)
        extra += block.count * (mixer.by_kv_heads * max(0.0, tensor / heads - 1.0) + mixer.whole * (tensor - 1))
    return extra


@FEW
@given(SHARDED, POWERS, POWERS)
def test_ranks_hold_the_model_and_the_copies_that_are_stated_and_nothing_else(
    model_id: str, tensor: int, data: int
) -> None:
    """Experts exactly once over the whole group; the rest once in each data-parallel rank."""
    whole = replica(model_id, "GB200", Precision.BF16)
    sharded = replica(model_id, "GB200", Precision.BF16, Parallel(tensor=tensor, data=data, expert=tensor * data))
    everything, part = layer_weights(whole), layer_weights(sharded)
    assert everything.experts == pytest.approx(part.experts * tensor * data)
    assert everything.head == pytest.approx(part.head * tensor)
    in_a_rank = linear_parameters_per_gpu(sharded) * tensor
    assert linear_parameters_per_gpu(whole) + copies_in_a_tensor_group(model_id, tensor) == pytest.approx(in_a_rank)


@FEW
@given(SHARDED, POWERS, st.sampled_from([1, 2, 3, 4, 8]))
def test_stages_hold_every_layer_once(model_id: str, tensor: int, stages: int) -> None:
    """The fullest stage has at most one layer more than the others."""
    one = replica(model_id, "GB200", Precision.BF16, tensor)
    cut = replica(model_id, "GB200", Precision.BF16, Parallel(tensor=tensor, pipeline=stages))
    layers = layer_weights(one)
    spare = (layers.linear + layers.experts) / architecture(model_id).layers
    in_all = weight_bytes_per_gpu(one)
    embeddings = in_all - layers.linear - layers.experts
    fullest = weight_bytes_per_gpu(cut)
    assert in_all / stages <= fullest * (1 + 1e-9)
    assert fullest <= (in_all - embeddings) / stages + spare + embeddings


@FEW
@given(SHARDED, POWERS, st.sampled_from([1, 2, 4]))
def test_a_token_is_kept_once_or_in_the_copies_that_heads_make(model_id: str, tensor: int, stages: int) -> None:
    """Latent attention has one head for all: a copy on each GPU of the tensor group. Windows end before the context."""
    found = architecture(model_id)
    sharded = replica(model_id, "GB200", Precision.BF16, Parallel(tensor=tensor, pipeline=stages))
    grown = sequence_bytes_per_gpu(sharded, 101) - sequence_bytes_per_gpu(sharded, 100)
    heads = max(getattr(block.mixer, "kv_heads", 1) for block in found.blocks)
    copies = max(1.0, tensor / heads)
    assert kv_bytes_per_token(found) * copies == pytest.approx(grown * tensor * stages)


@pytest.mark.parametrize(("accelerator", "nearer"), [("H100", 1.29), ("B200", 1.26)])
def test_dense_matrices_in_bf16_come_nearer_to_the_data_sheet_than_in_fp8(accelerator: str, nearer: float) -> None:
    """By as much as kernels alone; experts, of which nobody tells, by nothing."""
    known = CATALOG.accelerator(accelerator)
    bf16, fp8 = (CATALOG.efficiency(known, EngineName.VLLM, each) for each in (Precision.BF16, Precision.FP8))
    assert bf16.prefill / fp8.prefill == pytest.approx(nearer, rel=0.02)
    assert bf16.matmul / fp8.matmul == pytest.approx(nearer, rel=0.05)
    assert bf16.prefill_experts / fp8.prefill_experts == pytest.approx(1.0, rel=0.02)
