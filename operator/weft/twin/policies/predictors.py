"""How Dynamo's planner guesses the next value of requests, prompt tokens and answer tokens, each on its own.

Source: ai-dynamo/dynamo, `components/src/dynamo/planner/core/load/predictors.py` (September 2026, compared with
260b6ae9). Zeros before the first other value are skipped. Its default is auto-ARIMA, which like Prophet needs a library
(`by_library`).
"""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec
from typing import Protocol

from weft.twin.policies.by_library import Arima, Prophet

_LEVEL_NOISE, _TREND_NOISE, _MEASUREMENT_NOISE = 1.0, 0.1, 10.0
_FIRST_VARIANCE = 1000.0


class Predictor(Protocol):
    """Guesses one step ahead."""

    def add(self, value: float) -> None:
        """Take in the value of the interval that just ended."""
        ...

    def next(self) -> float | None:
        """The value of the interval that begins; None before there was one."""
        ...


class Constant:
    """The next value is the last one."""

    def __init__(self) -> None:
        """No value yet."""
        self._last: float | None = None

    def add(self, value: float) -> None:
        if value or self._last is not None:
            self._last = value

    def next(self) -> float | None:
        return self._last


class Kalman:
    """A filter of a local linear trend: the level moves by the trend, both drift.

    The project sets a least number of points for it (`kalman_min_points`), which it does not read.
    """

    def __init__(self) -> None:
        """No value yet."""
        self._began = False
        self._level = self._trend = 0.0
        self._covariance = (_FIRST_VARIANCE, 0.0, _FIRST_VARIANCE)  # variance of the level, of both, of the trend

    def add(self, value: float) -> None:
        if self._began:
            self._step()
            self._correct(value)
        elif value:
            self._level, self._began = value, True

    def next(self) -> float | None:
        return max(0.0, self._level + self._trend) if self._began else None

    def _step(self) -> None:
        level, both, trend = self._covariance
        self._level += self._trend
        self._covariance = (level + 2.0 * both + trend + _LEVEL_NOISE, both + trend, trend + _TREND_NOISE)

    def _correct(self, value: float) -> None:
        level, both, trend = self._covariance
        of_level, of_trend = level / (level + _MEASUREMENT_NOISE), both / (level + _MEASUREMENT_NOISE)
        surprise = value - self._level
        self._level += of_level * surprise
        self._trend += of_trend * surprise
        self._covariance = ((1.0 - of_level) * level, (1.0 - of_level) * both, trend - of_trend * both)


class PredictorName(StrEnum):
    """Which one guesses."""

    Constant = "constant"
    Kalman = "kalman"
    Arima = "arima"
    Prophet = "prophet"

    def make(self) -> Predictor:
        """One that knows nothing yet."""
        return _MAKERS[self]()

    @property
    def lacking(self) -> str | None:
        """The library that it needs and that is not here."""
        library = _LIBRARIES.get(self)
        return library if library is not None and find_spec(library) is None else None


_MAKERS: dict[PredictorName, type[Predictor]] = {
    PredictorName.Constant: Constant,
    PredictorName.Kalman: Kalman,
    PredictorName.Arima: Arima,
    PredictorName.Prophet: Prophet,
}
_LIBRARIES = {PredictorName.Arima: "pmdarima", PredictorName.Prophet: "prophet"}
