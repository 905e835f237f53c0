"""How predictions are scored: arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bench.fitting.score import Option, choose, covered, errors
from bench.page import as_page


def option(measured: float, predicted: float, rate: float, hoped: float) -> Option:
    return Option(measured_tpot=measured, predicted_tpot=predicted, measured_rate=rate, predicted_rate=hoped)


def test_errors_are_absolute_and_relative_to_what_was_measured() -> None:
    found = errors(np.array([1.0, 1.1, 0.8, 2.0]))
    assert (found.rows, found.median) == (4, 0.15)
    assert found.p90 == pytest.approx(0.76)


def test_an_interval_holds_what_is_off_by_at_most_its_factor_in_both_directions() -> None:
    inside, width = covered(np.array([1.2, 1 / 1.2, 1.4, 1 / 1.4]), np.full(4, 1.3))
    assert inside == 0.5
    assert width == 1.69


def test_the_fastest_of_those_predicted_inside_the_limit_is_picked() -> None:
    """Limits are 15, 20, 30 and 50 ms: from 30 ms on the slower, richer candidate is inside."""
    group = [option(0.010, 0.010, 100, 100), option(0.025, 0.025, 300, 300)]
    found = choose([group], margin=1.0)
    assert (found.choices, found.broken, found.doubtful, found.of_the_best) == (4, 0.0, 0.0, 1.0)


def test_a_pick_that_breaks_the_limit_counts_nothing() -> None:
    group = [option(0.010, 0.010, 100, 100), option(0.060, 0.012, 300, 300)]
    found = choose([group], margin=1.0)
    assert (found.broken, found.of_the_best) == (1.0, 0.0)


def test_a_margin_keeps_away_from_the_limit_at_a_price() -> None:
    group = [option(0.010, 0.010, 100, 100), option(0.049, 0.049, 300, 300)]
    assert choose([group], margin=1.0).of_the_best == 1.0
    assert choose([group], margin=1.2).of_the_best == pytest.approx((1 + 1 + 1 + 1 / 3) / 4, abs=1e-4)


def test_where_nothing_is_predicted_inside_the_closest_is_taken_and_said_to_be_doubtful() -> None:
    found = choose([[option(0.045, 0.070, 100, 100), option(0.048, 0.080, 300, 300)]], margin=1.0)
    assert (found.choices, found.doubtful) == (1, 1.0)
    assert found.of_the_best == pytest.approx(1 / 3, abs=1e-4)


def test_a_limit_that_no_candidate_meets_is_no_choice() -> None:
    assert choose([[option(0.045, 0.045, 100, 100)]], margin=1.0).choices == 1


def test_the_page_shows_every_figure_beside_its_aim() -> None:
    figures = {"rows": 7, "median": 0.0123, "p90": 0.456}
    latencies = {"tpot": figures, "ttft": figures, "output_rate": figures}
    interval = {"covered": 0.81, "median_high_over_low": 1.7}
    kinds = ("in_sample", "architecture_left_out", "architecture_left_out_precision_of_its_own", "accelerator_left_out")
    page = as_page(
        {
            **dict.fromkeys((*kinds, "one_live_point", "disaggregated", "offline", "offline_amd"), latencies),
            "machine": {"words": "a machine"},
            "interval_of_left_out_architectures": {"tpot": interval, "ttft": interval},
            "choice": {"choices": 12, "broken": 0.04, "doubtful": 0.1, "of_the_best": 0.9},
            "answered": {"rows": 99, "part": 1.0},
        }
    )
    assert "| TPOT, in sample | 7 | 1.2% | 45.6% | 9 % / 28 % |" in page
    assert "(a machine)" in page
    assert "100% of 99 rows" in page
    assert "holds 81% of TPOT (high over" in page
