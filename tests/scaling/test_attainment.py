"""The share of requests within the SLO comes from the histograms that the engines count in."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.cases import seen
from tests.scaling.scrapes import SERIES
from weft.domain.snapshot import PoolObservation  # noqa: TC001 - built below
from weft.domain.workload import Slo
from weft.observe.samples.arithmetic import quantile
from weft.observe.samples.history import History
from weft.observe.samples.scrape_target import EngineTarget
from weft.observe.signals.observation import observe_pool
from weft.scaling import live_figures
from weft.scaling.traffic.attainment import attainment, share_within

BUCKETS = ((0.1, 50.0), (0.5, 90.0), (1.0, 95.0), (math.inf, 100.0))


def histogram(name: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], tuple[tuple[float, float], ...]]:
    """Counted from nothing to `BUCKETS` within a minute."""
    return {
        (f"{name}_bucket", (("le", "+Inf" if math.isinf(bound) else str(bound)),)): ((0.0, 0.0), (60.0, count))
        for bound, count in BUCKETS
    }


def observed() -> PoolObservation:
    """A pool whose TTFT and TPOT are those of `BUCKETS`."""
    latencies = {**histogram(SERIES.ttft), **histogram(str(SERIES.tpot))}
    history = History(60.0, {(SERIES.finished, ()): ((0.0, 0.0), (60.0, 100.0)), **latencies})
    return observe_pool(
        [EngineTarget("a", "team", "a", "10.0.0.1", 8000, "/metrics", (), series=SERIES)], {"a": history}
    )


@pytest.mark.parametrize(
    ("slo", "share"),
    [
        (Slo(), None),
        (Slo(ttft=((95, 0.5),)), 0.9),
        (Slo(ttft=((50, 0.1), (99, 1.0))), 0.95),
        (Slo(ttft=((95, 0.5),), tpot=((95, 0.1),)), 0.5),
        (Slo(tpot=((95, 5.0),)), 0.95),
    ],
)
def test_the_highest_percentile_counts_and_of_ttft_and_tpot_the_worse(slo: Slo, share: float | None) -> None:
    figures = live_figures(observed(), slo, ())
    assert figures is not None
    assert figures.attainment == pytest.approx(share)


def test_a_target_inside_the_first_bucket_that_holds_anything_is_not_read_off_it() -> None:
    """Requests of 1 ms and of 9 ms look the same to a bucket that ends at 10 ms."""
    fast = replace(seen(1.0, 1), tpot_buckets=((0.01, 90.0), (0.1, 100.0), (math.inf, 100.0)))
    slow = replace(seen(1.0, 1), tpot_buckets=((0.01, 0.0), (0.1, 100.0), (math.inf, 100.0)))
    target = Slo(tpot=((95, 0.008),))
    assert attainment(target, fast) is None
    assert attainment(target, slow) == 0.0


def test_without_a_histogram_nothing_is_claimed() -> None:
    figures = live_figures(seen(1.0, 1), Slo(ttft=((95, 0.5),)), ())
    assert figures is not None
    assert figures.attainment is None


@given(growth=st.lists(st.integers(0, 1000), min_size=1, max_size=6), fraction=st.floats(0.01, 0.99))
def test_it_is_the_quantile_read_backwards(growth: list[int], fraction: float) -> None:
    """Where the quantile is known below the last bound, that fraction of the requests is within it."""
    counts = [sum(growth[: index + 1]) for index in range(len(growth))]
    buckets = (*((float(2**index), float(count)) for index, count in enumerate(counts)), (math.inf, float(counts[-1])))
    seconds = quantile(buckets, fraction)
    share = share_within(buckets, seconds) if seconds is not None else None
    assert (seconds is None) == (share is None)
    assert share is None or share == pytest.approx(fraction, abs=1e-6)


@given(st.lists(st.tuples(st.floats(allow_nan=True), st.floats(allow_nan=True)), max_size=8), st.floats(0, 1e6))
def test_it_is_a_fraction_whatever_is_counted(buckets: list[tuple[float, float]], seconds: float) -> None:
    share = share_within(tuple(buckets), seconds)
    assert share is None or 0 <= share <= 1
