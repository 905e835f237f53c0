"""Pipelines: what stages cost, held against a simulation of one, and that they never give more than their number."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.perf.replicas import Parallel, architecture, replica, workload
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Slo
from weft.perf import ReplicaModel, predict
from weft.perf.benchmarks.closed_loop import ClosedLoop, closed_loop_latencies, closed_loop_work
from weft.perf.benchmarks.offline import offline_throughput
from weft.perf.benchmarks.seats import seats, seats_together
from weft.perf.service import service
from weft.perf.stages import Stages, stages_of
from weft.perf.steps import stepper

LLAMA_8B, LLAMA_70B, LLAMA_405B = "Llama-3.1-8B-Instruct", "Llama-3.3-70B-Instruct", "Llama-3.1-405B-Instruct"
FITTING_ONE = st.sampled_from(
    [
        (LLAMA_8B, "H100", Precision.BF16, 1),
        (LLAMA_70B, "H200", Precision.FP8, 1),
        (LLAMA_70B, "MI300X", Precision.BF16, 4),
        ("gpt-oss-120b", "B200", Precision.MXFP4, 1),
        ("DeepSeek-V3", "B200", Precision.FP8, 8),
    ]
)
COUNTS = st.sampled_from([2, 3, 4, 8])
TOKENS = st.floats(16, 8000)
SLACK = 1 + 1e-9


def in_stages(of: tuple[str, str, Precision, int], count: int) -> ReplicaModel:
    model, accelerator, precision, tensor = of
    return replica(model, accelerator, precision, Parallel(tensor=tensor, pipeline=count))


def rounds_of(stages: int, chance: float, prompt: float, rounds: int = 4000) -> float:
    """Mean seconds of a round, of microbatches that take one second alone, and so much more with a prompt.

    Every microbatch is in one stage at a time, every stage has one microbatch at a time, and none overtakes.
    """
    generator, free, back = random.Random(1), [0.0] * stages, [0.0] * stages
    for _ in range(rounds):
        for microbatch in range(stages):
            each = (1.0 + prompt * (generator.random() < chance)) / stages
            for stage in range(stages):
                back[microbatch] = free[stage] = max(back[microbatch], free[stage]) + each
    return max(back) / rounds


def stalled(stages: int, rate: float, prompt: float, prompts: int = 4000) -> float:
    """The part of the time that prompts at random steal from rounds of one second, each `prompt` seconds of way."""
    generator, free, back = random.Random(1), [0.0] * stages, [0.0] * stages
    came, turn = generator.expovariate(rate), 0
    while prompts:
        microbatch, turn = turn % stages, turn + 1
        has_one = came <= max(back[microbatch], free[0])
        if has_one:
            prompts, came = prompts - 1, came + generator.expovariate(rate)
        for stage in range(stages):
            back[microbatch] = free[stage] = max(back[microbatch], free[stage]) + (1.0 + prompt * has_one) / stages
    return 1.0 - turn / stages / max(back)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("chance", [0.05, 0.2, 0.5, 1.0])
def test_what_prompts_steal_is_near_a_simulation_of_microbatches_that_cannot_overtake(
    count: int, chance: float
) -> None:
    """Within an eighth; the lone prompt costs all of its way, and one in every microbatch a stage of it."""
    even = Stages(float(count), 1.0 / count, 1.0 / count)
    stolen = count * chance * 3.0 / even.beside(count * chance)
    assert stolen == pytest.approx(rounds_of(count, chance, 3.0) - 1.0, rel=0.125)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("prompt", [1.0, 5.0, 20.0])
@pytest.mark.parametrize("load", [0.2, 0.6, 1.0])
def test_what_prompts_at_random_steal_is_near_a_simulation_too(count: int, prompt: float, load: float) -> None:
    """`load` of the time if each took its whole way alone. Within an eighth."""
    even = Stages(float(count), 1.0 / count, 1.0 / count)
    stolen = load / even.beside_at_random(load / prompt, 1.0, prompt)
    assert stolen == pytest.approx(stalled(count, load / prompt, prompt), rel=0.125)


def test_the_fullest_stage_has_what_is_left_over_and_the_last_one_has_not() -> None:
    """126 layers in four stages: 31 or 32, and 31 beside the head."""
    found = stages_of(architecture(LLAMA_405B), in_stages((LLAMA_405B, "B200", Precision.NVFP4, 4), 4).shape)
    assert (32 / 126, 31 / 126) == (found.fullest, found.last)
    assert 126 / 32 == found.even


def test_chunks_of_a_prompt_follow_each_other_through_stages() -> None:
    """One takes its whole way; of four, three come a stage behind: 1 + 3/2 of two stages, and not 4."""
    two = Stages(2.0, 0.5, 0.5)
    assert [1.0, 2.5 / 4.0] == [two.way(1), two.way(4)]


def test_a_round_takes_as_long_as_the_slowest_stage_for_every_microbatch() -> None:
    """Two even stages, of which the last has the head too: a token waits for one more head."""
    model = in_stages((LLAMA_8B, "H100", Precision.BF16, 1), 2)
    step, reached = stepper(model).decode(64, 1000), model.efficiency
    sampling = step.work.sequences * reached.sequence_seconds
    assert step.parts.bubbles == pytest.approx(step.parts.head + sampling - step.parts.hops)
    assert 0 == stepper(model).decode(1, 1000).parts.bubbles


def test_uneven_stages_wait_for_the_fullest() -> None:
    """Eight stages of 126 layers have up to 16: a round takes as long as 128 layers."""
    uneven = stepper(in_stages((LLAMA_405B, "B200", Precision.NVFP4, 2), 8)).decode(512, 4000)
    layers = sum(uneven.parts) - uneven.parts.bubbles - uneven.parts.head - uneven.parts.hops
    assert 128 / 126 * layers < sum(uneven.parts)


@given(FITTING_ONE, COUNTS, st.floats(1, 500), TOKENS)
def test_a_step_of_stages_is_never_faster_than_one_gpu_with_its_part_of_the_batch(
    model: tuple[str, str, Precision, int], count: int, batch: float, context: float
) -> None:
    one, cut = (stepper(in_stages(model, each)) for each in (1, count))
    alone = one.decode(batch, context).seconds
    assert alone <= cut.decode(count * batch, context).seconds * SLACK
    assert one.decode(1, context).seconds < cut.decode(1, context).seconds
    whole, parted = one.prefill(context, 0, 1), cut.prefill(context, 0, 1)
    assert whole.seconds <= parted.seconds * SLACK  # the same where the host takes longer to launch either
    assert whole.seconds - whole.parts.waits < parted.seconds - parted.parts.waits


@given(FITTING_ONE, COUNTS, st.floats(1, 200), TOKENS, TOKENS)
def test_stages_never_give_more_than_their_number_at_the_same_batch_per_gpu(
    model: tuple[str, str, Precision, int], count: int, users: float, prompt: float, answer: float
) -> None:
    """Offline and with a fixed number of users, who all have a seat on one GPU."""
    one, cut = (in_stages(model, each) for each in (1, count))
    assume(users <= seats_together(one, prompt, answer))
    assume(count * users <= seats(cut, prompt, answer))
    alone, together = (
        offline_throughput(each, prompt, answer, most) for each, most in ((one, users), (cut, count * users))
    )
    assert together.output_tokens_per_second <= count * alone.output_tokens_per_second * SLACK
    for equal in (True, False):
        few, many = (
            closed_loop_latencies(
                closed_loop_work(each, ClosedLoop(most, prompt, answer, equal_lengths=equal)), each.efficiency
            )
            for each, most in ((one, users), (cut, count * users))
        )
        assert few.tpot <= many.tpot * SLACK
        assert few.ttft <= many.ttft * SLACK


@settings(max_examples=40)
@given(FITTING_ONE, COUNTS, st.floats(0.05, 0.95), TOKENS, TOKENS)
def test_stages_never_answer_more_than_their_number_of_requests_at_the_same_batch_per_gpu(
    model: tuple[str, str, Precision, int], count: int, part: float, prompt: float, answer: float
) -> None:
    """At random, with lengths that differ; where prompts would fill more than all the time there is no such rate.

    But for 6 %: before stages that have prompts nearly always, all wait in one line, and fewer of them.
    """
    one, cut = (service(in_stages(model, each), workload(prompt, answer), Role.Aggregated) for each in (1, count))
    batch = part * min(one.seats, cut.seats / count)
    assume(batch > 0)
    reached = cut.at_batch(count * batch)
    if reached.utilisation < 1.0:
        assert reached.rate <= count * one.at_batch(batch).rate * (1.06 if reached.utilisation > 0.9 else SLACK)


@settings(max_examples=20)
@given(FITTING_ONE, COUNTS, TOKENS, TOKENS)
def test_stages_serve_at_most_their_number_where_the_engine_and_not_memory_bounds_the_batch(
    model: tuple[str, str, Precision, int], count: int, prompt: float, answer: float
) -> None:
    """Without targets. With more memory per layer, stages may serve more: that is room for KV and not speed."""
    one, cut = (in_stages(model, each) for each in (1, count))
    few, many = (replace(each, efficiency=replace(each.efficiency, sequences=16.0)) for each in (one, cut))
    assume(seats(few, prompt, answer) == few.efficiency.sequences * few.shape.data_parallel)
    alone, together = (predict(each, workload(prompt, answer), Slo(), Role.Aggregated).capacity for each in (few, many))
    assert together <= count * alone * 1.004


WIDE = replica("DeepSeek-V3", "GB200", Precision.NVFP4, Parallel(tensor=2, data=8, pipeline=2, expert=16))
IN_TWO_STAGES = replica(LLAMA_405B, "B200", Precision.NVFP4, Parallel(tensor=2, pipeline=2))
IN_LOCKSTEP = st.sampled_from(
    [
        WIDE,
        replica("DeepSeek-V3", "GB200", Precision.NVFP4, Parallel(data=2, pipeline=4, expert=2)),
        replica("gpt-oss-120b", "H100", Precision.MXFP4, Parallel(data=8, pipeline=2, expert=8)),
        IN_TWO_STAGES,
    ]
)


@settings(max_examples=40)
@example(WIDE, 16_000, 100, 0.5, 1.4)
@example(IN_TWO_STAGES, 3317, 30, 0.91, 1.04)
@given(IN_LOCKSTEP, st.floats(500, 16_000), st.floats(30, 1000), st.floats(0.05, 0.9), st.floats(1.0, 2.0))
def test_tokens_come_no_faster_at_a_higher_rate(
    model: ReplicaModel, prompt: float, answer: float, load: float, factor: float
) -> None:
    """However far prompts of all ranks fill the microbatches of a round: those of others join them too."""
    server = service(model, workload(prompt, answer), Role.Aggregated)
    top = server.highest * model.shape.data_parallel
    few, many = (server.at_rate(part * top) for part in (load, min(0.95, load * factor)))
    assert few is not None
    assert many is not None
    assert few.tpot.mean <= many.tpot.mean * 1.004
    assert few.tpot.at(95) <= many.tpot.at(95) * 1.02


FULL_OF_PROMPTS = [
    (replica(LLAMA_405B, "H200", Precision.FP8, Parallel(pipeline=4)), 1571, 36),
    (IN_TWO_STAGES, 3317, 30),
]


@pytest.mark.parametrize(("model", "prompt", "answer"), FULL_OF_PROMPTS)
def test_where_prompts_leave_little_time_a_batch_is_still_what_arrives_while_an_answer_is_made(
    model: ReplicaModel, prompt: float, answer: float
) -> None:
    """Little's law, with the prompts that queue behind others: within 1 %, and no larger batch at a lower rate."""
    server, rates = service(model, workload(prompt, answer), Role.Aggregated), []
    for sixtieth in range(1, 61):
        batch = sixtieth / 60 * server.seats
        steps, whole = server.gaps[0], server.steps.decode(batch + 1.0, server.context_tokens).step_seconds
        load = server.loads.at(batch, steps, whole)
        assert load.rate * (steps * whole + load.backlog.mean) / load.free == pytest.approx(batch, rel=0.01)
        rates.append(load.rate)
    assert rates == sorted(rates)


