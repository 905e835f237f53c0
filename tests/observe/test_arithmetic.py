"""Rates and quantiles hold whatever a scrape brings."""

from __future__ import annotations

import math
from random import Random  # noqa: TC003 - Hypothesis reads the annotation
from statistics import NormalDist

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weft.observe.samples.arithmetic import (
    MOST_COUNTED,
    Sample,
    increase,
    latest,
    log_normal_quantile,
    merged,
    percentiles,
    quantile,
    rate,
    unresolved,
    usable,
)
from weft.observe.samples.history import History, SeriesKey

steps = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)
anything = st.floats(allow_nan=True, allow_infinity=True)
samples = st.lists(st.tuples(st.floats(0, 1e6), anything), max_size=30)


def counted(increments: list[float]) -> list[tuple[float, float]]:
    """A counter scraped once a second that grew by these increments."""
    total, line = 0.0, [(0.0, 0.0)]
    for second, more in enumerate(increments, start=1):
        total += more
        line.append((float(second), total))
    return line


class TestIncrease:
    def test_of_a_counter_that_never_restarts_is_the_difference(self) -> None:
        assert increase([(0, 5), (10, 8), (20, 15)]) == 10

    def test_counts_from_zero_after_a_reset(self) -> None:
        assert increase([(0, 100), (10, 110), (20, 4), (30, 6)]) == 16

    def test_of_one_sample_is_unknown_and_never_zero(self) -> None:
        assert increase([(0, 5)]) is None

    def test_ignores_values_no_counter_can_have(self) -> None:
        assert increase([(0, 1), (1, math.nan), (2, -4), (3, math.inf), (4, 3)]) == 2

    @given(steps, st.randoms(use_true_random=False))
    def test_does_not_depend_on_the_order_of_arrival(self, increments: list[float], shuffle: Random) -> None:
        line = counted(increments)
        mixed = list(line)
        shuffle.shuffle(mixed)
        assert increase(mixed) == increase(line)

    @given(steps, st.integers(0, 29))
    def test_survives_one_restart_without_losing_what_is_seen(self, increments: list[float], at: int) -> None:
        """A process that restarts at a scrape keeps everything but what it counted since the scrape before."""
        line = counted(increments)
        before, after = line[: at + 1], line[at + 1 :]
        restarted = [(second, value - before[-1][1]) for second, value in after]
        grown = increase([*before, *restarted])
        assert grown is not None
        assert grown <= sum(increments) + 1e-6

    @given(samples)
    def test_is_unknown_or_a_finite_number_of_zero_or_more(self, line: list[tuple[float, float]]) -> None:
        grown = increase(line)
        assert grown is None or grown >= 0


@given(st.lists(st.tuples(st.one_of(st.integers(0, 20), anything), anything), max_size=8))
def test_usable_samples_are_those_that_can_be_in_order_of_time(line: list[tuple[float, float]]) -> None:
    """Of two at one time the later one; the shortcut for lines that are so already leaves nothing in."""
    kept = {at: value for at, value in line if math.isfinite(at) and 0 <= value <= MOST_COUNTED}
    assert usable(line) == [(at, kept[at]) for at in sorted(kept)]


@given(st.lists(st.lists(st.tuples(st.sampled_from([0.1, 0.5, 1.0, math.inf]), st.integers(0, 50)), max_size=5)))
def test_histograms_are_merged_bound_by_bound(histograms: list[list[tuple[float, float]]]) -> None:
    """Each bound has, of every histogram, the most that was counted up to it."""
    bounds = sorted({bound for histogram in histograms for bound, _ in histogram})
    below = [[max([0.0, *(n for upper, n in each if upper <= bound)]) for each in histograms] for bound in bounds]
    assert merged(map(tuple, histograms)) == tuple(zip(bounds, map(sum, below), strict=True))


class TestRate:
    def test_is_growth_per_second_between_the_samples(self) -> None:
        assert rate([(100, 10), (130, 40)]) == 1.0

    @given(samples)
    def test_never_raises_and_is_never_negative(self, line: list[tuple[float, float]]) -> None:
        value = rate(line)
        assert value is None or value >= 0


def test_the_latest_value_is_the_newest_usable_one() -> None:
    assert latest([(3, math.nan), (1, 7), (2, 9)]) == 9


