"""Tails of latencies: measured at the edges of buckets, and followed from the model's error bar on."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.learning import quiet
from weft.domain.shape import Calibration, Percentiles
from weft.domain.workload import Role, Slo
from weft.scaling.calibrating.tails import LEAST, MOST, ExpectedLatencies, followed, latency_at, tail_of

if TYPE_CHECKING:
    from weft.domain.snapshot import Buckets

SPREAD = 0.2
EXPECTED = Percentiles(
    0.0204, *(0.02 * math.exp(SPREAD * NormalDist().inv_cdf(part)) for part in (0.5, 0.9, 0.95, 0.99))
)
TARGETS = ((95, 0.03),)
VLLM = (0.01, 0.025, 0.05, 0.075, 0.1, math.inf)
FINE = (0.01, 0.02, 0.022, 0.024, 0.026, 0.028, 0.03, 0.035, 0.04, 0.05, 0.07, 0.1, math.inf)


def counted(times: float, bounds: tuple[float, ...] = VLLM, count: float = 10_000.0) -> Buckets:
    """Requests whose latency is so many times what is expected, without any scatter."""

    def below(bound: float) -> float:
        return 1.0 if math.isinf(bound) else NormalDist(math.log(0.02 * times), SPREAD).cdf(math.log(bound))

    return tuple((bound, round(count * below(bound), 6)) for bound in bounds)


@pytest.mark.parametrize("times", [0.9, 1.0, 1.2])
def test_coarse_buckets_tell_a_tail_at_their_edge(times: float) -> None:
    """All but a few of the requests are below 25 ms, or all but a few of them above."""
    assert tail_of(counted(times), TARGETS, EXPECTED) == pytest.approx(times, rel=0.01)


@given(times=st.floats(0.7, 2.4))
def test_fine_buckets_tell_any_tail(times: float) -> None:
    assert tail_of(counted(times, FINE), TARGETS, EXPECTED) == pytest.approx(times, rel=0.03)


def test_between_two_edges_a_tail_is_as_expected_as_far_as_both_allow() -> None:
    """Nearly all between 25 and 50 ms where a median of 20 ms is expected; and all below 10 ms."""
    assert tail_of(((0.025, 20.0), (0.05, 1000.0), (math.inf, 1000.0)), TARGETS, EXPECTED) == pytest.approx(1.25)
    fast = tail_of(((0.01, 1000.0), (math.inf, 1000.0)), TARGETS, EXPECTED)
    assert fast == pytest.approx(0.01 / latency_at(0.995, EXPECTED))


@pytest.mark.parametrize("buckets", [(), ((0.01, 0.0), (math.inf, 0.0)), ((0.01, math.nan),)])
def test_nothing_counted_tells_nothing(buckets: Buckets) -> None:
    assert tail_of(buckets, TARGETS, EXPECTED) is None
    assert tail_of(counted(1.0), (), EXPECTED) is None
    assert tail_of(counted(1.0), TARGETS, Percentiles(0.0, 0.0, 0.0, 0.0, 0.0)) is None


def test_a_queue_that_is_expected_to_grow_without_end_teaches_nothing() -> None:
    endless = replace(EXPECTED, p95=math.inf, p99=math.inf)
    expected = ExpectedLatencies(endless, endless, 1.5, 1.5)
    seen = replace(quiet(), ttft_buckets=counted(1.0), tpot_buckets=counted(1.0))
    found = followed(Calibration(points=1), seen, Role.Aggregated, Slo(TARGETS, TARGETS), expected)
    assert found == Calibration(points=1)


def learnt(
    times: list[float], error_bar: float = 1.5, role: Role = Role.Aggregated, target: float = 0.03
) -> Calibration:
    """Factors after so many measurements, in each of which tails were so many times what is expected."""
    factors, slo = Calibration(), Slo(TARGETS, ((95, target),))
    for each in times:
        seen = replace(quiet(), ttft_buckets=counted(each, FINE), tpot_buckets=counted(each, FINE))
        expected = ExpectedLatencies(EXPECTED, EXPECTED, error_bar, error_bar)
        factors = followed(replace(factors, points=factors.points + 1), seen, role, slo, expected)
    return factors


@pytest.mark.parametrize("times", [0.9, 1.0, 1.3, 2.0])
def test_a_tail_goes_from_the_error_bar_to_what_is_measured(times: float) -> None:
    found = learnt([times] * 40)
    assert found.tpot_tail == pytest.approx(times, rel=0.03)
    assert found.ttft_tail == pytest.approx(times, rel=0.03)


def test_what_is_far_from_its_target_tells_little() -> None:
    """A target of ten times the latency that is expected: an idle replica does not speak for a full one."""
    far, near = learnt([1.0] * 10, target=0.3).tpot_tail, learnt([1.0] * 10).tpot_tail
    assert far is not None
    assert near is not None
    assert 1.0 < near < 1.05
    assert 1.3 < far < 1.5


def test_one_outlier_moves_a_settled_tail_by_less_than_a_tenth() -> None:
    settled, after = learnt([1.0] * 40).tpot_tail, learnt([*[1.0] * 40, 100.0]).tpot_tail
    assert settled is not None
    assert after is not None
    assert settled < after < 1.1 * settled


@given(times=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30))
def test_tails_stay_within_their_bounds_whatever_is_measured(times: list[float]) -> None:
    found = learnt(times)
    assert found.tpot_tail is not None
    assert LEAST <= found.tpot_tail <= MOST


def test_half_a_pair_has_the_tail_of_what_it_does() -> None:
    prefill, decode = learnt([1.0], role=Role.Prefill), learnt([1.0], role=Role.Decode)
    assert (prefill.tpot_tail, decode.ttft_tail) == (None, None)
    assert None not in {prefill.ttft_tail, decode.tpot_tail}
