"""Writes never exceed the limit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.apply import TokenBucket


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_goes_out_at_once_and_the_rest_at_the_rate() -> None:
    clock = Clock()
    bucket = TokenBucket(20, 40, clock)
    delays = [bucket.reserve() for _ in range(42)]
    assert delays[:40] == [0.0] * 40
    assert delays[40:] == [0.05, 0.1]


def test_an_idle_hour_saves_no_more_than_one_burst() -> None:
    clock = Clock()
    bucket = TokenBucket(20, 40, clock)
    clock.now = 3600.0
    delays = [bucket.reserve() for _ in range(42)]
    assert delays[:40] == [0.0] * 40
    assert delays[40:] == [0.05, 0.1]


@given(st.lists(st.floats(0, 3), max_size=200))
def test_no_window_holds_more_than_burst_and_rate_allow(pauses: list[float]) -> None:
    clock = Clock()
    bucket = TokenBucket(20, 40, clock)
    used = []
    for pause in pauses:
        clock.now += pause
        used.append(clock.now + bucket.reserve())
    for first in range(0, len(used), 7):
        window = [at for at in used if used[first] <= at <= used[first] + 1]
        assert len(window) <= 40 + 20 + 1


def test_a_hold_delays_everything_but_never_for_more_than_a_minute() -> None:
    clock = Clock()
    bucket = TokenBucket(20, 40, clock)
    bucket.hold(3600)
    assert bucket.reserve() == 60
    clock.now = 61
    assert bucket.reserve() == 0


def test_a_shorter_hold_ends_no_longer_one() -> None:
    """Answers to requests that were under way together come in any order."""
    clock = Clock()
    bucket = TokenBucket(20, 40, clock)
    bucket.hold(30)
    bucket.hold(1)
    assert bucket.reserve() == 30
