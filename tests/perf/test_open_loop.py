"""Requests at a rate: an idle replica at one end, a full one at the other, Little's law between."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import Parallel, replica
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Workload
from weft.perf.benchmarks.closed_loop import ClosedLoop, closed_loop_latencies, closed_loop_work
from weft.perf.benchmarks.open_loop import open_loop
from weft.perf.service import service
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from weft.perf import ReplicaModel

H200 = replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
REPLICAS = st.sampled_from(
    [
        H200,
        replica("DeepSeek-V3", "GB200", Precision.FP8, Parallel(data=8, expert=8)),
        replica("gpt-oss-120b", "H100", Precision.MXFP4),
    ]
)
RATES = st.floats(1e-6, 1e4)
SLACK = 1 + 1e-6
WORKLOAD = Workload(1.0, 1000, 200, 1000, 200)
SEATS = service(H200, WORKLOAD, Role.Aggregated).seats


def test_with_hardly_any_requests_each_finds_the_replica_idle() -> None:
    steps, found = stepper(H200), open_loop(H200, 1e-6, 1000, 200)
    step, prompt = steps.decode(1, 1100).seconds, steps.prefill(1000, 0, 1).seconds
    assert found.latencies.tpot == pytest.approx(step, rel=1e-3)
    assert found.latencies.ttft == pytest.approx(H200.efficiency.request_seconds + prompt + step, rel=1e-3)
    assert found.requests_per_second == 1e-6


@given(REPLICAS, RATES, st.floats(1, 10))
def test_more_requests_never_wait_less(model: ReplicaModel, rate: float, factor: float) -> None:
    few, many = (open_loop(model, each, 1000, 200) for each in (rate, rate * factor))
    assert 0 < few.latencies.ttft <= many.latencies.ttft * SLACK
    assert 0 < few.latencies.tpot <= many.latencies.tpot * SLACK
    assert 0 < few.requests_per_second <= many.requests_per_second * SLACK


def test_requests_inside_are_rate_times_time_inside() -> None:
    """At a rate that can be kept up the batch follows from TPOT, and TPOT from the batch: a sequence meets it all."""
    found, steps = open_loop(H200, 4.0, 1000, 200), stepper(H200)
    batch = 4.0 * 200 * found.latencies.tpot
    assert 1 < batch < SEATS
    prompt = steps.prefill(1000, 0, 1)
    tpot = steps.decode(batch + 1, 1100).seconds / (1 - 4.0 * (prompt.seconds - prompt.parts.launch))
    assert found.latencies.tpot == pytest.approx(tpot, rel=1e-2)
    assert found.requests_per_second == 4.0


@given(REPLICAS)
def test_above_capacity_all_seats_are_taken_and_it_stays_finite(model: ReplicaModel) -> None:
    flood, more = open_loop(model, 1e5, 1000, 200), open_loop(model, 1e6, 1000, 200)
    assert flood.requests_per_second == pytest.approx(more.requests_per_second)
    assert flood.requests_per_second < 1e5
    assert flood.latencies.tpot == more.latencies.tpot
    inside = flood.requests_per_second * 199 * flood.latencies.tpot
    assert inside == pytest.approx(service(model, WORKLOAD, Role.Aggregated).seats, rel=2e-3)
    half = open_loop(model, flood.requests_per_second / 2, 1000, 200)
    assert half.latencies.ttft + 10 < flood.latencies.ttft < 60
    assert half.latencies.tpot < flood.latencies.tpot


@given(REPLICAS, st.floats(0.9, 1.1), st.floats(1.0, 1.02))
def test_more_requests_never_wait_less_around_the_capacity(model: ReplicaModel, part: float, factor: float) -> None:
    """Just below it a steady state takes hours to build up: a minute of it is no worse than a minute above."""
    capacity = open_loop(model, 1e5, 1000, 200).requests_per_second
    few, many = (open_loop(model, capacity * each, 1000, 200) for each in (part, part * factor))
    assert few.latencies.ttft <= many.latencies.ttft * SLACK
    assert few.latencies.tpot <= many.latencies.tpot * SLACK
    assert few.requests_per_second <= many.requests_per_second * SLACK


def test_where_memory_is_thought_to_hold_no_request_one_runs_as_in_a_closed_loop() -> None:
    full = replica("Mixtral-8x7B-Instruct-v0.1", "L40S", Precision.BF16, 2)
    assert service(full, WORKLOAD, Role.Aggregated).seats == 0
    load = ClosedLoop(1.0, 1000, 200, equal_lengths=True)
    alone = closed_loop_latencies(closed_loop_work(full, load), full.efficiency)
    alone_per_second = 1.0 / (alone.ttft + 200 * alone.tpot)
    few, many = open_loop(full, alone_per_second / 20, 1000, 200), open_loop(full, 10.0, 1000, 200)
    assert few.requests_per_second == alone_per_second / 20
    assert few.latencies.tpot == pytest.approx(alone.tpot, rel=0.1)
    assert alone_per_second / 2 < many.requests_per_second <= alone_per_second


@given(REPLICAS, st.floats(0.1, 1e4), st.floats(1000, 60_000), st.sampled_from([1.0, 2.0, 100.0]))
def test_every_rate_has_an_answer(model: ReplicaModel, rate: float, input_tokens: float, output_tokens: float) -> None:
    """Where answers are so short that prompts fill all of the time long before seats are taken, too."""
    found = open_loop(model, rate, input_tokens, output_tokens)
    assert 0 < found.latencies.ttft < math.inf
    assert 0 < found.latencies.tpot < math.inf
    assert 0 < found.requests_per_second <= rate
