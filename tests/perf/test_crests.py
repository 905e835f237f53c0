"""Prompts that fit a captured graph alone and outgrow it together: predictions against a simulation that counts so."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

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
from weft.perf.service import service

B200 = replica("Llama-3.3-70B-Instruct", "B200", Precision.FP8, 8)
# The same with graphs of 512 tokens, of releases before 0.28.
OLDER = replace(B200, efficiency=CATALOG.efficiency(B200.accelerator, EngineName.VLLM, Precision.FP8, "0.27.1"))
H200 = replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 8)
LOCKSTEP = replica("DeepSeek-V3", "GB200", Precision.FP8, Parallel(tensor=2, data=8, expert=16))
SIZES = ((100, 100, 300, 300), (200, 400, 300, 600), (300, 300, 200, 200), (400, 400, 100, 100), (450, 800, 60, 120))


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
@pytest.mark.parametrize("sizes", SIZES)
def test_a_target_holds_at_capacity_where_tokens_share_graphs(
    model: ReplicaModel, sizes: tuple[int, int, int, int]
) -> None:
    """By chance a rank changes to launched steps for good near the crest: it must not be planned that near."""
    target = 0.030
    found = predict(model, _workload(sizes), Slo(tpot=((95, target),)), Role.Aggregated)
    load = _workload(sizes, found.capacity)
    seats = service(model, load, Role.Aggregated).seats
    measured = simulate(model, load, seats, round(60 * found.capacity), 1)
    assert np.percentile(measured.tpot, 95) < 1.15 * target


@pytest.mark.parametrize("sizes", SIZES[:4])
def test_beyond_the_crest_more_sequences_are_answered_at_its_rate(sizes: tuple[int, int, int, int]) -> None:
    server = service(OLDER, _workload(sizes), Role.Aggregated)
    crest = server.crest
    assert crest is not None
    between = [crest.batch + part * (crest.until - crest.batch) for part in (0.01, 0.3, 0.6, 0.99)]
    points = [server.at_batch(batch) for batch in (0.9 * crest.batch, *between, 1.1 * crest.until)]
    assert points[0].rate < 0.98 * crest.rate
    assert [crest.rate] * 4 == pytest.approx([point.rate for point in points[1:5]], rel=5e-3)
    assert points[-1].rate > 1.02 * crest.rate
    assert all(few.tpot.mean < many.tpot.mean for few, many in pairwise(points))


def test_what_waits_for_no_launch_has_no_crest() -> None:
    slow = replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16)
    assert service(slow, _workload(SIZES[0]), Role.Aggregated).crest is None
    assert service(B200, _workload((2000, 4000, 300, 600)), Role.Aggregated).crest is None
    assert service(B200, _workload(SIZES[0]), Role.Decode).crest is None


BETTER = st.builds(
    lambda model, what, factor: (model, with_more(model, what, factor)),
    st.sampled_from([B200, H200, LOCKSTEP]),
    st.sampled_from(["flops", "memory bandwidth", "link"]),
    st.floats(1.0, 4.0),
)


@given(BETTER, st.floats(100, 450), st.floats(64, 400), st.floats(0.05, 0.95))
def test_a_better_device_comes_to_its_crest_no_earlier(
    devices: tuple[ReplicaModel, ReplicaModel], tokens: float, answer: float, load: float
) -> None:
    """Its steps are shorter, so that fewer prompts come in each; within the accuracy of searches."""
    asked = Workload(1.0, tokens, answer, tokens, answer)
    rate = load * predict(devices[0], asked, Slo(), Role.Aggregated).capacity
    slow, fast = (at_rate(each, replace(asked, requests_per_second=rate), Role.Aggregated) for each in devices)
    assert slow is not None
    assert fast is not None
    assert fast[1].mean <= 1.004 * slow[1].mean
