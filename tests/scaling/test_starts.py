"""A forecast looks as far ahead as the phases of the last starts take together."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.test_packing import LEARNT, NEW
from weft.domain.start_up import KEPT_STARTS, PHASES, MeasuredStart, usual_phases
from weft.scaling.forecasting.forecast import MOST_STARTUP_SECONDS, horizon_of
from weft.scaling.forecasting.packing import packed, unpacked
from weft.scaling.forecasting.starts import with_starts

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState

PULLED, THERE = (2, 300, 0, 40, 60), (2, 3, 0, 40, 60)
SECONDS = st.integers(0, 9000)
STARTS = st.lists(st.tuples(*(SECONDS for _ in PHASES)), max_size=12).map(
    lambda each: tuple([MeasuredStart(number, phases) for number, phases in enumerate(each)])
)


def after(*phases: tuple[int, int, int, int, int]) -> ForecastState:
    """One start after the other, each seen in the pass after it."""
    state = LEARNT
    for number, each in enumerate(phases):
        state = with_starts(state, (MeasuredStart(number, each),))
    return state


def test_a_pull_that_one_start_had_is_foretold_until_two_others_went_without() -> None:
    assert horizon_of(after(PULLED)) == sum(PULLED)
    assert horizon_of(after(PULLED, THERE)) == sum(PULLED)
    assert horizon_of(after(PULLED, THERE, THERE)) == sum(THERE)


def test_pulls_that_most_starts_have_stay() -> None:
    assert horizon_of(after(PULLED, THERE, PULLED, PULLED)) == sum(PULLED)


def test_slow_phases_of_different_starts_do_not_add_up_by_chance() -> None:
    slow_image, slow_engine = (2, 300, 0, 40, 60), (2, 3, 0, 40, 400)
    assert horizon_of(after(slow_image, slow_engine, THERE, THERE, THERE)) == sum(THERE)


def test_a_start_counts_once_though_its_replica_is_unready_for_an_hour() -> None:
    state = after(THERE, THERE, THERE)
    again = tuple([MeasuredStart(number, (2, 3, 0, 40, 3600)) for number in range(3)])
    assert with_starts(state, again) is state


def test_a_replica_that_is_older_than_all_that_are_kept_does_not_come_back() -> None:
    state = after(*[THERE] * (KEPT_STARTS + 1))
    assert with_starts(state, (MeasuredStart(0, PULLED),)) is state


@given(STARTS)
def test_the_last_starts_are_kept_and_their_usual_phases_are_the_horizon(starts: tuple[MeasuredStart, ...]) -> None:
    state = with_starts(LEARNT, starts)
    assert state.starts == starts[-KEPT_STARTS:]
    if starts:
        assert horizon_of(state) == min(MOST_STARTUP_SECONDS, max(1, sum(usual_phases(state.starts))))


@given(STARTS)
def test_no_phase_is_longer_than_it_was_in_some_start(starts: tuple[MeasuredStart, ...]) -> None:
    for usual, each in zip(usual_phases(starts), zip(*(start.phases for start in starts), strict=True), strict=True):
        assert usual in each


@given(STARTS)
def test_starts_are_read_back(starts: tuple[MeasuredStart, ...]) -> None:
    state = with_starts(LEARNT, starts)
    again = unpacked(packed(state))
    assert again is not None
    assert again.starts == state.starts
    assert len(again.pending) == len(unpacked(packed(LEARNT)).pending)  # type: ignore[union-attr]


def test_text_from_before_starts_were_kept_is_still_read() -> None:
    text = packed(LEARNT)
    assert text.startswith("5.")
    again = unpacked(text)
    assert again is not None
    assert (again.starts, again.days) == ((), LEARNT.days)


@given(STARTS)
def test_text_from_before_the_most_that_came_was_kept_is_still_read(starts: tuple[MeasuredStart, ...]) -> None:
    """It is taken to be what came last; of a new pool it is what is written last."""
    state = with_starts(LEARNT, starts)
    text = packed(state)
    content = base64.b64decode(text[2:])
    at = len(base64.b64decode(packed(NEW)[2:])) - 4
    earlier = {"6.": "4.", "5.": "3."}[text[:2]] + base64.b64encode(content[:at] + content[at + 4 :]).decode()
    again = unpacked(earlier)
    assert again is not None
    assert (again.starts, again.days) == (state.starts, LEARNT.days)
    assert again.highest == again.level


def test_text_with_a_replica_twice_is_as_if_nothing_was_known() -> None:
    twice = replace(LEARNT, starts=(MeasuredStart(1, THERE), MeasuredStart(1, THERE)))
    assert unpacked(packed(twice)) is None