class TestQuantile:
    def test_is_linear_inside_a_bucket(self) -> None:
        assert quantile(((1.0, 0.0), (2.0, 10.0), (math.inf, 10.0)), 0.5) == 1.5

    def test_above_the_last_finite_bound_is_that_bound(self) -> None:
        assert quantile(((1.0, 1.0), (math.inf, 10.0)), 0.9) == 1.0

    @pytest.mark.parametrize(
        "buckets",
        [(), ((1.0, 5.0),), ((math.inf, 5.0),), ((1.0, 0.0), (math.inf, 0.0))],
        ids=["none", "no-infinite-bucket", "only-infinite", "nothing-counted"],
    )
    def test_of_too_little_is_unknown(self, buckets: tuple[tuple[float, float], ...]) -> None:
        assert quantile(buckets, 0.5) is None

    @given(st.lists(st.floats(0, 1e3), min_size=2, max_size=8))
    def test_never_falls_as_the_fraction_grows(self, counts: list[float]) -> None:
        total = [sum(counts[: end + 1]) for end in range(len(counts))]
        bounds = [*map(float, range(1, len(counts))), math.inf]
        values = [value for _, value in percentiles(tuple(zip(bounds, total, strict=True)))]
        assert values == sorted(values)

    @given(st.lists(st.floats(0.001, 99.0), min_size=1, max_size=200), st.floats(0.01, 0.99))
    def test_lies_in_the_bucket_of_the_true_quantile(self, observed: list[float], fraction: float) -> None:
        bounds = [0.1, 1.0, 10.0, 100.0, math.inf]
        buckets = tuple((bound, float(sum(value <= bound for value in observed))) for bound in bounds)
        exact = sorted(observed)[max(0, math.ceil(fraction * len(observed) - 1e-9) - 1)]
        upper = next(bound for bound in bounds if exact <= bound)
        lower = max([0.0, *(bound for bound in bounds if bound < upper)])
        value = quantile(buckets, fraction)
        assert value is not None
        assert lower - 1e-9 <= value <= upper + 1e-9


class TestPercentiles:
    BUCKETS = ((0.01, 60.0), (0.1, 92.0), (1.0, 98.0), (math.inf, 100.0))

    def test_in_the_first_bucket_are_the_mean_as_far_as_the_bucket_allows(self) -> None:
        assert dict(percentiles(self.BUCKETS, mean=0.004))[50] == 0.004
        assert dict(percentiles(self.BUCKETS, mean=0.3))[50] == 0.01

    def test_beyond_the_last_bound_are_at_least_that(self) -> None:
        assert dict(percentiles(self.BUCKETS, mean=0.3))[99] == 1.0

    def test_between_are_read_off_the_buckets(self) -> None:
        assert dict(percentiles(self.BUCKETS, mean=0.3))[95] == pytest.approx(0.1 + 0.9 * 0.5)

    def test_that_cannot_be_resolved_are_told(self) -> None:
        assert unresolved(self.BUCKETS) == (50, 99)
        assert unresolved(()) == ()

    def test_are_never_invented_without_a_mean(self) -> None:
        assert [percent for percent, _ in percentiles(self.BUCKETS)] == [90, 95]

    @given(st.lists(st.floats(0, 1e3), min_size=2, max_size=8), st.floats(0, 20))
    def test_never_fall_whatever_the_mean(self, counts: list[float], mean: float) -> None:
        total = [sum(counts[: end + 1]) for end in range(len(counts))]
        bounds = [*map(float, range(1, len(counts))), math.inf]
        values = [value for _, value in percentiles(tuple(zip(bounds, total, strict=True)), mean)]
        assert values == sorted(values)


class TestMerged:
    def test_adds_equal_buckets(self) -> None:
        one = ((1.0, 2.0), (math.inf, 3.0))
        assert merged([one, one]) == ((1.0, 4.0), (math.inf, 6.0))

    def test_reads_a_missing_bound_from_the_one_below(self) -> None:
        fine, coarse = ((1.0, 1.0), (2.0, 2.0), (math.inf, 2.0)), ((1.0, 4.0), (math.inf, 8.0))
        assert merged([fine, coarse]) == ((1.0, 5.0), (2.0, 6.0), (math.inf, 10.0))


