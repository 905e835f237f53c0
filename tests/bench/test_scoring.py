"""How predictions are scored: arithmetic by hand."""

from __future__ import annotations

import numpy as np
import pytest

from bench.fitting.intervals import between, faster
from bench.fitting.left_out import Ratios
from bench.fitting.score import Option, choose, covered, errors
from bench.page import as_page


def option(measured: float, upper: float, rate: float, hoped: float) -> Option:
    return Option(measured_tpot=measured, upper_tpot=upper, measured_rate=rate, predicted_rate=hoped)


def test_errors_are_absolute_and_relative_to_what_was_measured() -> None:
    found = errors(np.array([1.0, 1.1, 0.8, 2.0]))
    assert (found.rows, found.median) == (4, 0.15)
    assert found.p90 == pytest.approx(0.76)


def test_an_interval_holds_what_is_off_by_at_most_its_factor_on_either_side() -> None:
    """Predicted too high by 1.2 and 1.4, then too low by as much: down to a 1.3rd holds one, up to 1.1 times none."""
    off = np.array([1.2, 1.4, 1 / 1.2, 1 / 1.4])
    inside, width = covered(off, np.full(4, 1.3), np.full(4, 1.1))
    assert (inside, width) == (0.25, 1.43)
    assert (0.5, 1.69) == covered(off, np.full(4, 1.3), np.full(4, 1.3))


def test_an_interval_is_the_shortest_around_the_prediction_that_holds_four_of_five() -> None:
    """One of five measurements is four times what was predicted: it stays outside, and the others set the ends."""
    assert [1.25, 1.5] == between(1 / np.array([0.8, 0.9, 1.2, 1.5, 4.0]))


def test_an_interval_has_the_prediction_inside_even_where_all_errors_are_of_one_sign() -> None:
    below, above = between(1 / np.array([1.2, 1.25, 1.3, 1.35, 1.4]))
    assert (below, above) == (1.02, 1.35)


def test_one_of_nine_newer_releases_may_be_faster_than_the_interval_reaches() -> None:
    """Of 28 rows three may be missed: the fourth sets the end, of rates too; what is slower than predicted none."""
    off = np.array([1.0] * 22 + [1.2, 1.3, 1.4, 1.6, 2.0, 3.0])
    slow = 1.0 / off
    nothing_counts = np.append(np.ones(28, dtype=bool), [False])
    newer = Ratios(*(np.append(values, 9.0) for values in (off, slow, 1.0 / off)))
    assert {"ttft": 1.4, "tpot": 1.02, "output_rate": 1.4} == faster(newer, nothing_counts)


def test_the_fastest_of_those_predicted_inside_the_limit_is_picked() -> None:
    """Limits are 15, 20, 30 and 50 ms: from 30 ms on the slower, richer candidate is inside."""
    group = [option(0.010, 0.010, 100, 100), option(0.025, 0.025, 300, 300)]
    found = choose([group])
    assert (found.choices, found.broken, found.doubtful, found.of_the_best) == (4, 0.0, 0.0, 1.0)


def test_a_pick_that_breaks_the_limit_counts_nothing() -> None:
    group = [option(0.010, 0.010, 100, 100), option(0.060, 0.012, 300, 300)]
    found = choose([group])
    assert (found.broken, found.of_the_best) == (1.0, 0.0)


def test_an_upper_end_keeps_away_from_the_limit_at_a_price() -> None:
    safe = option(0.010, 0.010, 100, 100)
    assert choose([[safe, option(0.049, 0.049, 300, 300)]]).of_the_best == 1.0
    careful = choose([[safe, option(0.049, 0.049 * 1.2, 300, 300)]])
    assert careful.of_the_best == pytest.approx((1 + 1 + 1 + 1 / 3) / 4, abs=1e-4)


def test_where_nothing_is_predicted_inside_the_closest_is_taken_and_said_to_be_doubtful() -> None:
    found = choose([[option(0.045, 0.070, 100, 100), option(0.048, 0.080, 300, 300)]])
    assert (found.choices, found.doubtful) == (1, 1.0)
    assert found.of_the_best == pytest.approx(1 / 3, abs=1e-4)


def test_a_limit_that_no_candidate_meets_is_no_choice() -> None:
    assert choose([[option(0.045, 0.045, 100, 100)]]).choices == 1


def held(inside: float, below: float) -> dict[str, float]:
    return {"covered": inside, "faster": below, "median_high_over_low": 1.6}


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
            "interval_of_newer_releases": {
                "rows": 31,
                "faster_than_predicted": 0.7,
                "without": {"tpot": held(0.56, 0.36), "ttft": held(0.57, 0.26)},
                "with": {"tpot": held(0.82, 0.11), "ttft": held(0.74, 0.09)},
            },
            "choice": {"choices": 12, "broken": 0.04, "doubtful": 0.1, "of_the_best": 0.9},
            "choice_with_margin": {"choices": 12, "broken": 0.07, "doubtful": 0.1, "of_the_best": 0.8},
            "answered": {"rows": 99, "part": 1.0},
        }
    )
    assert "| TPOT, in sample | 7 | 1.2% | 45.6% | 9 % / 28 % |" in page
    assert "(a machine)" in page
    assert "100% of 99 rows" in page
    assert "| of architectures that the fit has not seen | 81% | 1.7 | 81% | 1.7 |" in page
    assert "(31 rows, 70% faster than predicted)" in page
    assert "with the interval of known ones | 56% (36% below) | | 57% (26% below) | |" in page
    assert "gives newer releases | 82% (11% below) | 1.6 | 74% (9% below) | 1.6 |" in page
    assert "TPOT interval is within the limit | 4.0% | 0.900 |" in page
    assert "on the prediction instead | 7.0% | 0.800 |" in page
