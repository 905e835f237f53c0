"""Fixed concurrency: arithmetic by hand, and laws of waiting users."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import Parallel, replica
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Workload
from weft.perf.benchmarks.closed_loop import (
    USUAL_ROUNDS,
    ClosedLoop,
    Latencies,
    closed_loop_latencies,
    closed_loop_work,
)
from weft.perf.benchmarks.seats import seats
from weft.perf.service import service
from weft.perf.sharing import prompts_of_a_step
from weft.perf.steps import prefill_seconds, stepper

if TYPE_CHECKING:
    from weft.perf import ReplicaModel

H200 = replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
WIDE = replica("DeepSeek-V3", "GB200", Precision.FP8, Parallel(data=8, expert=8))
REPLICAS = st.sampled_from(
    [
        H200,
        WIDE,
        replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16),
        replica("gpt-oss-120b", "H100", Precision.MXFP4),
    ]
)
USERS = st.integers(1, 5000)
LENGTHS = st.floats(1, 20_000)
ROUNDS = st.sampled_from([1.0, 3.0, USUAL_ROUNDS, 50.0, math.inf])
SLACK = 1 + 1e-9


def latencies(
    model: ReplicaModel,
    users: float,
    lengths: tuple[float, float] = (1000, 1000),
    *,
    equal: bool = False,
    rounds: float = USUAL_ROUNDS,
) -> Latencies:
    load = ClosedLoop(users, *lengths, equal_lengths=equal, rounds=rounds)
    return closed_loop_latencies(closed_loop_work(model, load), model.efficiency)


def shared(model: ReplicaModel, users: float) -> float:
    """Seconds of a prompt of a thousand tokens, for answers of a thousand, with those that come in the same step."""
    parts = stepper(model).prefill(1000, 0, 1 / prompts_of_a_step(users / 1000, 8)).parts
    return sum(parts) - parts.launch


def filled_steps(model: ReplicaModel, users: int, lengths: tuple[float, float]) -> Latencies:
    """Mean latencies of a loop whose every step decodes who is past the prompt, and fills up with prompts in order."""
    steps, budget = stepper(model), int(model.efficiency.batched_tokens)
    token = (steps.prefill(lengths[0], 0, lengths[0] / budget).seconds) / lengths[0]
    waiting, past, now = [[-0.05 * user, lengths[0]] for user in range(users)], list[list[float]](), 0.0
    ttft, tpot = list[float](), list[float]()
    while len(ttft) < 40 * users:
        room = budget - len(past)
        taken, first = 0.0, list[float]()
        while waiting and taken < room:
            part = min(room - taken, waiting[0][1])
            taken, waiting[0][1] = taken + part, waiting[0][1] - part
            if waiting[0][1] <= 0:
                first.append(waiting.pop(0)[0])
        now += token * taken + (steps.decode(len(past), lengths[0] + lengths[1] / 2).seconds if past else 0.0)
        for one in past:
            one[1] -= 1
        tpot += [(now - since) / (lengths[1] - 1) for since, left in past if left == 0]
        asks = [now for _, left in past if left == 0] + ([now] * len(first) if lengths[1] == 1 else [])
        past = [one for one in past if one[1] > 0]
        ttft += [model.efficiency.request_seconds + now - came for came in first]
        past += [[now, lengths[1] - 1] for _ in first if lengths[1] > 1]
        waiting += [[each, lengths[0]] for each in asks]
    settled, done = ttft[20 * users :], tpot[len(tpot) // 2 :]
    return Latencies(sum(settled) / len(settled), sum(done) / len(done) if done else 0.0)


def test_one_user_waits_for_the_api_server_a_prompt_and_a_step_and_then_for_steps() -> None:
    steps, reached = stepper(H200), H200.efficiency
    step, prompt = steps.decode(1, 1500), steps.prefill(1000, 0, 1)
    found = latencies(H200, 1)
    assert found.tpot == pytest.approx(step.seconds)
    behind_itself = reached.at_once * shared(H200, 1)
    assert found.ttft == pytest.approx(reached.request_seconds + prompt.seconds + behind_itself + step.seconds)


def test_who_is_looked_at_every_tenth_step_waits_for_half_of_them() -> None:
    step = stepper(H200).decode(4, 1500).seconds

    def ttft(steps: float) -> float:
        load = ClosedLoop(4, 1000, 1000, equal_lengths=False, looks_every=steps)
        return closed_loop_latencies(closed_loop_work(H200, load), H200.efficiency).ttft

    assert ttft(10.0) - ttft(1.0) == pytest.approx(4.5 * step)


def test_eight_users_lose_the_prompts_of_seven_others_over_every_answer() -> None:
    steps, reached = stepper(H200), H200.efficiency
    step, prompt, own = steps.decode(8, 1500).seconds, shared(H200, 8), steps.prefill(1000, 0, 1)
    alone = own.seconds - own.parts.launch
    found = latencies(H200, 8)
    assert found.tpot == pytest.approx(step + 7 / 1000 * prompt)
    ttft = reached.request_seconds + step + own.seconds + prompt * 8 * reached.at_once
    assert found.ttft == pytest.approx(ttft)
    equal = latencies(H200, 8, equal=True)
    assert equal.ttft - found.ttft == pytest.approx(alone * 3.5 * reached.equal_at_once)
    assert equal.tpot == found.tpot


def first_round(model: ReplicaModel, users: int, input_tokens: int) -> float:
    """Mean TTFT of users who all ask at once: as many prompts as fill a step go together, beside those answered."""
    steps, together = stepper(model), int(model.efficiency.batched_tokens) // input_tokens
    now, ttft = model.efficiency.request_seconds, list[float]()
    while len(ttft) < users:
        decoding = steps.decode(len(ttft), input_tokens).seconds if ttft else 0.0
        taken = min(together, users - len(ttft))
        now += taken * steps.prefill(input_tokens, 0, input_tokens / model.efficiency.batched_tokens).seconds + decoding
        ttft += [now] * taken
    return sum(ttft) / users


@pytest.mark.parametrize("input_tokens", [128, 1024, 4096])
@pytest.mark.parametrize("users", [8, 64, 100])
def test_who_all_ask_once_wait_as_steps_filled_with_their_prompts_take(users: int, input_tokens: int) -> None:
    simulated = first_round(H200, users, input_tokens)
    assert latencies(H200, users, (input_tokens, 1000), rounds=1.0).ttft == pytest.approx(simulated, rel=0.3)
    assert simulated > 0.95 * latencies(H200, users, (input_tokens, 1000)).ttft


def test_the_first_round_counts_by_its_part_of_all_and_not_in_a_loop_that_has_settled() -> None:
    once, twice, usual, often = (latencies(H200, 64, rounds=each) for each in (1.0, 2.0, USUAL_ROUNDS, 20.0))
    settled = latencies(H200, 64, rounds=math.inf)
    assert once.ttft - usual.ttft == pytest.approx(0.9 / 0.4 * (twice.ttft - usual.ttft))
    assert usual.ttft - settled.ttft == pytest.approx(2 * (often.ttft - settled.ttft))
    steps = stepper(H200)
    own = steps.decode(64, 1500).seconds + steps.prefill(1000, 0, 1).seconds
    assert settled.ttft == pytest.approx(H200.efficiency.request_seconds + own)
    assert {once.tpot, usual.tpot, settled.tpot} == {usual.tpot}


@pytest.mark.parametrize("model", [H200, WIDE])
@pytest.mark.parametrize("lengths", [(100, 100), (100, 1000), (1000, 100), (1000, 1000), (8000, 1000)])
def test_the_same_requests_are_answered_as_fast_in_closed_and_open_loops(
    model: ReplicaModel, lengths: tuple[float, float]
) -> None:
    """With half of the seats taken, and within an eighth; also where prompts are so short that dozens share a step."""
    users = seats(model, *lengths) / 2
    found = latencies(model, users, lengths)
    closed = users / (found.ttft + lengths[1] * found.tpot)
    opened = service(model, Workload(1.0, *lengths, *lengths), Role.Aggregated).at_batch(users).rate
    assert closed == pytest.approx(opened, rel=0.125)


@given(REPLICAS, st.tuples(USERS, st.integers(1, 1000)), st.tuples(LENGTHS, LENGTHS), st.booleans(), ROUNDS)
def test_more_users_never_wait_less(
    model: ReplicaModel,
    users: tuple[int, int],
    lengths: tuple[float, float],
    equal: bool,  # noqa: FBT001 - drawn
    rounds: float,
) -> None:
    few, many = (latencies(model, each, lengths, equal=equal, rounds=rounds) for each in (users[0], sum(users)))
    assert 0 < few.ttft <= many.ttft * SLACK
    assert 0 < few.tpot <= many.tpot * SLACK


@given(REPLICAS, USERS, LENGTHS, LENGTHS)
def test_no_user_gets_a_token_faster_than_a_step_alone(
    model: ReplicaModel, users: int, input_tokens: float, output_tokens: float
) -> None:
    """Throughput by Little's law is at most a token per user and step, and per seat once those are taken."""
    found = latencies(model, users, (input_tokens, output_tokens))
    per_second = users * output_tokens / (found.ttft + output_tokens * found.tpot)
    running = min(float(users), seats(model, input_tokens, output_tokens))
    step = stepper(model).decode(running, input_tokens + output_tokens / 2).seconds
    assert per_second <= running / step * SLACK