class TestLogNormalQuantile:
    TOKENS = tuple(unit * 10.0**decade for decade in range(6) for unit in (1, 2, 5))  # vLLM's buckets of lengths

    def buckets(self, observed: list[float]) -> tuple[tuple[float, float], ...]:
        return tuple((bound, float(sum(each <= bound for each in observed))) for bound in (*self.TOKENS, math.inf))

    @pytest.mark.parametrize("deviation", [0.5, 0.8, 1.2])
    @pytest.mark.parametrize("median", [130.0, 410.0, 900.0, 1700.0])
    def test_finds_the_95th_percentile_of_lengths_in_buckets_that_double(self, median: float, deviation: float) -> None:
        buckets = self.buckets([median * math.exp(deviation * NormalDist().inv_cdf(i / 4000)) for i in range(1, 4000)])
        true = median * math.exp(deviation * 1.6449)
        assert log_normal_quantile(buckets, 0.95) == pytest.approx(true, rel=0.02)

    def test_a_straight_line_does_not(self) -> None:
        buckets = self.buckets([410.0 * math.exp(0.5 * NormalDist().inv_cdf(i / 4000)) for i in range(1, 4000)])
        straight = quantile(buckets, 0.95)
        assert straight is not None
        assert straight > 1.04 * 410.0 * math.exp(0.5 * 1.6449)

    @pytest.mark.parametrize(
        "observed",
        [[], [150.0] * 100, [90.0, *[150.0] * 99], [10.0] * 90 + [1e7] * 10, [0.5] * 100],
        ids=["nothing", "all-in-one-bucket", "nearly-all-in-one", "beyond-the-last", "below-the-first"],
    )
    def test_is_unknown_where_buckets_do_not_tell(self, observed: list[float]) -> None:
        assert log_normal_quantile(self.buckets(observed), 0.95) is None

    @given(st.lists(st.floats(0.001, 4e5), max_size=200), st.floats(0.01, 0.99))
    def test_lies_in_the_bucket_of_the_true_quantile(self, observed: list[float], fraction: float) -> None:
        value = log_normal_quantile(self.buckets(observed), fraction)
        if value is None:
            return
        true = sorted(observed)[math.ceil(fraction * len(observed)) - 1]
        above = next(bound for bound in self.TOKENS if bound >= true)
        below = max((bound for bound in self.TOKENS if bound < above), default=0.0)
        assert below * (1 - 1e-9) <= value <= above * (1 + 1e-9)


@given(st.lists(st.tuples(anything, anything), max_size=12), st.one_of(st.none(), anything))
@example([(math.nan, 3.0), (1.0, 2.0), (2.0, 4.0), (math.inf, 4.0)], None)
@example([(1.0, 4e11), (math.nan, 0.0), (0.0, 5e12)], None)
@example([(1.0, 2.0), (2.0, math.inf), (4.0, 3.0), (math.inf, 4.0)], 1.0)
def test_no_histogram_stops_the_reading_of_others(buckets: list[tuple[float, float]], mean: float | None) -> None:
    """Counts beyond 2^53 are read; what has no number as its bound or its count is as if the page did not say it."""
    page = tuple(buckets)
    known = tuple((bound, count) for bound, count in buckets if not math.isnan(bound) and math.isfinite(count))
    for fraction in (0.5, 0.95, 0.99):
        assert quantile(page, fraction) == quantile(known, fraction)
        assert log_normal_quantile(page, fraction) == log_normal_quantile(known, fraction)
    assert percentiles(page, mean) == percentiles(known, mean)
    assert unresolved(page) == unresolved(known)


def test_more_observations_than_a_number_can_tell_apart_have_a_percentile() -> None:
    found = log_normal_quantile(((1.0, 0.0), (10.0, 9e17), (100.0, 1e18), (math.inf, 1e18)), 0.95)
    assert found is not None
    assert 10.0 < found < 100.0


def counter(first: int, last: int) -> tuple[tuple[float, float], ...]:
    """A counter that grows by one a second, read every five seconds."""
    return tuple((at, at) for at in map(float, range(first, last + 1, 5)))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (counter(50, 60), 70 / 60),  # a label that appears late
        (counter(0, 10), 70 / 60),  # one that goes early
        (counter(5, 60), 2.0),  # a single page without it may be truncated
        (counter(0, 55), 2.0),
        (((60.0, 7.0),), 1.0),
        (((30.0, 7.0),), 1.0),
    ],
)
def test_a_rate_over_several_series_is_over_one_span(other: tuple[tuple[float, float], ...], expected: float) -> None:
    """Each over its own would make two requests a second of one that had a burst at the end."""
    history = History(60.0, {("done", (("why", "stop"),)): counter(0, 60), ("done", (("why", "length"),)): other})
    assert history.rate("done") == pytest.approx(expected)


def test_pages_that_were_read_at_other_times_have_spans_of_their_own() -> None:
    pages: dict[SeriesKey, tuple[Sample, ...]] = {
        ("done", (("page", str(port)),)): counter(5 * port, 60) for port in (0, 1, 5)
    }
    assert History(60.0, pages).rate("done") == pytest.approx(3.0)
    assert History(60.0, {}).rate("done") is None
