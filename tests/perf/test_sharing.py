"""Prompts that share steps, and ranks that share the time of prompts: rules against simulations, and their bounds."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import Parallel, replica, workload
from weft.domain.hardware import Precision
from weft.domain.workload import Role
from weft.perf.benchmarks.closed_loop import ClosedLoop, closed_loop_latencies, closed_loop_work
from weft.perf.lengths import Lengths, lengths
from weft.perf.prompts import prompts
from weft.perf.service import Service, service
from weft.perf.sharing import more_than, prompts_of_a_step, ranks_together
from weft.perf.steps import decode_seconds, prefill_seconds, stepper

RANKS = replica("DeepSeek-V3", "B200", Precision.FP8, Parallel(data=8, expert=8))
ALONE = replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16)
QUANTISED = replica("Llama-3.1-8B-Instruct", "B200", Precision.FP8)
CAME = st.floats(1e-9, 100)


def in_lockstep(ranks: int, rate: float, prompt: float, rounds: int = 20_000) -> tuple[float, float]:
    """The part of the time that prompts steal, and ranks with a prompt in a step with any; a round alone takes 1 s.

    `rate` prompts a second come to each rank at random. Each takes one in a round, and all wait for the longest step.
    """
    generator, now, waiting, stolen, taken = random.Random(1), 0.0, [0] * ranks, 0, 0
    coming = [generator.expovariate(rate) for _ in range(ranks)]
    for _ in range(rounds):
        for rank in range(ranks):
            while coming[rank] <= now:
                waiting[rank], coming[rank] = waiting[rank] + 1, coming[rank] + generator.expovariate(rate)
        busy = [rank for rank in range(ranks) if waiting[rank]]
        for rank in busy:
            waiting[rank] -= 1
        stolen, taken, now = stolen + bool(busy), taken + len(busy), now + 1.0 + prompt * bool(busy)
    return stolen * prompt / now, taken / stolen


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("prompt", [0.5, 3.0])
@pytest.mark.parametrize("load", [0.02, 0.1, 0.3])
def test_prompts_of_ranks_in_lockstep_steal_as_in_a_simulation(ranks: int, prompt: float, load: float) -> None:
    """`load` of the time if they came together. Within an eighth of the simulation."""
    stolen, met = in_lockstep(ranks, load / prompt, prompt)
    together = ranks_together(load / prompt / (1.0 - stolen), ranks)  # so many come in a round
    assert together == pytest.approx(met, rel=0.125)
    assert load * ranks / together == pytest.approx(stolen, rel=0.125)


@given(st.floats(0, 1.5), st.integers(1, 64))
def test_between_one_rank_and_all_have_a_prompt_and_more_where_more_come(chance: float, ranks: int) -> None:
    assert 1.0 <= ranks_together(chance, ranks) * (1 + 1e-9)
    assert ranks_together(chance, ranks) <= ranks * (1 + 1e-9)
    assert ranks_together(chance, ranks) <= ranks_together(1.5 * chance, ranks) * (1 + 1e-9)
    assert 1.0 == pytest.approx(ranks_together(chance, 1))


@given(CAME, st.floats(0.01, 1000))
def test_a_step_has_at_least_the_prompts_that_come_before_it_as_far_as_it_has_room(
    came: float, per_step: float
) -> None:
    found = prompts_of_a_step(came, per_step)
    assert max(1.0, min(came, per_step)) <= found <= max(1.0, min(per_step, came + 1.0)) * (1 + 1e-9)


@given(st.floats(1, 20), st.floats(0, 0.05), st.floats(10, 8000), st.sampled_from([0.0, 0.5, 1.0]))
def test_who_shares_a_launch_waits_for_its_part_of_what_the_host_takes_longer(
    sharing: float, decode: float, tokens: float, joining: float
) -> None:
    """As long as the host takes, less what the step decodes meanwhile; of a graph's prompts those that join one."""
    found = prompts(stepper(QUANTISED), Lengths(tokens, 0.0), 0.0)
    cost = found.service(sharing, 0.0, 1.0).mean
    steps = math.ceil(tokens / QUANTISED.efficiency.batched_tokens) / sharing
    part = 1.0 if tokens > QUANTISED.efficiency.graph_tokens else joining
    waits = part * max(0.0, steps * (found.host - decode) - cost)
    assert found.waits(sharing, decode, 1.0, joining).mean == pytest.approx(waits)


def test_the_more_share_a_launch_the_less_it_matters_that_some_of_them_are_long() -> None:
    """Long ones compute while the host launches, so that GPUs wait for it no longer than without short ones."""
    found = prompts(stepper(QUANTISED), lengths(3000, 8000), 0.0)
    few, many = (found.waits(sharing, 0.0, 1.0, 1.0).mean * sharing for sharing in (1.0, 3.0))
    apart = found.service(1.0, 0.0, 1.0).mean, found.service(3.0, 0.0, 1.0).mean
    assert few > found.host - apart[0]
    assert max(0.0, found.host - 3.0 * apart[1]) <= many < few


