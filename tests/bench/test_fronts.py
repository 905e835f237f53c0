"""The benchmark of fronts: what capacity counts on is no less than what prompts wait behind one that goes by load."""

from __future__ import annotations

import pytest

from bench import fronts
from bench.fronts import FRONTS, measured, predicted, rows
from weft.perf import ASTRAY

SECONDS = 3_600.0


@pytest.mark.parametrize("front", ["least loaded", "better of two", "two fronts", "30 % astray"])
@pytest.mark.parametrize("replicas", [2, 4])
def test_no_front_that_goes_by_load_lets_wait_longer_than_counted_on(front: str, replicas: int) -> None:
    found = measured(0.8, replicas, front, SECONDS)
    assert predicted(0.8, replicas, 0.0) * 0.9 < found <= predicted(0.8, replicas, ASTRAY)


def test_at_random_requests_wait_as_those_of_a_lone_replica() -> None:
    assert measured(0.6, 4, "at random", SECONDS) == pytest.approx(predicted(0.6, None, 0.0), rel=0.15)


def test_a_front_that_knows_of_others_requests_lets_wait_less_than_two_that_do_not() -> None:
    assert measured(0.7, 4, "least loaded", SECONDS) < measured(0.7, 4, "two fronts", SECONDS)


def test_the_table_has_a_column_for_each_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts, "LOADS", (0.6,))
    monkeypatch.setattr(fronts, "REPLICAS", (2,))
    head, _, line = rows(600.0)
    assert head.count("|") == line.count("|") == 6 + len(FRONTS)
    assert line.startswith("| 2 | 60 % | 1.46 | 0.85 | 1.05 |")