@pytest.mark.parametrize("output_tokens", [1, 2, 4, 16, 24, 48, 128])
@pytest.mark.parametrize("input_tokens", [1024, 4096])
def test_short_answers_share_a_loop_as_an_engine_that_fills_its_steps(input_tokens: int, output_tokens: int) -> None:
    """Beside a simulation step by step: prompts that find no room in a step queue for their first token."""
    lengths, users = (float(input_tokens), float(output_tokens)), 64
    found, seen = latencies(H200, users, lengths), filled_steps(H200, users, lengths)
    stay, seen_stay = (each.ttft + (output_tokens - 1) * each.tpot for each in (found, seen))
    assert stay == pytest.approx(seen_stay, rel=0.06)
    assert output_tokens == 1 or found.tpot == pytest.approx(seen.tpot, rel=0.08)


def test_a_token_waits_for_no_more_prompts_than_a_step_has_room_for() -> None:
    steps, budget = stepper(H200), H200.efficiency.batched_tokens
    full = steps.prefill(4096, 0, 4096 / budget).seconds * budget / 4096
    for output_tokens in (1.0, 2.0, 8.0, 16.0):
        assert latencies(H200, 64, (4096, output_tokens)).tpot <= full + steps.decode(64, 4096 + output_tokens).seconds


