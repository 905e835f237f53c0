"""Bins, percentiles and ticks of what a simulation draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weft.cli.simulate.series import (
    clock,
    edges_of,
    edges_until,
    latency,
    linear_ticks,
    log_ticks,
    moment,
    only_changes,
    percentiles,
    percentiles_by_bin,
    rates,
    step_of_time,
)


@pytest.mark.parametrize(
    ("seconds", "most", "step"),
    [(0.0, 10, 1.0), (59.0, 60, 1.0), (3600.0, 100, 60.0), (86400.0, 100, 900.0), (86400.0 * 30, 10, 86400.0 * 3)],
)
def test_a_step_of_time_is_handy(seconds: float, most: int, step: float) -> None:
    assert step == step_of_time(seconds, most)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 59.5, 3600.0, 3601.0, 1e6])
def test_bins_hold_the_whole_time_and_nothing_in_vain(seconds: float) -> None:
    edges = edges_of(seconds, 100)
    assert edges[0] == 0.0
    assert edges[-1] >= seconds
    assert edges[-1] - seconds < max(edges[1], seconds + 2.0 if seconds == 0.0 else edges[1])
    assert len(edges) <= 101


def test_rates_count_each_request_once() -> None:
    arrived, edges = np.array([0.5, 1.0, 9.0, 10.0]), np.array([0.0, 5.0, 10.0])
    assert [0.4, 0.4] == rates(arrived, edges).tolist()


@pytest.mark.parametrize(
    ("last", "ends"), [(10.0, [0.0, 5.0, 10.0]), (9.0, [0.0, 5.0, 9.0]), (11.0, [0.0, 5.0, 11.0]), (0.0, [0.0, 1.0])]
)
def test_the_rate_does_not_seem_to_fall_where_the_trace_ends(last: float, ends: list[float]) -> None:
    """The axis goes on until all is answered, and a bin that is hardly begun has few requests."""
    edges = edges_until(last, np.array([0.0, 5.0, 10.0, 15.0, 20.0]))
    assert ends == edges.tolist()
    even = np.arange(0.5, last, 1.0)
    assert [1.0] * (len(ends) - 1) == pytest.approx(rates(even, edges).tolist()) or last == 0.0


def test_percentiles_leave_out_who_has_no_answer() -> None:
    assert [2.0, 3.0] == percentiles([1.0, math.inf, 3.0, math.nan, 2.0], (50, 100))
    assert all(map(math.isnan, percentiles([math.inf], (50, 99))))


def test_percentiles_by_bin_have_a_gap_where_nobody_came() -> None:
    arrived = np.array([0.0, 1.0, 9.0])
    found = percentiles_by_bin(arrived, np.array([1.0, 3.0, 7.0]), np.array([0.0, 5.0, 8.0, 10.0]), (50, 100))
    np.testing.assert_equal(np.array([[2.0, math.nan, 7.0], [3.0, math.nan, 7.0]]), found)


def test_steps_are_told_once_and_at_their_end() -> None:
    times, values = only_changes(np.arange(6.0), np.array([1.0, 1.0, 2.0, 2.0, 2.0, 2.0]))
    assert ([0.0, 2.0, 5.0], [1.0, 2.0, 2.0]) == (times.tolist(), values.tolist())
    assert 0 == len(only_changes(np.zeros(0), np.zeros(0))[0])


def test_linear_ticks_reach_the_highest_value() -> None:
    assert [0.0, 0.2, 0.4, pytest.approx(0.6)] == linear_ticks(0.55, 4)
    assert [0.0, 1.0] == linear_ticks(1.0, 4, whole=True)
    assert [0.0, 5.0, 10.0] == linear_ticks(9.0, 3, whole=True)


def test_replicas_have_whole_ticks_only() -> None:
    for highest in range(1, 200):
        assert all(tick == int(tick) for tick in linear_ticks(float(highest), 4, whole=True))


def test_logarithmic_ticks_hold_both_ends() -> None:
    assert [0.1, 0.2, 0.5, 1.0, 2.0] == pytest.approx(log_ticks(0.11, 1.3))
    assert [0.01, 0.1, 1.0, 10.0, 100.0] == pytest.approx(log_ticks(0.02, 90.0))


def test_times_read_as_people_say_them() -> None:
    ticks = [moment(each) for each in (0, 30, 90, 600, 3600, 5400, 86400, 172_800, 216_000)]
    assert ["0", "30 s", "1:30 min", "10 min", "1 h", "1 h 30", "24 h", "2 d", "2 d 12 h"] == ticks
    assert ("0:05:30", "27:46:40") == (clock(330.9), clock(100_000))
    assert ("500 ms", "1000 s") == (latency(0.5), latency(1000.0))
