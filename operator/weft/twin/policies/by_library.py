"""Two of the predictors of Dynamo's planner are fitted by a library: auto-ARIMA, its default, and Prophet.

Source: as in `predictors`. The libraries are no part of Weft (`weft[predictors]`): each is loaded with its first fit.
Series are not transformed, as in the planner unless `load_predictor_log1p` is set, nor warmed up by a trace, as there
without `load_predictor_warmup_trace`: the order of an ARIMA then rests on the first quarter of an hour.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Points = Sequence[tuple[float, float]]  # seconds and values

INTERVAL_SECONDS = 180.0
FEWEST_POINTS = 5
PROPHET_POINTS = 50  # what it looks back on: two and a half hours
_BEGIN = datetime(2024, 1, 1, tzinfo=UTC).replace(tzinfo=None)  # Prophet takes no zones
_CHATTY, _NOBODY = ("prophet", "cmdstanpy"), logging.NullHandler()


class Fitted(Protocol):
    """A model of a series."""

    @property
    def is_flat(self) -> bool:
        """Without autoregression and without moving average."""
        ...

    def update(self, values: Sequence[float]) -> None:
        """Take in what came since: the order stays, coefficients move."""
        ...

    def forecast(self) -> float:
        """One step ahead."""
        ...


class Arima:
    """An ARIMA whose order is chosen once, of the first five values or more; then each value moves its coefficients.

    Where that order is flat it is chosen once more, of logarithms of the values. The last value is the next one until
    there are five, while all are the same, and where the library fails.
    """

    def __init__(self, fit: Callable[[Sequence[float]], Fitted] | None = None) -> None:
        """No value yet; `fit` is pmdarima's unless another is given."""
        self._fit = fit or _auto_arima
        self._values: list[float] = []
        self._new: list[float] = []
        self._model: Fitted | None = None
        self._of_logarithms = False

    def add(self, value: float) -> None:
        if value or self._values:
            self._values.append(max(0.0, value))
            self._new.append(max(0.0, value))

    def next(self) -> float | None:
        if len(self._values) < FEWEST_POINTS or len(set(self._values)) == 1:
            return self._values[-1] if self._values else None
        new, self._new = self._new, []
        try:
            return self._forecast(new)
        except ImportError:
            raise
        except Exception:  # noqa: BLE001 - as in the planner: whatever a library makes of a series
            return self._values[-1]

    def _forecast(self, new: list[float]) -> float:
        if self._model is None:
            self._model = self._chosen()
        elif new:
            self._model.update(_logarithms(new) if self._of_logarithms else new)
        found = self._model.forecast()
        return max(0.0, math.expm1(found) if self._of_logarithms else found)

    def _chosen(self) -> Fitted:
        model = self._fit(self._values)
        if not model.is_flat:
            return model
        try:
            model = self._fit(_logarithms(self._values))
        except Exception:  # noqa: BLE001 - the flat one is kept
            return model
        self._of_logarithms = True
        return model


class Prophet:
    """Prophet's trend of the last 50 values, fitted anew for each guess. The last value until there are five.

    Where a fit fails the planner leaves its floor; here the last value is the next one.
    """

    def __init__(self, fit: Callable[[Points, float], float] | None = None) -> None:
        """No value yet; `fit` answers with the value at a time, and is Prophet's unless another is given."""
        self._fit = fit or _by_prophet
        self._points: deque[tuple[float, float]] = deque(maxlen=PROPHET_POINTS)
        self._now = 0.0

    def add(self, value: float) -> None:
        if value or self._points:
            self._points.append((self._now, value))
            self._now += INTERVAL_SECONDS

    def next(self) -> float | None:
        if len(self._points) < FEWEST_POINTS:
            return self._points[-1][1] if self._points else None
        try:
            return max(0.0, self._fit(tuple(self._points), self._now))
        except ImportError:
            raise
        except Exception:  # noqa: BLE001 - whatever a library makes of a series
            return self._points[-1][1]


@dataclass(frozen=True, slots=True)
class _OfPmdarima:
    """What pmdarima has chosen and fitted."""

    model: Any

    @property
    def is_flat(self) -> bool:
        p, _, q = self.model.order
        return bool(p == q == 0)

    def update(self, values: Sequence[float]) -> None:
        with _silence():
            self.model.update(values)

    def forecast(self) -> float:
        with _silence():
            return float(self.model.predict(n_periods=1)[0])


def _auto_arima(values: Sequence[float]) -> Fitted:
    """As the planner calls it: everything but what it says is as pmdarima has it."""
    with _silence():
        import pmdarima  # noqa: PLC0415 - no part of Weft

        return _OfPmdarima(pmdarima.auto_arima(list(values), suppress_warnings=True, error_action="ignore"))


def _by_prophet(points: Points, at: float) -> float:
    """With its defaults, but for intervals of confidence, which nobody reads and which move nothing."""
    with _silence():
        from pandas import DataFrame  # noqa: PLC0415 - no part of Weft
        from prophet import Prophet as Model  # noqa: PLC0415

        seconds, values = zip(*points, strict=True)
        model = Model(uncertainty_samples=0).fit(DataFrame({"ds": _times(seconds), "y": values}))
        return float(model.predict(DataFrame({"ds": _times([at])}))["yhat"].iloc[0])


def _times(seconds: Iterable[float]) -> list[datetime]:
    return [_BEGIN + timedelta(seconds=each) for each in seconds]


def _logarithms(values: Sequence[float]) -> list[float]:
    return [math.log1p(value) for value in values]


@contextmanager
def _silence() -> Iterator[None]:
    """Libraries warn of short series, and tell of every fit where nobody listens to their logs."""
    for name in _CHATTY:
        logger = logging.getLogger(name)
        logger.addHandler(_NOBODY)
        logger.setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
