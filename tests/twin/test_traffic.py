"""Arrivals and lengths are what was asked for, and the same for the same seed."""

from __future__ import annotations

from random import Random

from weft.twin.traffic.open_loop import LogNormalLengths, Profile, arrivals


def test_arrivals_follow_the_profile_and_repeat_with_the_seed() -> None:
    """Twice the rate gives about twice the requests; the same seed gives the same ones."""
    profile = Profile(((0, 10.0), (100, 10.0), (101, 20.0), (200, 20.0)))
    times = arrivals(profile, 0, 200, Random(1))
    slow, fast = sum(time < 100 for time in times), sum(time >= 100 for time in times)
    assert 1.7 < fast / slow < 2.3
    assert times == arrivals(profile, 0, 200, Random(1))


def test_lengths_have_the_mean_that_was_asked_for() -> None:
    """The log-normal is parametrised by its mean, not its median."""
    random = Random(3)
    drawn = [LogNormalLengths(800.0).draw(random) for _ in range(4000)]
    assert 760 < sum(drawn) / len(drawn) < 840
