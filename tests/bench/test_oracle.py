"""The benchmark of the oracle: fleets that never change, a moving maximum, and what is said without traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from bench import oracle
from bench.oracle_bench.moving_maximum import moving_maximum, ready
from weft.twin.hindsight.oracle import PoolNeed, Terms, oracle_hours
from weft.twin.traffic.made_up import made_up

if TYPE_CHECKING:
    from pathlib import Path

RAMP = PoolNeed("pool", 2, np.concatenate([np.full(40, 2.0), np.linspace(2.0, 10.0, 80), np.full(40, 2.0)]))
RAMPING = "ramp:from=5,to=60,at=600,over=600,seconds=1500"
REQUESTS = 50.0 * RAMP.needed


def test_a_fleet_that_never_changes_has_the_peak_or_a_little_less() -> None:
    assert 10 == oracle.static_count(RAMP, REQUESTS, Terms(60.0, 60.0, attainment=1.0))
    assert 9 == oracle.static_count(RAMP, REQUESTS, Terms(60.0, 60.0, attainment=0.7))


def test_replicas_are_there_when_they_were_asked_for_during_all_of_their_start() -> None:
    counts = np.array([2, 2, 5, 5, 3, 5, 5, 5])
    assert [2, 2, 2, 2, 3, 3, 3, 5] == ready(counts, Terms(60.0, 120.0)).tolist()


@pytest.mark.parametrize("start_up", [60.0, 300.0])
def test_a_moving_maximum_costs_more_than_the_oracle_and_less_than_the_peak(start_up: float) -> None:
    terms = Terms(60.0, start_up, 30.0)
    found = moving_maximum(RAMP, REQUESTS, terms)
    assert found is not None
    assert oracle_hours([RAMP], REQUESTS, terms).hours < found.hours < 2 * 10 * 160 / 60.0


def test_a_jump_that_nobody_can_foresee_is_too_much_for_any_window() -> None:
    jump = PoolNeed("pool", 1, np.concatenate([np.full(100, 0.01), np.full(50, 9.0)]))
    assert moving_maximum(jump, 100.0 * jump.needed, Terms(60.0, 300.0)) is None


def test_a_trace_has_a_row_for_each_time_to_start_and_figures_in_order() -> None:
    rows = list(oracle.rows(oracle.Source("ramp", "", 1.0), made_up(RAMPING, seed=1)))
    assert ["60", "120", "300"] == [row[1] for row in rows]
    for row in rows:
        bound, hours, peak = (float(row[column]) for column in (6, 7, 11))
        assert 0.0 < bound < hours < peak


def test_a_missing_trace_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEFT_BENCH_DATA", str(tmp_path))
    assert 1 == oracle.main()
    assert "set WEFT_BENCH_DATA to the folder that has traces/" in capsys.readouterr().out
