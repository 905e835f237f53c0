"""Dynamo's predictors as their libraries fit them; `make predictors` runs this where pmdarima and Prophet are."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pmdarima
import pytest
from pandas import DataFrame
from prophet import Prophet as Model

from tests.cli.terminal import listed, node, pool, weft, written
from weft.twin import policies
from weft.twin.policies.by_library import Arima, Prophet

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]  # libraries called by hand warn

RAMP = (100.0, 130.0, 155.0, 190.0, 220.0)
WAVE = [*RAMP, *(250.0 + 60.0 * math.sin(step / 4.0) + 4.0 * (step * 7919 % 11) for step in range(25))]
JUMP = [5.0, 5.1, 5.2, 50.0, 51.0]


def foretold(predictor: Arima | Prophet, values: list[float]) -> list[float | None]:
    """After each value, what comes next."""
    found = []
    for value in values:
        predictor.add(value)
        found.append(predictor.next())
    return found


def test_arima_is_what_pmdarima_makes_of_five_values_and_of_each_that_comes() -> None:
    model = pmdarima.auto_arima(WAVE[:5], suppress_warnings=True, error_action="ignore")
    assert any(model.order[::2]), "else the order is chosen of logarithms"
    expected = [float(model.predict(n_periods=1)[0])]
    for value in WAVE[5:]:
        model.update([value])
        expected.append(float(model.predict(n_periods=1)[0]))
    assert expected == pytest.approx(foretold(Arima(), WAVE)[4:])


def test_where_pmdarima_finds_no_pattern_it_is_asked_of_logarithms() -> None:
    flat = pmdarima.auto_arima(JUMP, suppress_warnings=True, error_action="ignore")
    assert not any(flat.order[::2])
    model = pmdarima.auto_arima(list(map(math.log1p, JUMP)), suppress_warnings=True, error_action="ignore")
    expected = math.expm1(float(model.predict(n_periods=1)[0]))
    assert expected == pytest.approx(foretold(Arima(), JUMP)[-1])
    assert expected != pytest.approx(float(flat.predict(n_periods=1)[0]))


def test_predictors_are_silent() -> None:
    """In a process of their own: under pytest somebody listens to logs."""
    told = f"predictor = Name.{{}}.make(); [(predictor.add(value), predictor.next()) for value in {WAVE[:7]}]"
    for name in ("Arima", "Prophet"):
        code = f"from weft.twin.policies.predictors import PredictorName as Name; {told.format(name)}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=200)
        assert (done.stdout, done.stderr) == ("", "")


def test_prophet_is_what_prophet_says_with_its_defaults() -> None:
    times = [datetime(2024, 1, 1) + timedelta(minutes=3 * step) for step in range(31)]  # noqa: DTZ001 - it takes none
    model = Model().fit(DataFrame({"ds": times[:30], "y": WAVE}))
    expected = float(model.predict(DataFrame({"ds": times[30:]}))["yhat"].iloc[0])
    assert expected == pytest.approx(foretold(Prophet(), WAVE)[-1], rel=1e-6)


@pytest.mark.parametrize("name", ["dynamo-arima", "dynamo-prophet"])
def test_a_pool_is_simulated_under_it(name: str, tmp_path: Path) -> None:
    assert policies.lacking(name) is None
    written(tmp_path / "pool.yaml", pool(slo={"ttft": {"p95": "1s"}, "tpot": {"p95": "50ms"}}))
    written(tmp_path / "nodes.yaml", listed(node("board-0"), node("board-1")))
    trace = "poisson:rate=2,seconds=1500,isl=500,osl=50"
    files = ("-f", str(tmp_path / "pool.yaml"), "--fabric", str(tmp_path / "nodes.yaml"))
    ending = weft("simulate", *files, "--trace", trace, "--policy", name, "-o", "json")
    assert ending.code == 0, ending.err
    assert json.loads(ending.out)["policy"] == name
