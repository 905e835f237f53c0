"""The forecast state of one pool's traffic: a few hundred numbers, however long it has been watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.domain.start_up import MeasuredStart


@made_often
@dataclass(frozen=True, slots=True)
class Pending:
    """A forecast that is not due yet: the log `rate` in the bin `due`, and the `scale` of its scatter there.

    `season` is the change (in logarithms) that the daily pattern predicted, and `lead` how far the last bin was above
    the level; `rate` includes neither.
    """

    due: int
    rate: float
    scale: float
    season: float
    lead: float


@made_often
@dataclass(frozen=True, slots=True)
class QuarterHour:
    """One quarter of an hour: its `requests` in the `seconds` of it that were seen.

    `index` counts quarters of an hour since 1970, and `before` is the log rate of the previous one.
    """

    index: int
    requests: float = 0.0
    seconds: float = 0.0
    before: float | None = None


@made_often
@dataclass(frozen=True, slots=True)
class ForecastState:
    """The state that a pool's traffic is forecast from. Rates are natural logarithms of requests per second.

    `seen` is the epoch second of the last look. `bin` counts bins since 1970: the current one, with its `requests` in
    `seconds` so far. `latest` is the last bin learnt from, None before any was; `level` and `trend` are the log rate
    there and its growth per bin, `recent` is a level that follows almost at once, `highest` the greatest log rate of a
    bin, which decays towards the level by half in half a day, `count` the requests of the latest bin.
    `noise` is the usual size of a surprise one bin ahead, `dispersion` the variance of counts over their mean, `upward`
    and `usual` how far forecasts fell short lately and in the long run. `errors` are weights of past errors at the
    horizon, by size. `startup_seconds` is the measured duration of a start, None before one was measured, and
    `estimated_startup_seconds` an estimate of it, None where unknown. `starts` are the last ones, by replica id, from
    whose phases `startup_seconds` is computed where they are known.

    `quarter` is the current quarter of an hour. `days` are the log changes from each quarter of a workday and of a
    weekend day to the next, None where not seen yet. `foretold` says how well they predicted: the sums of error x
    change and of change squared; `led` is the same for the lead of `recent` over the level. `costs` are bins, their
    requests, and the sum over these of the cost of a margin at their time: the width of forecasts times the work of a
    request.

    `course` are the bins of the last hours, a character for each (`scaling/forecasting/cycles.py`), and `period` is
    after how many bins they were last found to repeat themselves, 0 where they do not.
    """

    seen: float
    bin: int
    requests: float = 0.0
    seconds: float = 0.0
    latest: int | None = None
    level: float = 0.0
    recent: float = 0.0
    highest: float = 0.0
    trend: float = 0.0
    noise: float = 0.1
    dispersion: float = 1.0
    count: float | None = None
    upward: float = 0.02
    usual: float = 0.02
    errors: tuple[float, ...] = ()
    pending: tuple[Pending, ...] = ()
    startup_seconds: float | None = None
    estimated_startup_seconds: float | None = None
    quarter: QuarterHour | None = None
    days: tuple[tuple[float | None, ...], tuple[float | None, ...]] = ((), ())
    foretold: tuple[float, float] = (0.0, 0.0)
    led: tuple[float, float] = (0.0, 0.0)
    costs: tuple[float, float, float] = (0.0, 0.0, 0.0)
    starts: tuple[MeasuredStart, ...] = ()
    course: str = ""
    period: float = 0.0


@dataclass(frozen=True, slots=True)
class KeptForecast:
    """The learnt state at `updated` (epoch seconds), as text that `scaling/forecasting/packing.py` writes and reads."""

    learnt: str
    updated: float


@dataclass(frozen=True, slots=True)
class Past:
    """The daily pattern of a pool from traffic before the first look; fields as in `ForecastState`."""

    days: tuple[tuple[float | None, ...], tuple[float | None, ...]]
    foretold: tuple[float, float]