def test_who_finds_no_seat_waits_for_whole_answers_of_others() -> None:
    room = int(seats(H200, 8000, 1000))
    full, twice = latencies(H200, room, (8000, 1000)), latencies(H200, 2 * room, (8000, 1000))
    assert twice.tpot == full.tpot
    assert twice.ttft == pytest.approx(2 * full.ttft + 1000 * full.tpot)
    one_more = latencies(H200, room + 1, (8000, 1000)).ttft - full.ttft
    one_less = full.ttft - latencies(H200, room - 1, (8000, 1000)).ttft
    assert one_more > 10 * one_less > 0


def test_the_engine_admits_no_more_than_its_limit_however_much_memory_there_is() -> None:
    roomy = replace(H200, memory_bytes=10 * H200.memory_bytes)
    assert seats(roomy, 100, 100) == H200.efficiency.sequences
    assert latencies(roomy, 3000).tpot == latencies(roomy, H200.efficiency.sequences).tpot


def test_every_rank_has_a_seat_whatever_its_memory() -> None:
    crowded = replace(WIDE, memory_bytes=1)
    assert seats(crowded, 1000, 1000) == 8


@given(REPLICAS, USERS)
def test_equal_lengths_wait_longer_at_one_another_but_never_for_less_than_themselves(
    model: ReplicaModel, users: int
) -> None:
    differing, equal = latencies(model, users), latencies(model, users, equal=True)
    assert equal.ttft >= differing.ttft
    assert equal.tpot == differing.tpot
    assert (equal.ttft > differing.ttft) == (min(users, seats(model, 1000, 1000)) > model.shape.data_parallel)


def test_waiting_at_one_another_stops_growing_at_eight() -> None:
    extra = [latencies(H200, users, equal=True).ttft - latencies(H200, users).ttft for users in (2, 4, 8, 16)]
    assert all(few < many for few, many in pairwise(extra[:3]))
    assert extra[3] == pytest.approx(extra[2])


def test_stages_share_only_the_prompts_that_come_together() -> None:
    """Of 32 users with answers of a thousand tokens one brings a prompt in every 31st round: it holds all stages up."""
    model = replica("Llama-3.1-405B-Instruct", "B200", Precision.FP8, Parallel(tensor=4, pipeline=2))
    work = closed_loop_work(model, ClosedLoop(32.0, 8000.0, 1000.0, equal_lengths=False))
    alone, together = replace(work, beside=1.0), replace(work, beside=2.0)
    found, whole, half = (closed_loop_latencies(each, model.efficiency).tpot for each in (work, alone, together))
    prefill = prefill_seconds(work.prefill, model.efficiency)
    prompt = sum(prefill) - prefill.launch
    assert whole - half == pytest.approx(31.0 / 1000.0 * prompt / 2.0)
    assert half < found < whole
    beside = 1.0 - 2.0 * math.expm1(-0.016) / 2.0  # microbatches of 16 users: so many of their steps have a prompt
    assert whole - found == pytest.approx(31.0 / 1000.0 * prompt * (1.0 - 1.0 / beside))
