"""What a forecast has learnt fits into a kilobyte of text, and whatever text comes back breaks nothing."""

from __future__ import annotations

import base64
import math
import struct
from dataclasses import astuple, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scaling.test_forecast import DAY, MONDAY, at_most, busy_from_nine, followed, rates
from weft.api.status_fields import LONGEST_FORECAST
from weft.domain.forecast import KeptForecast, Pending, QuarterHour
from weft.scaling.forecasting.keeping import NEWS, is_worth_a_write, kept_now, restored
from weft.scaling.forecasting.learning import HELD_BINS, watched
from weft.scaling.forecasting.packing import packed, unpacked
from weft.scaling.forecasting.scatter import ASSUMED

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

NEW = watched(None, MONDAY, None, None)
LOOKS = st.lists(st.tuples(st.floats(0.1, 4000.0), rates, st.none() | st.floats(-1.0, 5000.0)), max_size=30)


def followed_for_days() -> ForecastState:
    """Two weeks of days with a rush from nine, and starts of a quarter of an hour."""
    state, now = NEW, MONDAY
    for rate in busy_from_nine() * 14:
        now += 60.0
        state = watched(state, now, rate, 900.0)
    return state


LEARNT = followed_for_days()


def looked(looks: list[tuple[float, float | None, float | None]]) -> ForecastState:
    """The state after looks (seconds since the one before, rate, start-up) of whatever kind."""
    state, now = NEW, MONDAY
    for apart, rate, startup in looks:
        now += apart
        state = watched(state, now, rate, startup)
    return state