@pytest.mark.parametrize("sizes", [Parallel(pipeline=4), Parallel(tensor=2, pipeline=2)])
def test_a_pipeline_full_of_prompts_serves_nearly_what_it_does_offline(sizes: Parallel) -> None:
    """As a tensor group does: at its capacity, all stages have a prompt nearly always."""
    model, group = (replica(LLAMA_70B, "H100", Precision.FP8, each) for each in (sizes, Parallel(tensor=4)))

    def kept(each: ReplicaModel) -> float:
        served = predict(each, workload(1000, 64), Slo(), Role.Aggregated).capacity
        return served * 64 / offline_throughput(each, 1000, 64).output_tokens_per_second

    assert 0.8 < kept(model) < 1.0
    assert kept(model) == pytest.approx(kept(group), rel=0.1)


@pytest.mark.parametrize("count", [2, 4])
def test_a_longer_prompt_is_never_sooner_through_the_stages(count: int) -> None:
    """One token more than a step holds is a second step, for that token alone."""
    model = in_stages((LLAMA_70B, "H100", Precision.FP8, 1), count)
    budget = model.efficiency.batched_tokens
    lengths = [part * budget for part in (0.5, 0.99, 1.0, 1.01, 1.5, 2.0, 2.01, 3.0)]
    alone = [workload(each, 100) for each in lengths]
    even = [replace(each, input_tokens_p95=each.input_tokens) for each in alone]
    found = [service(model, each, Role.Aggregated).prompts.own(0.0)[0] for each in even]
    assert found == sorted(found)
    spread = service(model, workload(0.6 * budget, 100), Role.Aggregated).prompts.own(0.0)[2]
    assert [seconds for _, seconds in spread] == sorted(seconds for _, seconds in spread)
