"""Liveness fails when a restart would help, and not otherwise."""

from __future__ import annotations

import pytest

from weft.control.health import Pulse, Vitals, first_broken, first_missing

NOW = 10_000.0


def vitals(
    *,
    started: float = 1000,
    decided: float = 1,
    converged: float = 1,
    watchers: int = 2,
    silent: float = 1,
    synced: bool = True,
) -> Vitals:
    """An operator of some age whose parts were last alive so many seconds ago."""
    pulse = Pulse(NOW - started, NOW - decided, NOW - converged)
    return Vitals(pulse, lambda: synced, lambda: silent, lambda: watchers, 2)


def test_a_working_operator_is_alive() -> None:
    assert first_broken(vitals(), NOW) is None


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        (vitals(watchers=1), "every watcher lives"),
        (vitals(decided=500), "the decide loop turns"),
        (vitals(converged=500), "the converge loop turns"),
        (vitals(silent=1000), "the caches hear the API server"),
    ],
    ids=["watcher", "decide", "converge", "cache"],
)
def test_a_part_that_died_is_named(broken: Vitals, claim: str) -> None:
    assert first_broken(broken, NOW) == claim


def test_watchers_have_a_minute_to_come_up() -> None:
    assert first_broken(vitals(started=30, watchers=0), NOW) is None


def test_an_outage_of_ten_minutes_is_waited_out() -> None:
    """F13: a restart would not bring the API server back."""
    assert first_broken(vitals(silent=600), NOW) is None


@pytest.mark.parametrize(
    ("starting", "claim"),
    [
        (vitals(started=1, watchers=1), "every watcher lives"),
        (vitals(started=1, synced=False), "the caches are synced"),
        (vitals(started=1), None),
    ],
)
def test_an_operator_that_does_not_see_its_resources_is_not_ready(starting: Vitals, claim: str | None) -> None:
    assert first_missing(starting) == claim