@given(st.floats(10, 100_000), st.floats(1, 1000))
def test_a_prompt_pays_for_all_of_its_steps_alone_and_for_its_part_of_full_ones_at_least(
    tokens: float, sharing: float
) -> None:
    """But for the time in which the host launches it, for which nobody queues."""
    steps = stepper(ALONE)
    found, full = prompts(steps, Lengths(tokens, 0.0), 0.0), tokens / ALONE.efficiency.batched_tokens
    alone, shared = (steps.prefill(tokens, 0.0, each) for each in (math.ceil(full), full))
    costs = [found.service(each, 0.0, 1.0).mean for each in (1.0, sharing, 2.0 * math.ceil(full) / full)]
    assert costs[0] == pytest.approx(alone.seconds - alone.launch - alone.waits)
    assert costs[-1] == pytest.approx(shared.seconds - shared.launch - shared.waits)
    assert costs[-1] <= costs[1] * (1 + 1e-9)
    assert costs[1] <= costs[0] * (1 + 1e-9)


def test_a_prompt_of_one_rank_holds_up_the_users_of_all() -> None:
    """By hand: a round in which any of eight ranks has a prompt takes the time of one more."""
    work = closed_loop_work(RANKS, ClosedLoop(64.0, 1000.0, 1000.0, equal_lengths=False))
    prefill = prefill_seconds(work.prefill, RANKS.efficiency)
    prompts = 63.0 / 1000.0 / work.together * (sum(prefill) - prefill.launch)
    step = sum(decode_seconds(work.decode, RANKS.efficiency))
    assert work.together == pytest.approx(ranks_together(-math.expm1(-8.0 / 1000.0), 8.0))
    assert 1.0 < work.together < 1.1
    assert closed_loop_latencies(work, RANKS.efficiency).tpot == pytest.approx(step + prompts)


def of_ranks(lone: bool) -> Service:  # noqa: FBT001 - a case
    """Ranks whose prompts come apart, or all at once."""
    found = service(RANKS, workload(2000, 500), Role.Aggregated)
    if lone:
        return found
    together = replace(found.steps.work, exchanges=0.0)
    return replace(found, lone=None, steps=replace(found.steps, work=together), known=dict(found.known))


def test_prompts_that_come_apart_cost_decode_more_than_those_that_come_together() -> None:
    apart, together = (of_ranks(lone) for lone in (True, False))
    for part in (0.1, 0.4, 0.8):
        batch = part * apart.seats
        assert apart.at_batch(batch).rate < together.at_batch(batch).rate
        assert apart.at_batch(batch).rate > together.at_batch(batch).rate / 8
    rates = [apart.at_batch(part * apart.seats).rate for part in (0.05, 0.1, 0.2, 0.4, 0.8)]
    assert all(few < many for few, many in pairwise(rates))


def test_ranks_without_experts_do_not_wait_for_each_other() -> None:
    dense = replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16, Parallel(data=4))
    work = closed_loop_work(dense, ClosedLoop(32.0, 1000.0, 1000.0, equal_lengths=False))
    alone = closed_loop_work(
        replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16), ClosedLoop(8.0, 1000.0, 1000.0, equal_lengths=False)
    )
    assert 4.0 == work.together
    few, many = (closed_loop_latencies(each, dense.efficiency) for each in (alone, work))
    assert few.ttft == pytest.approx(many.ttft)
    assert few.tpot == pytest.approx(many.tpot, rel=0.01)


def test_a_rank_of_many_waits_longer_the_more_come_to_all() -> None:
    """Also where few come, and most of what a request meets are prompts of other ranks."""
    served = service(RANKS, workload(100, 64), Role.Aggregated)
    points = [served.at_batch(part * served.seats) for part in (0.01, 0.05, 0.1, 0.2, 0.4, 0.8)]
    for few, many in pairwise(points):
        assert few.rate < many.rate
        for percentile in (90, 95, 99):
            assert few.ttft.at(percentile) < many.ttft.at(percentile)
            assert few.tpot.at(percentile) < many.tpot.at(percentile)


@pytest.mark.parametrize("came", [0.1, 0.8, 3.0])
@pytest.mark.parametrize("room", [1, 2, 5])
def test_steps_with_more_prompts_than_a_graph_holds_are_as_many_as_come_at_random(came: float, room: int) -> None:
    """Within a twelfth of the steps that have any."""
    some = -math.expm1(-came)
    chances = [math.exp(-came) * came**number / math.factorial(number) / some for number in range(1, room + 1)]
    assert more_than(room, came / some) == pytest.approx(1.0 - sum(chances), abs=1 / 12)
    assert [0.0, 1.0] == [more_than(room, 1.0), more_than(0, came / some)]


@pytest.mark.parametrize(("answer", "users"), [(10, 8), (1000, 700)])
def test_one_more_user_takes_no_throughput_where_prompts_that_share_a_step_outgrow_its_graph(
    answer: int, users: int
) -> None:
    """Prompts of 400 tokens, of which a graph holds one: half of the throughput went as the mean step passed it."""
    model = replica("Llama-3.3-70B-Instruct", "B200", Precision.FP8, Parallel(tensor=8))
    rates = []
    for count in range(1, users, max(1, users // 100)):
        work = closed_loop_work(model, ClosedLoop(count, 400.0, answer, equal_lengths=False))
        found = closed_loop_latencies(work, model.efficiency)
        rates.append(count / (found.ttft + (answer - 1) * found.tpot))
    assert all(few < many * 1.001 for few, many in pairwise(rates))