def nearly(one: object, other: object) -> bool:
    """The same to six digits, in whatever tuples."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(nearly, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)
    return one == other


@settings(max_examples=50, deadline=None)
@given(LOOKS)
def test_what_was_learnt_from_anything_is_read_back(looks: list[tuple[float, float | None, float | None]]) -> None:
    state = looked(looks)
    state = replace(state, pending=tuple(each for each in state.pending if each.due > state.bin - HELD_BINS))
    state = state if state.period else replace(state, course="")  # kept where it shows a cycle
    again = unpacked(packed(state))
    assert again is not None
    assert nearly(astuple(state), astuple(again))
    assert packed(again) == packed(state)


def test_two_weeks_are_read_back_and_foretell_the_same() -> None:
    again = unpacked(packed(LEARNT))
    assert again is not None
    assert (again.days, again.latest, again.bin) == (LEARNT.days, LEARNT.latest, LEARNT.bin)
    for part in (0.5, 0.95):
        assert at_most(again, part) == pytest.approx(at_most(LEARNT, part), rel=1e-5)


def test_what_margins_cost_is_read_back() -> None:
    again = unpacked(packed(replace(LEARNT, costs=(3.0, 700.0, 950.0))))
    assert again is not None
    assert again.costs == (3.0, 700.0, 950.0)


def test_it_is_small() -> None:
    """Characters: of a new pool, of one that was seen for two weeks, and while its starts get ever shorter."""
    assert len(packed(NEW)) == 834
    assert len(packed(LEARNT)) < 1150
    faster, now = replace(LEARNT, startup_seconds=3600.0), LEARNT.seen
    for _ in range(300):
        now += 30.0
        faster = watched(faster, now, 20.0, 30.0)
        assert len(packed(faster)) < 1500 < LONGEST_FORECAST
        assert unpacked(packed(faster)) is not None


@given(st.text(max_size=200) | st.text("ABab01+/=", max_size=1500).map("5.".__add__))
def test_a_text_of_somebody_else_is_as_if_nothing_was_known(text: str) -> None:
    assert unpacked(text) is None


@given(st.integers(0, len(packed(LEARNT)) - 1))
def test_a_text_that_was_cut_off_is_as_if_nothing_was_known(length: int) -> None:
    """What misses no more than forecasts under way is still whole."""
    found = unpacked(packed(LEARNT)[:length])
    assert found is None or found == replace(restored_of(LEARNT), pending=found.pending)


def restored_of(state: ForecastState) -> ForecastState:
    found = unpacked(packed(state))
    assert found is not None
    return found


def test_another_version_is_as_if_nothing_was_known() -> None:
    assert unpacked("1" + packed(LEARNT)[1:]) is None


def with_bytes(text: str, at: int, content: bytes) -> str:
    """The text with other bytes at some place, as a hand that knows the layout writes it."""
    before = base64.b64decode(text[2:])
    return "5." + base64.b64encode(before[:at] + content + before[at + len(content) :]).decode()


@settings(max_examples=200)
@given(st.integers(0, 900), st.binary(min_size=1, max_size=8), st.lists(rates, max_size=12))
def test_no_number_of_anybody_breaks_what_follows(at: int, content: bytes, series: list[float]) -> None:
    """It is refused, or what it says may have been learnt, and forecasts on it stay numbers."""
    state = unpacked(with_bytes(packed(LEARNT), at, content))
    if state is None or state.seen > MONDAY + 1000 * DAY:
        return
    after = followed(series, apart=30.0, start=state.seen, state=state)
    assert after.latest is None or math.isfinite(at_most(after))
    assert unpacked(packed(after)) is not None


ABSURD = {
    "a level": replace(LEARNT, level=31.0),
    "no number": replace(LEARNT, trend=math.nan),
    "infinity": replace(LEARNT, usual=math.inf),
    "a start": replace(LEARNT, startup_seconds=1e6),
    "a start of less than nothing": replace(LEARNT, startup_seconds=-1.0),
    "a weight": replace(LEARNT, errors=(-1.0, *LEARNT.errors[1:])),
    "no weight": replace(LEARNT, errors=(0.0,) * len(ASSUMED)),
    "a part of a day": replace(LEARNT, days=((3.001, *LEARNT.days[0][1:]), LEARNT.days[1])),
    "what is due": replace(LEARNT, pending=(Pending(LEARNT.bin + 200, 1.0, 1.0, 0.0, 0.0),)),
    "a scale": replace(LEARNT, pending=(Pending(LEARNT.bin, 1.0, 0.0, 0.0, 0.0),)),
    "a bin of the future": replace(LEARNT, latest=LEARNT.bin + 1),
    "a quarter of the future": replace(LEARNT, quarter=QuarterHour(2**31)),
    "a cost of less than nothing": replace(LEARNT, costs=(1.0, 1.0, -1.0)),
    "requests in no bin": replace(LEARNT, costs=(0.0, 1.0, 1.0)),
    "an endless cost": replace(LEARNT, costs=(1.0, 1.0, math.inf)),
    "a dispersion": replace(LEARNT, dispersion=0.5),
}


@pytest.mark.parametrize("state", ABSURD.values(), ids=ABSURD)
def test_an_absurd_number_is_as_if_nothing_was_known(state: ForecastState) -> None:
    assert unpacked(packed(state)) is None


def test_more_forecasts_than_are_ever_under_way_are_refused() -> None:
    content = base64.b64decode(packed(LEARNT)[2:])
    more = [base64.b64encode(content + content[-18:] * times).decode() for times in (1, 33)]
    assert [unpacked("5." + text) is not None for text in more] == [True, False]


def test_a_look_at_another_time_than_there_is_is_refused() -> None:
    for seen in (-1.0, 1e12, math.nan):
        assert unpacked(with_bytes(packed(LEARNT), 0, struct.pack("<d", seen))) is None


def test_a_state_of_the_future_is_as_if_nothing_was_known() -> None:
    """Clocks that are a few seconds apart are no other time."""
    kept = kept_now(LEARNT, LEARNT.seen)
    assert restored(None, LEARNT.seen) is None
    assert restored(kept, LEARNT.seen - 5.0) == restored(kept, LEARNT.seen + 7 * DAY) == restored_of(LEARNT)
    assert restored(kept, LEARNT.seen - 120.0) is None


def test_a_gap_of_days_is_a_gap() -> None:
    """What is learnt over days holds, and the level is that of the first minute afterwards."""
    after = followed([40.0] * 12, start=LEARNT.seen + 3 * DAY, state=restored_of(LEARNT))
    assert after.days == LEARNT.days
    assert after.startup_seconds == pytest.approx(900.0)
    assert at_most(after, 0.5) == pytest.approx(40.0, rel=0.02)


NEWS_ARE = {
    "margin": followed([1.0, 30.0] * 4000, start=LEARNT.seen, state=LEARNT),
    "weight": replace(LEARNT, errors=tuple([2.0 * each for each in LEARNT.errors])),
    "start": replace(LEARNT, startup_seconds=950.0),
    "unmeasured start": replace(LEARNT, startup_seconds=None),
    "day": replace(LEARNT, days=(LEARNT.days[0], (0.4, *LEARNT.days[1][1:]))),
    "record": replace(LEARNT, highest=LEARNT.highest + 0.06),
    "new day": replace(LEARNT, days=(LEARNT.days[0], ())),
}
NO_NEWS_ARE = {
    "level": replace(LEARNT, level=0.0, seen=LEARNT.seen + 3600.0, trend=0.1),
    "start": replace(LEARNT, startup_seconds=940.0),
    "record that is long ago": replace(LEARNT, highest=LEARNT.highest - 0.5),
    "day": replace(LEARNT, days=(LEARNT.days[0], (0.04, *LEARNT.days[1][1:]))),
    "part in which nothing happens": replace(LEARNT, days=(LEARNT.days[0], (None, *LEARNT.days[1][1:]))),
}


@pytest.mark.parametrize("state", NEWS_ARE.values(), ids=NEWS_ARE)
def test_what_takes_days_to_learn_is_news(state: ForecastState) -> None:
    assert any(each(LEARNT, state) for each in NEWS)


@pytest.mark.parametrize("state", NO_NEWS_ARE.values(), ids=NO_NEWS_ARE)
def test_what_a_minute_tells_is_no_news(state: ForecastState) -> None:
    assert not any(each(LEARNT, state) for each in NEWS)


def test_news_wait_for_a_quarter_of_an_hour() -> None:
    kept, news = kept_now(LEARNT, LEARNT.seen), replace(LEARNT, startup_seconds=60.0)
    assert not is_worth_a_write(kept, news, LEARNT.seen + 899.0)
    assert is_worth_a_write(kept, news, LEARNT.seen + 900.0)
    assert not is_worth_a_write(kept, LEARNT, LEARNT.seen + 900.0)
    assert is_worth_a_write(kept, news, LEARNT.seen - 1.0)  # the clock was set back
    assert is_worth_a_write(KeptForecast("?", LEARNT.seen), LEARNT, LEARNT.seen + 900.0)


def test_the_first_thing_learnt_is_worth_a_write_and_nothing_is_not() -> None:
    assert is_worth_a_write(None, LEARNT, LEARNT.seen)
    assert not is_worth_a_write(None, NEW, MONDAY)
