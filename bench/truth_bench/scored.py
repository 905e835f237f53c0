"""What the twin makes of the concurrencies that its step times were not fitted to, beside what was measured."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.fitting.score import errors
from bench.truth_bench.clients import ROUNDS, Latencies
from bench.truth_bench.fitting import fit
from bench.truth_bench.series import FEWEST
from weft.twin.engine.steps import PiecewiseLinear

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.truth_bench.fitting import Fit
    from bench.truth_bench.series import Point, Series

Scored = dict[str, Any]
FIGURES = ("tpot", "ttft", "throughput", "straight_tpot")
AIM = 0.10
_SERIES_BETWEEN_WORDS = 20


def score(every: Sequence[Series]) -> dict[str, Any]:
    """All series, what is left out of them, and all once more fitted to what was scored; tells its way on stderr."""
    whole = [series for series in every if series.left_out is None]
    backward = [series for series in whole if len(series.concurrencies) > FEWEST]
    forth = _each("fitted to the lowest concurrency and every other", whole, 0)
    back = _each("the other way round", backward, 1)
    return {
        "rounds": ROUNDS,
        "series": forth,
        "other_way_round": summary(all_scored(back)),
        "left_out": _left_out(every),
    }


def _each(title: str, every: Sequence[Series], first: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for number, series in enumerate(every, start=1):
        found.append(of_series(series, first))
        if number % _SERIES_BETWEEN_WORDS == 0 or number == len(every):
            off = summary(all_scored(found))["tpot"]["median"]
            print(f"{title}: {number} of {len(every)} series, TPOT off by {off:.1%}", file=sys.stderr, flush=True)
    return found


def of_series(series: Series, first: int = 0) -> dict[str, Any]:
    """Fitted to every other concurrency, beginning with the lowest (or with 1 the one after it), and the rest."""
    fitted, rest = series.every_other(first)
    steps = fit(series, fitted)
    return {
        "name": series.name,
        "engine": series.engine,
        "fitted": [point.users for point in fitted],
        "prompt_seconds": steps.prompt_token * series.client.input_tokens,
        "outside_seconds": steps.outside,
        "step_seconds": {str(size): seconds for size, seconds in steps.decode.items()},
        "scored": [_scored(series, steps, fitted, point) for point in rest],
    }


def _scored(series: Series, steps: Fit, fitted: Sequence[Point], point: Point) -> Scored:
    measured, twin = Latencies(point.ttft, point.tpot), steps.latencies(series, point.users)
    known = {each.users: each.tpot for each in fitted}
    return {
        "users": point.users,
        "within": min(known) <= point.users <= max(known),
        "seated": point.seated == point.users,
        "measured": {**asdict(measured), "throughput": series.client.output_rate(point.users, measured)},
        "twin": {
            **asdict(twin),
            "throughput": series.client.output_rate(point.users, twin),
            "straight_tpot": PiecewiseLinear([*known], [*known.values()]).at(point.users),
        },
    }


def ratio(scored: Scored, figure: str) -> float:
    """Predicted over measured; `straight_tpot` is a line between the fitted rows, without any twin."""
    return float(scored["twin"][figure] / scored["measured"][figure.removeprefix("straight_")])


def summary(scored: Iterable[Scored]) -> dict[str, dict[str, float]]:
    """Rows, median and 90th percentile of the errors of each figure."""
    rows = list(scored)
    return {name: asdict(errors(np.array([ratio(each, name) for each in rows]))) for name in FIGURES} if rows else {}


def all_scored(series: Iterable[dict[str, Any]]) -> list[Scored]:
    """Of all series, with the name of its engine on each."""
    return [{**row, "engine": one["engine"]} for one in series for row in one["scored"]]


def _left_out(every: Iterable[Series]) -> dict[str, dict[str, int]]:
    """By reason: how many series, with how many rows."""
    series: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for each in every:
        if each.left_out is not None:
            series[each.left_out] += 1
            rows[each.left_out] += len(each.points)
    return {reason: {"series": count, "rows": rows[reason]} for reason, count in series.items()}
