"""The figures about forecasts come from pools that behave, and from traces of every kind."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from bench.fluid import Fluid, oracle_seconds
from bench.forecast import MovingMaximum, covered, main, rates_of, trace_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_pool_that_has_enough_lets_nobody_wait() -> None:
    pool = Fluid(declared_rate=20.0).run([15.0] * 100)
    assert (pool.attained, pool.backlog) == (1.0, 0.0)


def test_requests_beyond_saturation_wait_and_are_late_until_replicas_have_started() -> None:
    pool = Fluid(declared_rate=1.0, startup_seconds=100.0).run([0.5] * 60)
    late = [pool.late]
    for _ in range(40):
        pool.step(30.0)
        late.append(pool.late)
    assert late[0] == 0.0 < late[5] < late[11]
    assert late[-1] == late[-5], "by then all have started"
    assert math.isclose(pool.arrived, 60 * 5.0 + 40 * 300.0)


def test_the_oracle_has_just_enough_for_every_minute() -> None:
    assert oracle_seconds([0.0] * 6 + [2.5] * 6, 1.0) == 60.0 * 1 + 60.0 * 3


def test_a_moving_maximum_keeps_the_busiest_minute_for_five() -> None:
    pool = MovingMaximum(declared_rate=10.0, margin=0.1).run([10.0] * 12 + [5.0] * 60)
    assert pool.counts[12:36] == [11] * 24
    assert pool.counts[-1] == 6


def test_coverage_is_in_order_of_the_quantiles_and_no_less_when_kept() -> None:
    found = covered(rates_of(trace_of("poisson:rate=20,seconds=7200")), 120.0)
    assert list(found.at_once) == sorted(found.at_once)
    assert list(found.above) == sorted(found.above)
    assert all(kept >= once for once, kept in zip(found.at_once, found.kept, strict=True))
    assert 0.9 <= found.kept[2] <= 1.0


def test_files_are_read_at_several_times_their_rate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{second / 2.0},100,20" for second in range(3600)]
    (tmp_path / "day.csv").write_text("\n".join(["arrival_s,input_tokens,output_tokens", *lines]))
    assert rates_of(trace_of(f"{tmp_path / 'day.csv'}@2")).mean() == pytest.approx(4.0, rel=0.05)
    main([str(tmp_path / "day.csv")])
    told = capsys.readouterr().out
    assert "moving maximum" in told
    assert "2.0/s" in told
