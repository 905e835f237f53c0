"""Made-up traces follow their shape, repeat by seed and refuse what cannot be meant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.twin.traffic.made_up import SHAPES, made_up
from weft.twin.traffic.open_loop import whole_tokens
from weft.twin.traffic.trace import MOST_TOKENS, Trace, TraceError


def rate(trace: Trace, begin: float, end: float) -> float:
    """Requests per second in between."""
    return len(trace.part(begin, end)) / (end - begin)


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_has_defaults_and_repeats_by_seed(name: str) -> None:
    one, again, other = made_up(name, 1), made_up(name, 1), made_up(name, 2)
    assert one.arrivals.tolist() == again.arrivals.tolist() != other.arrivals.tolist()
    assert np.all(np.diff(one.arrivals) >= 0)
    assert one.inputs.min() >= 1
    assert one.inputs.mean() == pytest.approx(1000, rel=0.03)
    assert one.outputs.mean() == pytest.approx(200, rel=0.03)


def test_the_longest_requests_have_as_many_tokens_as_a_request_can_have() -> None:
    trace = made_up("poisson:rate=300,isl=1e8,osl=1e-9")
    assert 1 <= trace.inputs.min() <= trace.inputs.max() <= MOST_TOKENS
    assert trace.inputs.mean() == pytest.approx(1e8, rel=0.03)
    assert trace.outputs.tolist() == [1] * len(trace)
    assert whole_tokens(np.array([0.2, 3e9, np.inf])).tolist() == [1, MOST_TOKENS, MOST_TOKENS]


def test_times_may_be_written_with_their_unit() -> None:
    plain = made_up("burst:rate=5,every=300,lasting=30,seconds=1800")
    assert plain.arrivals.tolist() == made_up("burst:rate=5,every=5m,lasting=30s,seconds=30m").arrivals.tolist()


def test_a_steady_rate_is_steady() -> None:
    trace = made_up("poisson:rate=20,seconds=2000")
    assert trace.rate == pytest.approx(20, rel=0.05)
    gaps = np.diff(trace.arrivals)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, rel=0.05)


def test_a_step_goes_from_nothing_to_its_rate_at_once() -> None:
    trace = made_up("step:from=0,to=20,at=600,seconds=1800")
    assert 600.0 <= trace.arrivals[0] < 601.0
    assert rate(trace, 600, 1800) == pytest.approx(20, rel=0.05)


def test_a_ramp_is_half_way_in_the_middle() -> None:
    trace = made_up("ramp:from=0,to=100,at=100,over=1000,seconds=1200")
    assert rate(trace, 550, 650) == pytest.approx(50, rel=0.05)
    assert rate(trace, 1100, 1200) == pytest.approx(100, rel=0.05)


def test_a_day_has_its_peak_at_noon() -> None:
    trace = made_up("day:rate=5,peak=1.5")
    assert rate(trace, 11.5 * 3600, 12.5 * 3600) == pytest.approx(7.5, rel=0.05)
    assert rate(trace, 0, 3600) == pytest.approx(2.5, rel=0.08)
    assert trace.rate == pytest.approx(5, rel=0.02)


@pytest.mark.parametrize("peak", [2.0, 3.0, 8.0])
def test_a_day_keeps_its_mean_however_high_its_peak(peak: float) -> None:
    """A sine cannot reach more than twice its mean: above that, more came than was asked for."""
    trace = made_up(f"day:rate=5,peak={peak}")
    assert len(trace) / 86400 == pytest.approx(5, rel=0.02)
    assert rate(trace, 11.8 * 3600, 12.2 * 3600) == pytest.approx(5 * peak, rel=0.06)


def test_bursts_come_back() -> None:
    trace = made_up("burst:rate=5,times=10,every=300,lasting=30,seconds=3000")
    for burst in range(10):
        assert rate(trace, 300 * burst + 135, 300 * burst + 165) == pytest.approx(50, rel=0.15)
        assert rate(trace, 300 * burst, 300 * burst + 130) < 8


@given(low=st.floats(0, 50), high=st.floats(0.1, 50), over=st.floats(1, 2000))
def test_as_many_come_as_the_area_says(low: float, high: float, over: float) -> None:
    trace = made_up(f"ramp:from={low},to={high},at=0,over={over},seconds={over + 500}")
    expected = over * (low + high) / 2 + 500 * high
    assert len(trace) == pytest.approx(expected, abs=6 * np.sqrt(expected) + 1)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("wave", "'wave' is no trace that can be made up: there are poisson, step"),
        ("step:speed=3", "step has no 'speed': it takes seconds, isl, osl, from, to, at"),
        ("step:to=many", "step: to takes a number, not 'many'"),
        ("step:to=5m", "step: to takes a number, not '5m'"),
        ("step:at=noon", "step: at takes seconds, or a time such as 90s or 1h30m, not 'noon'"),
        ("step:to=-1", "step: to cannot be -1"),
        ("day:peak=30", "day: peak cannot be above 24, which is a day's traffic within an hour"),
        ("poisson:seconds=0", "poisson: seconds cannot be 0"),
        ("poisson:isl=nan", "poisson: isl cannot be nan"),
        ("poisson:isl=1e9", "poisson: isl cannot be 1e9"),
        ("poisson:osl=1e300", "poisson: osl cannot be 1e300"),
        ("step:from=1e308,to=1e308", "step: from cannot be 1e308"),
        ("burst:rate=1e300,times=1e300", "burst: rate cannot be 1e300"),
        ("poisson:rate=1e308", "poisson: rate cannot be 1e308"),
        ("burst:every=1e-6,lasting=1e-6", "3.6e+09 bursts are more than the 100,000 that can be made up"),
        ("poisson:rate=0", "poisson:rate=0 has no requests: a higher rate or more seconds would bring some"),
        ("poisson:rate=1e9", "more than the 50,000,000 that can be made up"),
        ("poisson:rate=0.000001,seconds=1e9", "poisson: 1e+09 seconds are more than a year"),
        ("poisson:rate=2,rate=3", "poisson: rate is given twice: remove one"),
        ("burst:every=10,lasting=20", "bursts that last 20 s cannot come every 10 s"),
        (
            "step:from=1,to=20,seconds=5m",
            "step: the trace ends at 300 s and the step begins at 600 s: give more seconds, or another at",
        ),
        ("ramp:at=300,seconds=300", "ramp: the trace ends at 300 s and the ramp begins at 300 s: give more seconds"),
        (
            "burst:seconds=200",
            "burst: the trace ends at 200 s and the burst begins at 270 s: give more seconds, or another every",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(line: str, sentence: str) -> None:
    with pytest.raises(TraceError) as raised:
        made_up(line)
    assert sentence in str(raised.value)
