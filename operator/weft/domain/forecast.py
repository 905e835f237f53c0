"""What forecasting remembers of one pool's traffic: a few hundred numbers, however long it has been watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.made_often import made_often

if TYPE_CHECKING:
    from weft.domain.start_up import MeasuredStart


@made_often
@dataclass(frozen=True, slots=True)
class Pending:
    """A forecast whose time has not come: of the log rate in the bin `due`, and what it takes for its scatter there.

    `season` is how much of a change (in logarithms) the days before foretold, and `lead` how far the last bin was
    beyond the level; `rate` has none of both.
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

    `index` counts them since 1970, and `before` is the log rate of the one before it.
    """

    index: int
    requests: float = 0.0
    seconds: float = 0.0
    before: float | None = None


@made_often
@dataclass(frozen=True, slots=True)
class ForecastState:
    """Traffic of one pool as far as it foretells the next. Rates are natural logarithms of requests per second.

    `seen` is the epoch second of the last look. `bin` counts bins since 1970: the one under way, with its `requests`
    in `seconds` so far. `latest` is the last bin that was learnt from, None before any was; `level` and `trend` are the
    log rate there and its growth a bin, `recent` is a level that follows almost at once, `highest` the greatest rate of
    a bin, from which it comes down by half of the way in half a day, `count` the bin's requests.
    `noise` is the usual size of a surprise one bin ahead, `dispersion` the variance of counts over their mean, `upward`
    and `usual` how far forecasts fell short lately, and at all times. `errors` are weights of past errors at the
    horizon, by size. `startup_seconds` is what a start takes, None before one was measured, and
    `estimated_startup_seconds` what it should take by then, None where nobody knows. `starts` are the last ones, by the
    ids of their replicas, of whose phases `startup_seconds` is made where they are known.

    `quarter` is the quarter of an hour under way. `days` are the log changes from each of a workday and of a weekend
    day to the next, None where none was seen yet. `foretold` is how well they did: the sums of error x change and of
    change squared; `led` is the same of how far `recent` was beyond the level. `costs` are bins, their requests, and
    the sum over these of what a margin cost at their time: how wide forecasts were, times the work of a request.
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


@dataclass(frozen=True, slots=True)
class KeptForecast:
    """What a forecast had learnt by `updated` (epoch seconds), as text that `scaling/packing.py` writes and reads."""

    learnt: str
    updated: float


@dataclass(frozen=True, slots=True)
class Past:
    """What traffic before the first look tells of the days of a pool; fields as in `ForecastState`."""

    days: tuple[tuple[float | None, ...], tuple[float | None, ...]]
    foretold: tuple[float, float]
