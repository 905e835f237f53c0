"""What Dynamo's planner does around the libraries that fit its predictors; here small models of our own are fitted."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from math import expm1
from typing import TYPE_CHECKING

import numpy as np
import pytest

from weft.twin import policies
from weft.twin.policies.by_library import INTERVAL_SECONDS, Arima, Prophet
from weft.twin.policies.predictors import PredictorName

if TYPE_CHECKING:
    from collections.abc import Sequence

    Points = Sequence[tuple[float, float]]


@dataclass
class Drift:
    """A walk that drifts by the mean of its steps."""

    values: list[float]
    is_flat: bool = False

    def update(self, values: Sequence[float]) -> None:
        if max(values) > 1e6:
            raise FloatingPointError("too far")
        self.values += values

    def forecast(self) -> float:
        return self.values[-1] + (self.values[-1] - self.values[0]) / (len(self.values) - 1)


@dataclass
class Library:
    """Fits drifts, and keeps what it has fitted."""

    flat: bool = False
    fitted: list[Drift] = field(default_factory=list)

    def __call__(self, values: Sequence[float]) -> Drift:
        self.fitted.append(Drift(list(values), is_flat=self.flat))
        return self.fitted[-1]


def line(points: Points, at: float) -> float:
    """The line of least squares through what it is given."""
    seconds, values = zip(*points, strict=True)
    return float(np.polyval(np.polyfit(seconds, values, 1), at))


def guesses(predictor: Arima | Prophet, *values: float) -> list[float | None]:
    """After each value, what comes next."""
    found = []
    for value in values:
        predictor.add(value)
        found.append(predictor.next())
    return found


def test_the_last_value_is_the_next_one_until_there_are_five() -> None:
    assert [None, 1.0, 2.0, 3.0, 4.0, 6.0] == guesses(Arima(Library()), 0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    assert [None, 1.0, 2.0, 3.0, 4.0, 6.0] == pytest.approx(guesses(Prophet(line), 0.0, 1.0, 2.0, 3.0, 4.0, 5.0))


def test_the_order_is_chosen_once_and_each_later_value_is_taken_in_once() -> None:
    library, values = Library(), [float(value) for value in range(1, 21)]
    arima = Arima(library)
    assert 21.0 == guesses(arima, *values)[-1]
    assert 21.0 == arima.next()
    (model,) = library.fitted
    assert values == model.values


def test_where_the_order_is_flat_it_is_chosen_of_logarithms() -> None:
    library = Library(flat=True)
    doubling = [expm1(each) for each in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    *_, fifth, sixth = guesses(Arima(library), *doubling)
    assert (doubling[5], expm1(7.0)) == pytest.approx((fifth, sixth))
    assert [doubling[:5], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]] == [pytest.approx(each.values) for each in library.fitted]


def test_a_flat_order_is_kept_where_that_of_logarithms_fails() -> None:
    class OfLargeOnes(Library):
        def __call__(self, values: Sequence[float]) -> Drift:
            if max(values) < 50.0:
                raise ValueError("too small")
            return super().__call__(values)

    assert 120.0 == guesses(Arima(OfLargeOnes(flat=True)), 20.0, 40.0, 60.0, 80.0, 100.0)[-1]


def test_what_never_changes_is_not_fitted() -> None:
    library = Library()
    assert {7.0} == set(guesses(Arima(library), *[7.0] * 20))
    assert [] == library.fitted


def test_a_value_at_which_the_library_fails_is_the_next_one_and_is_forgotten() -> None:
    library = Library()
    assert [6.0, 1e9, 7.0] == guesses(Arima(library), 1.0, 2.0, 3.0, 4.0, 5.0, 1e9, 6.0)[4:]
    (model,) = library.fitted
    assert [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] == model.values


def test_a_fit_that_fails_is_tried_again_with_all_values() -> None:
    class FromSeven(Library):
        def __call__(self, values: Sequence[float]) -> Drift:
            if len(values) < 7:
                raise ValueError("too few")
            return super().__call__(values)

    library = FromSeven()
    assert [5.0, 6.0, 8.0] == guesses(Arima(library), *map(float, range(1, 8)))[4:]
    assert 7 == len(library.fitted[0].values)


def test_nothing_below_zero_is_foretold() -> None:
    falling = (40.0, 30.0, 20.0, 10.0, 1.0, 0.0)
    assert 0.0 == guesses(Arima(Library()), *falling)[-1]
    assert 0.0 == guesses(Prophet(line), *falling)[-1]


def test_prophet_looks_back_on_fifty_values_three_minutes_apart() -> None:
    asked = []

    def kept(points: Points, at: float) -> float:
        asked.append((points, at))
        return line(points, at)

    guesses(Prophet(kept), *map(float, range(1, 61)))
    points, at = asked[-1]
    assert [11.0, 60.0, 50] == [points[0][1], points[-1][1], len(points)]
    assert {INTERVAL_SECONDS} == set(np.diff([*(when for when, _ in points), at]))


def test_prophets_last_value_is_the_next_one_where_its_fit_fails() -> None:
    def fails(*_: object) -> float:
        raise RuntimeError("no optimum")

    assert 5.0 == guesses(Prophet(fails), 1.0, 2.0, 3.0, 4.0, 5.0)[-1]


@pytest.mark.parametrize("name", [PredictorName.Arima, PredictorName.Prophet])
def test_a_library_that_is_not_there_is_not_taken_for_one_that_fails(
    name: PredictorName, monkeypatch: pytest.MonkeyPatch
) -> None:
    for library in ("pmdarima", "pandas", "prophet"):
        monkeypatch.setitem(sys.modules, library, None)
    predictor = name.make()
    for value in (1.0, 2.0, 3.0, 4.0, 5.0):
        predictor.add(value)
    with pytest.raises(ImportError):
        predictor.next()


@pytest.mark.parametrize(("name", "library"), [("dynamo-arima", "pmdarima"), ("dynamo-prophet", "prophet")])
def test_a_rule_says_what_to_install_for_it(name: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    assert f"{name} needs {library}, which is not here: install weft[predictors]" == policies.lacking(name)


def test_all_other_rules_need_nothing() -> None:
    needy = {"dynamo-arima", "dynamo-prophet"}
    assert {None} == {policies.lacking(name) for name in policies.NAMES if name not in needy}


def test_weft_loads_no_library_until_it_fits() -> None:
    """It need not be installed."""
    check = "import sys, weft.cli.main, weft.twin.policies; print({'pmdarima', 'prophet', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=50)
    assert "set()\n" == done.stdout
