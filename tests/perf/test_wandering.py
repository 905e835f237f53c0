"""Prompts that fit a captured graph alone and outgrow it together, and what chance makes of batches then."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.percentiles import Case
from bench.stepwise import simulate
from tests.perf.replicas import CATALOG, Parallel, replica
from tests.perf.test_structural_facts import with_more
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName
from weft.domain.workload import Role, Slo, Workload
from weft.perf import ReplicaModel, at_rate, predict
from weft.perf.backlog import AnswerPace, RankLoad
from weft.perf.outgrown import Outgrown
from weft.perf.queueing import NO_WAIT, Moments
from weft.perf.service import service
from weft.perf.sharing import Company
from weft.perf.wandering import wandering

if TYPE_CHECKING:
    from collections.abc import Callable

NOTHING = Moments(0.0, 0.0, 0.0)

B200 = replica("Llama-3.3-70B-Instruct", "B200", Precision.FP8, 8)
# The same with graphs of 512 tokens, of releases before 0.28.
OLDER = replace(B200, efficiency=CATALOG.efficiency(B200.accelerator, EngineName.VLLM, Precision.FP8, "0.27.1"))
H200 = replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 8)
LOCKSTEP = replica("DeepSeek-V3", "GB200", Precision.FP8, Parallel(tensor=2, data=8, expert=16))
SIZES = ((100, 100, 300, 300), (200, 400, 300, 600), (300, 300, 200, 200), (400, 400, 100, 100), (450, 800, 60, 120))
SHORT = (300, 300, 60, 60)  # at 1,024 tokens, rates hardly rise from 90 sequences to 200


def _workload(sizes: tuple[int, int, int, int], rate: float = 1.0) -> Workload:
    inputs, long_inputs, outputs, long_outputs = sizes
    return Workload(rate, inputs, outputs, long_inputs, long_outputs)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("model", "rate", "sizes"),
    [
        (OLDER, 39, SIZES[0]),  # a graph still holds nearly all steps: those of 300 tokens, beside 130 sequences
        (OLDER, 27, SIZES[1]),
        (OLDER, 24, SIZES[2]),
        (OLDER, 40, SIZES[2]),  # nearly all are launched
        (OLDER, 29, SIZES[3]),
        (OLDER, 48, SIZES[3]),
        (OLDER, 31, SIZES[4]),
        (OLDER, 51, SIZES[4]),
        (B200, 47, SIZES[1]),
        (B200, 49, SIZES[2]),  # at 42 a quarter too soon, with first tokens up to a third
        (B200, 40, SIZES[3]),
        (B200, 60, SIZES[4]),
    ],
)
def test_tokens_that_share_a_graph_count_as_in_a_simulation(
    model: ReplicaModel, rate: float, sizes: tuple[int, int, int, int]
) -> None:
    """Times per token were a quarter of the simulated ones at half of the load; within a fifth now, TTFT a fourth."""
    load = _workload(sizes, rate)
    off = Case(model, load, service(model, load, Role.Aggregated).seats).off()
    assert all(4 / 5 < each < 6 / 5 for each in off.tpot)
    assert all(3 / 4 < each < 5 / 4 for each in off.ttft)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("model", [B200, OLDER, H200], ids=["B200", "older", "H200"])
@pytest.mark.parametrize("sizes", [*SIZES, SHORT])
def test_a_target_holds_at_capacity_where_tokens_share_graphs(
    model: ReplicaModel, sizes: tuple[int, int, int, int]
) -> None:
    """By chance a rank comes to launched steps, for good or for long: it must not be planned that near."""
    target = 0.030
    found = predict(model, _workload(sizes), Slo(tpot=((95, target),)), Role.Aggregated)
    load = _workload(sizes, found.capacity)
    seats = service(model, load, Role.Aggregated).seats
    measured = simulate(model, load, seats, round((60 if sizes is SHORT else 180) * found.capacity), 1)
    assert np.percentile(measured.tpot, 95) < 1.15 * target


@pytest.mark.parametrize("sizes", [*SIZES[:4], SHORT])
def test_the_more_sequences_wander_the_higher_is_their_rate_and_the_longer_they_take(
    sizes: tuple[int, int, int, int],
) -> None:
    """From a batch on as many are answered as are told, though the rate that keeps it is up to a sixth lower."""
    server = service(OLDER, _workload(sizes), Role.Aggregated)
    found = server.wandering
    assert found is not None
    batches = [found.batches[0] * 1.01**each for each in range(1000) if found.batches[0] * 1.01**each < server.seats]
    points = [server.at_batch(batch) for batch in batches]
    assert all(few.rate < many.rate * 1.001 for few, many in pairwise(points))
    assert all(few.tpot.mean < many.tpot.mean * 1.003 for few, many in pairwise(points))
    beyond = [(*found.bounds(point.batch, 1.0), point) for point in points if point.batch >= found.level]
    told = [point.batch / least for least, most, point in beyond if least == most]
    assert told == pytest.approx([point.rate for least, most, point in beyond if least == most], rel=5e-3)


def _made_up(curve: Callable[[float], float]) -> Callable[[float], RankLoad]:
    """Loads at rates that follow a curve, with launches that hardly add to what is at random."""

    def of(batch: float) -> RankLoad:
        mean = batch / 100.0 / curve(batch)
        launches = Outgrown(0.5, 1.0, 1.0, (1.0, 1.0), 0.0, beyond=mean * math.sqrt(4.0 * 100.0 * 0.06 / batch))
        pace = AnswerPace(100.0, 0.01, 0.0, 0.0, 0.0, 0.001)
        return RankLoad(curve(batch), Company(1.0, 1.0, 1.0), NOTHING, NOTHING, launches, pace, NO_WAIT)

    return of


def _births_and_deaths(rate: float, curve: Callable[[float], float]) -> float:
    """The mean of a number that grows at a rate and falls at one of its own."""
    likely = [*accumulate(range(1, 3000), lambda least, number: least + math.log(rate / curve(number)), initial=0.0)]
    parts = [math.exp(each - max(likely)) for each in likely]
    return sum(number * part for number, part in enumerate(parts)) / sum(parts)


def _flat(batch: float) -> float:
    """Rates that hardly rise from 40 sequences to 160."""
    flat: float = 40.0 * math.pow(batch / 40.0, 0.1)
    return min(batch, flat) * max(1.0, batch / 160.0)


@pytest.mark.parametrize("rate", [38.0, 41.0, 44.0, 46.0, 50.0, 60.0])
def test_a_batch_wanders_as_births_and_deaths_do(rate: float) -> None:
    found = wandering(_made_up(_flat), 1.0, 400.0, 1.0)
    assert found is not None
    mean = float(np.interp(rate, found.rates, found.batches))
    assert mean == pytest.approx(_births_and_deaths(rate, _flat), rel=0.06)


@pytest.mark.parametrize(("times", "stays"), [(1.0, False), (100.0, True)])
def test_a_rise_of_few_sequences_is_passed_and_one_of_many_is_not(times: float, stays: bool) -> None:  # noqa: FBT001 - a case
    """At nine tenths of the rate of its top: where the rise is high, hours go by."""

    def hill(batch: float) -> float:
        return min(batch, max(0.7 * 40.0 * times, 80.0 * times - batch)) * max(1.0, batch / (200.0 * times))

    found = wandering(_made_up(hill), 1.0, 800.0 * times, 1.0)
    assert found is not None
    assert stays == (float(np.interp(0.9 * 40.0 * times, found.rates, found.batches)) < 40.0 * times)


def test_what_waits_for_no_launch_wanders_no_further() -> None:
    slow = replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16)
    assert service(slow, _workload(SIZES[0]), Role.Aggregated).wandering is None
    assert service(B200, _workload((2000, 4000, 300, 600)), Role.Aggregated).wandering is None
    assert service(B200, _workload(SIZES[0]), Role.Decode).wandering is None


def test_answers_of_a_few_tokens_do_not_wander() -> None:
    """Up to a dozen sequences decode, and all wait for the same launch: times per token were a third too long."""
    two = replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
    assert service(two, _workload((200, 400, 5, 10)), Role.Aggregated).wandering is None


BETTER = st.builds(
    lambda model, what, factor: (model, with_more(model, what, factor)),
    st.sampled_from([B200, H200, LOCKSTEP]),
    st.sampled_from(["flops", "memory bandwidth", "link"]),
    st.floats(1.0, 4.0),
)


@given(BETTER, st.floats(100, 450), st.floats(64, 400), st.floats(0.05, 0.95))
def test_a_better_device_comes_to_launched_steps_no_earlier(
    devices: tuple[ReplicaModel, ReplicaModel], tokens: float, answer: float, load: float
) -> None:
    """Its steps are shorter, so that fewer prompts come in each; within the accuracy of searches."""
    asked = Workload(1.0, tokens, answer, tokens, answer)
    rate = load * predict(devices[0], asked, Slo(), Role.Aggregated).capacity
    slow, fast = (at_rate(each, replace(asked, requests_per_second=rate), Role.Aggregated) for each in devices)
    assert slow is not None
    assert fast is not None
    assert fast[1].mean <= 1.004 * slow[1].mean
