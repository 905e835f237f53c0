"""Percentiles of TTFT and TPOT under open-loop load: closed forms, and what they are held against."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.percentiles import PERCENTILES, Case, case
from bench.stepwise import Replica, Request, simulate
from tests.perf.replicas import Parallel, replica, workload
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Slo, Workload
from weft.perf import ReplicaModel, at_engine, at_rate, knee, predict
from weft.perf.latency import Latency
from weft.perf.lengths import lengths
from weft.perf.queueing import Moments, at_the_gate, for_a_seat, in_line
from weft.perf.service import service
from weft.perf.steps import stepper

H200 = replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
MODELS = st.sampled_from(
    [
        H200,
        replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16),
        replica("DeepSeek-V3", "GB200", Precision.FP8, Parallel(tensor=2, data=8, expert=16)),
    ]
)
CHAT, CONSTANT = (1000, 2000, 200, 400), (1000, 1000, 200, 200)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("tensor", [1, 8])
def test_first_tokens_that_the_host_holds_up_are_close_to_a_simulation(tensor: int) -> None:
    """A quantised model, whose prompts take longer to launch than to compute: within a third, at half of the rate."""
    name, accelerator = ("Llama-3.1-8B-Instruct", "H200") if tensor == 1 else ("Llama-3.3-70B-Instruct", "B200")
    off = case(replica(name, accelerator, Precision.FP8, tensor), CONSTANT, 0.5).off()
    assert all(2 / 3 < each < 3 / 2 for each in off.ttft)


HELD_UP = replica("Llama-3.3-70B-Instruct", "B200", Precision.FP8, 8)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("part", "sizes"), [(0.3, CHAT), (0.6, CHAT), (0.5, CONSTANT)])
def test_decode_that_waits_for_launches_is_close_to_a_simulation(part: float, sizes: tuple[int, int, int, int]) -> None:
    """Launches take up to half of the time; times per token were half of the simulated ones without them."""
    off = case(HELD_UP, sizes, part).off()
    assert all(5 / 6 < each < 6 / 5 for each in off.tpot[:3])


@pytest.mark.timeout(120)
@pytest.mark.parametrize("times", [1.5, 3.0])
def test_a_target_of_tpot_holds_at_capacity_where_the_host_holds_prompts_up(times: float) -> None:
    """So many times the decode step of one sequence: it was missed by up to 40 %."""
    target, chat = times * stepper(HELD_UP).decode(1, 1200).seconds, (1200, 250, 4000, 800)
    found = predict(HELD_UP, Workload(1.0, *chat), Slo(tpot=((95, target),)), Role.Aggregated)
    load = Workload(found.capacity, *chat)
    measured = simulate(HELD_UP, load, service(HELD_UP, load, Role.Aggregated).seats, 1500, 1)
    assert 0.85 * target < np.percentile(measured.tpot, 95) < 1.1 * target


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("part", "sizes"), [(0.3, CHAT), (0.7, CHAT), (0.5, (4000, 8000, 150, 300)), (0.5, CONSTANT)])
def test_closed_forms_are_close_to_a_simulation_step_by_step(part: float, sizes: tuple[int, int, int, int]) -> None:
    """Every percentile within a third, the median and TPOT within a sixth, at any part of the highest rate."""
    off = case(H200, sizes, part).off()
    assert all(2 / 3 < each < 3 / 2 for each in (*off.ttft, *off.tpot))
    assert 5 / 6 < off.ttft[0] < 5 / 4
    assert all(3 / 4 < each < 6 / 5 for each in off.tpot[:2])


LOCKSTEP = replica("DeepSeek-V3", "GB200", Precision.FP8, Parallel(tensor=2, data=8, expert=16))


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("rate", "sizes"),
    [
        (0.8, (16_000, 32_000, 100, 200)),
        (2.0, (16_000, 32_000, 100, 200)),
        (5.0, (4000, 8000, 300, 600)),
        (10.0, (4000, 8000, 300, 600)),
        (10.0, (1000, 1000, 1000, 1000)),
    ],
)
def test_ranks_in_lockstep_hold_each_other_up_as_a_simulation_says(
    rate: float, sizes: tuple[int, int, int, int]
) -> None:
    """From a fifth of their time to nine tenths: nobody waits for the prompts of other ranks longer than a step."""
    inputs, long_inputs, outputs, long_outputs = sizes
    load = Workload(rate, inputs, outputs, long_inputs, long_outputs)
    seats = service(LOCKSTEP, load, Role.Aggregated).seats
    off = Case(LOCKSTEP, load, seats).off()
    assert all(7 / 10 < each < 5 / 4 for each in (off.ttft[0], off.ttft[2]))
    assert 3 / 5 < off.tpot[1] < 9 / 5


@pytest.mark.timeout(120)
def test_prompts_that_share_a_step_look_at_themselves_alone() -> None:
    """Sixteen prompts of 512 tokens fill a step of 8,192, and look at a sixteenth of what one as long would look at."""
    model = replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16)
    one, whole = (stepper(model).prefill(tokens, 0, 1.0) for tokens in (512, 8192))
    now = Replica(model, seats=64)
    for _ in range(16):
        now.arrive(Request(0.0, 512.0, 2))
    step = whole.seconds - whole.parts.launch - whole.parts.attention + 16 * one.parts.attention
    assert now.step(0.0) == pytest.approx(step)
    assert 16 * one.parts.attention < 0.1 * whole.parts.attention


def test_bursts_make_requests_wait_as_a_simulation_says() -> None:
    """Arrivals of three times the variation: far longer waits, and the closed form knows most of it."""
    calm, bursts = case(H200, CHAT, 0.6), case(H200, CHAT, 0.6, variation=3.0)
    even, swollen = (simulate(H200, each.workload, each.seats, 2500, 3).ttft.mean() for each in (calm, bursts))
    assert 1.3 * even < swollen
    assert all(2 / 3 < each < 3 / 2 for each in bursts.off().ttft)


def test_lengths_go_through_their_mean_and_their_95th_percentile() -> None:
    found = lengths(1000, 2500)
    assert sum(weight * tokens for weight, tokens in found.points) == pytest.approx(1000, rel=1e-3)
    assert 1000 * math.exp(1.6449 * found.deviation - found.deviation**2 / 2) == pytest.approx(2500)
    assert sum(weight * tokens**2 for weight, tokens in found.points) == pytest.approx(1000**2 * found.growth, rel=0.01)
    assert lengths(1000, 900).points == ((1.0, 1000),)  # a 95th percentile below the mean: no spread
    assert lengths(10, 1e6).deviation == pytest.approx(1.6449)  # longer tails than any log-normal one


def test_a_line_is_what_pollaczek_and_khinchine_say() -> None:
    constant, exponential = Moments(2.0, 4.0, 8.0), Moments(2.0, 8.0, 48.0)
    assert in_line(0.25, constant, 0.0).mean == pytest.approx(1.0)  # M/D/1 at half load
    assert in_line(0.25, exponential, 0.0).mean == pytest.approx(2.0)  # M/M/1
    assert in_line(0.25, exponential, 0.0).variance == pytest.approx(12.0)
    assert in_line(0.25, constant, 2.0).mean > 1.5  # bursts


def test_a_gate_makes_one_wait_for_half_a_round_when_hardly_anybody_comes() -> None:
    assert at_the_gate(1e-9, Moments(0.1, 0.01, 0.001), 0.03, 0.0).mean == pytest.approx(0.015)
    assert at_the_gate(5.0, Moments(0.1, 0.01, 0.001), 0.03, 0.0).mean > 0.06


def test_a_seat_is_rarely_waited_for_among_many() -> None:
    """The same part taken of a few seats and of many: large pools hardly ever wait."""
    few, many = (for_a_seat(seats, 0.8 * seats, 0.2 * seats, 1.0).mean for seats in (4.0, 400.0))
    assert many < 1e-4 * few
    assert for_a_seat(10, 10, 0.0, 1.0).mean == math.inf


def test_a_latency_has_the_percentiles_of_a_log_normal_one_above_its_least() -> None:
    latency = Latency(mean=1.5, variance=0.25, least=0.5)
    spread = math.log(1 + 0.25)
    assert latency.at(50) == pytest.approx(0.5 + math.exp(-spread / 2))
    assert latency.at(99) == pytest.approx(0.5 + math.exp(2.3263 * math.sqrt(spread) - spread / 2))
    assert Latency(2.0, 0.0).at(99) == 2.0


@given(
    st.sampled_from(PERCENTILES[1:]),
    st.floats(1e-6, 10.0),
    st.floats(1e-12, 100.0),
    st.floats(1.0, 1e4),
    st.floats(1.0, 1e4),
)
def test_a_tail_grows_with_the_mean_and_with_the_variance(
    percentile: int, mean: float, variance: float, longer: float, wider: float
) -> None:
    """A seat that hardly anybody waits for has a variance far above its mean; less load makes it no shorter for that.

    Never longer than Markov allows: a hundredth of all cannot take longer than a hundred times the mean.
    """
    found = Latency(mean, variance).at(percentile)
    assert mean * (1 - 1e-9) <= Latency(mean, 1e9 * mean**2).at(percentile) <= mean / (1 - percentile / 100)
    assert found <= Latency(mean, wider * variance).at(percentile) * (1 + 1e-9)
    assert found <= Latency(longer * mean, variance).at(percentile) * (1 + 1e-9)


def test_the_median_falls_as_the_variance_grows() -> None:
    assert Latency(1.0, 9.0).at(50) < Latency(1.0, 1.0).at(50) < 1.0


@given(MODELS, st.floats(0.001, 0.95), st.floats(1.0, 1.5), st.sampled_from(list(Role)))
def test_more_requests_never_make_a_percentile_better(
    model: ReplicaModel, load: float, factor: float, role: Role
) -> None:
    """Tails grow with the load, but for 2 %: with few sequences their number swings most (docs/limits.md)."""
    server = service(model, workload(), role)
    low, high = (
        server.at_utilisation(part) if role is Role.Prefill else server.at_batch(part * server.seats)
        for part in (load, min(0.98, load * factor))
    )
    for percentile in (90, 95, 99):
        assert low.ttft.at(percentile) <= high.ttft.at(percentile) * 1.02
        assert low.tpot.at(percentile) <= high.tpot.at(percentile) * 1.02
    assert low.ttft.mean <= high.ttft.mean * (1 + 1e-6)
    assert low.tpot.mean <= high.tpot.mean * (1 + 1e-6)
    assert low.rate <= high.rate * (1 + 1e-3)


@given(MODELS, st.floats(0.01, 0.95))
def test_percentiles_are_in_order_and_above_the_least(model: ReplicaModel, part: float) -> None:
    server = service(model, workload(), Role.Aggregated)
    point = server.at_batch(part * server.seats)
    for latency in (point.ttft, point.tpot):
        found = [latency.at(each) for each in PERCENTILES]
        assert found == sorted(found)
        assert found[0] >= latency.least


@given(MODELS, st.floats(0.001, 0.9))
def test_no_answer_comes_faster_than_that_of_a_sequence_alone(model: ReplicaModel, part: float) -> None:
    """Rare long prompts make few answers slow, and the others no faster than they can be."""
    server = service(model, Workload(1.0, 27_000, 760, 90_000, 1400), Role.Aggregated)
    alone = server.steps.decode(model.shape.data_parallel, server.context_tokens).seconds
    assert alone <= server.at_batch(part * server.seats).tpot.at(50) * (1 + 1e-9)


@given(MODELS, st.floats(0.05, 0.9))
def test_a_rate_and_its_batch_are_one_by_littles_law(model: ReplicaModel, part: float) -> None:
    """Sequences inside = rate x (OSL - 1) x TPOT where answers are equally long: first tokens come with prompts."""
    equal = Workload(1.0, 800, 300, 800, 300)
    server = service(model, equal, Role.Aggregated)
    point = server.at_batch(part * server.seats)
    assert point.batch == pytest.approx(point.rate * 299 * point.tpot.mean, rel=2e-3)
    again = server.at_rate(point.rate)
    assert again is not None
    assert again.rate == pytest.approx(point.rate, rel=2e-3)


def test_longer_tails_wait_longer_at_the_same_means() -> None:
    even, long = (at_rate(H200, Workload(1.0, 4000, 200, p95, 200), Role.Aggregated) for p95 in (4000, 12000))
    assert even is not None
    assert long is not None
    assert even[0].p95 * 1.3 < long[0].p95
    assert even[1].p99 < long[1].p99


def test_of_kv_an_engine_is_expected_no_time() -> None:
    for role in Role:
        at_user, counted = at_rate(H200, workload(), role), at_engine(H200, workload(), role)
        assert at_user is not None
        assert counted is not None
        server = service(H200, workload(), role)
        taken = server.link.taken(workload().requests_per_second)
        received = taken.mean - taken.least if role is Role.Decode else 0.0
        assert counted[0].mean == pytest.approx(at_user[0].mean - server.handover_seconds - received)
        assert counted[1] == at_user[1]


def test_the_knee_lies_below_the_highest_rate_and_latency_explodes_beyond() -> None:
    highest = service(H200, workload(), Role.Aggregated).at_batch(400).rate
    found = knee(H200, workload(), Role.Aggregated)
    assert 0.2 * highest < found < highest
    before, beyond = (
        at_rate(H200, replace(workload(), requests_per_second=factor * found), Role.Aggregated) for factor in (0.5, 1.6)
    )
    assert before is not None
    assert beyond is None or beyond[0].p99 > 2 * before[0].p99


def test_a_rate_that_cannot_be_kept_up_has_no_answer() -> None:
    assert at_rate(H200, replace(workload(), requests_per_second=1e4), Role.Aggregated) is None
    assert at_rate(H200, replace(workload(), requests_per_second=1e4), Role.Prefill) is None
