"""What the page of a simulation draws: each panel has one chart, or one for each policy below each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.cli.simulate.charts import Chart, ChartLine, Mark
from weft.cli.simulate.report import DRAWN, everything_said
from weft.cli.simulate.series import clock, edges_of, edges_until, latency, moment, percentiles_by_bin, rates
from weft.domain.reasons import Reason
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.cli.simulate.charts import TimeAxis
    from weft.cli.simulate.report import Report
    from weft.cli.simulate.series import Values
    from weft.twin.outcome import SimulationOutcome

MOST_BINS, FINE_BINS = 100, 240  # most bins of latencies, each of which needs requests, and of rates
_VISIBLE = 0.02  # fraction of the highest rate below which a line needs no name
_KNOWN = (
    "weft",
    "hpa",
    "aibrix",
    "wva",
    "dynamo",
    "heteroscale",
    "static",
    "oracle",
    "hpa-queue",
    "hpa-kv",
    "dynamo-kalman",
    "dynamo-arima",
    "dynamo-prophet",
    "keda-slo",
)  # policies with a colour of their own
_AMISS = frozenset(
    {
        Reason.NoSlot,
        Reason.AtMaximum,
        Reason.BudgetExhausted,
        Reason.NodeLost,
        Reason.EngineFailed,
        Reason.EngineCoreDied,
        Reason.EngineFailedSilently,
        Reason.SlotTaken,
        Reason.SchedulingTimedOut,
        Reason.StartTimedOut,
        Reason.EngineUnresponsive,
        Reason.HoldMetricsMissing,
    }
)
_KINDS = {Reason.ScaleUp: "up", Reason.ScaleDown: "down"}


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A title with a unit, and charts, each with a name of its own where there are several."""

    title: str
    unit: str
    charts: tuple[tuple[str, Chart], ...]
    keys: tuple[tuple[str, str], ...] = ()


def look_of(policy: str) -> str:
    """Return the CSS class of a policy's colour."""
    return f"p{_KNOWN.index(policy)}" if policy in _KNOWN else "p6"


def panels(report: Report, scene: TimeAxis) -> Iterator[Panel]:
    """Yield the panels of a page, from requests to GPUs."""
    yield _traffic(report, scene)
    for kind, title in (("ttft", "Time to first token"), ("tpot", "Time per output token")):
        yield _latency(report, scene, kind, title)
    for place in range(len(report.first.pools)):
        yield _replicas(report, place)
    if len(report.first.pools) > 1:
        yield from _ratio(report)
    yield _gpus(report)


def _traffic(report: Report, scene: TimeAxis) -> Panel:
    edges = edges_until(report.seconds, edges_of(scene.seconds, FINE_BINS))
    rate = rates(report.first.came, edges)
    lines = [ChartLine(edges, rate, "ink area"), ChartLine(edges, rate, "ink thin", told="arrived")]
    for outcome in report.outcomes:
        lost = rates(outcome.answers.arrived[~outcome.answers.completed], edges)
        if lost.any():
            told = "failed" if report.alone else f"{outcome.policy} failed"
            name = told if lost.max() > _VISIBLE * rate.max() else ""
            look = "bad" if report.alone else f"{look_of(outcome.policy)} dashed"
            lines.append(ChartLine(edges, lost, look, name, told=told))
    return Panel("Requests", "per second", (("", Chart(tuple(lines), 96.0, first=True)),))


def _latency(report: Report, scene: TimeAxis, kind: str, title: str) -> Panel:
    """Draw three percentiles of one policy, or of several policies the highest one in the SLO."""
    edges = edges_of(scene.seconds, MOST_BINS)
    targets: tuple[tuple[int, float], ...] = getattr(report.first.slo, kind)
    held = targets[-1][0] if targets else DRAWN[-1]
    percents = DRAWN if report.alone else (held,)
    lines = []
    for outcome in report.outcomes:
        values = percentiles_by_bin(outcome.answers.arrived, getattr(outcome.answers, kind), edges, percents)
        for percentile, row in zip(percents, values, strict=True):
            name = f"p{percentile}" if report.alone else outcome.policy
            shade = {50: " weak", 95: " middle"}.get(percentile, "") if report.alone else ""
            lines.append(ChartLine(edges, row, f"{look_of(outcome.policy)}{shade}", name, told=name))
    against = tuple((target, f"SLO p{percentile}") for percentile, target in targets)
    unit = f"by arrival, {moment(float(edges[1]))} each"
    if not report.alone:
        unit = f"p{held} {unit}"
    chart = Chart(tuple(lines), 168.0, latency, against, mixed=True)
    return Panel(title, unit, (("", chart),))


def _replicas(report: Report, place: int) -> Panel:
    pool = report.first.pools[place]
    all_paid = [_series(outcome, place, "paid")[1] for outcome in report.outcomes]
    all_wanted = [_series(outcome, place, "desired")[1] for outcome in report.outcomes]
    highest = float(max((values.max(initial=1.0) for values in (*all_paid, *all_wanted)), default=1.0))
    height = 120.0 if report.alone else 62.0
    charts = []
    for outcome in report.outcomes:
        look = look_of(outcome.policy)
        lines = (
            ChartLine(*_series(outcome, place, "paid"), f"{look} area", told="paid", steps=True),
            ChartLine(*_series(outcome, place, "ready"), look, told="ready", steps=True),
            ChartLine(*_series(outcome, place, "desired"), "ink dashed", told="wanted", steps=True),
        )
        name = "" if report.alone else outcome.policy
        last = outcome is report.outcomes[-1]
        chart = Chart(lines, height, highest=highest, whole=True, name=(name, look), timed=last)
        charts.append((name, chart))
    keys = (("area", "paid"), ("line", "ready"), ("dashed", "wanted"))
    each = f"of {pool.gpus} {pool.accelerator} each"
    title = "Replicas" if len(report.first.pools) == 1 else f"{pool.role.value} replicas"
    return Panel(title, each, tuple(charts), keys)


def _series(outcome: SimulationOutcome, place: int, what: str) -> tuple[Values, Values]:
    times = np.array([moment.at for moment in outcome.timeline], dtype=np.float64)
    values = np.array([getattr(moment.pools[place], what) for moment in outcome.timeline], dtype=np.float64)
    return times, values


def _ratio(report: Report) -> Iterator[Panel]:
    """Draw the ready prefill replicas for each ready decode replica."""
    roles = [pool.role for pool in report.first.pools]
    if set(roles) < {Role.Prefill, Role.Decode}:
        return
    lines = []
    for outcome in report.outcomes:
        times, prefill = _series(outcome, roles.index(Role.Prefill), "ready")
        decode = _series(outcome, roles.index(Role.Decode), "ready")[1]
        ratio = np.divide(prefill, decode, out=np.full_like(prefill, np.nan), where=decode > 0)
        name = "" if report.alone else outcome.policy
        lines.append(ChartLine(times, ratio, look_of(outcome.policy), name, told=name or "ratio", steps=True))
    yield Panel("Prefill to decode", "ready replicas of prefill for one of decode", (("", Chart(tuple(lines), 80.0)),))


def _gpus(report: Report) -> Panel:
    """Draw the GPUs that replicas hold, from binding to end."""
    lines = []
    for outcome in report.outcomes:
        times = np.array([moment.at for moment in outcome.timeline], dtype=np.float64)
        held = np.array([moment.gpus for moment in outcome.timeline], dtype=np.float64)
        look = look_of(outcome.policy)
        if report.alone:
            lines.append(ChartLine(times, held, f"{look} area", steps=True))
        name = "" if report.alone else outcome.policy
        lines.append(ChartLine(times, held, look, name, told=name or "held", steps=True))
    return Panel("GPUs", "held by replicas that start, serve or drain", (("", Chart(tuple(lines), 110.0, whole=True)),))


def kind_of(reason: Reason) -> str:
    """Return the kind of mark for a reason."""
    return _KINDS.get(reason, "amiss" if reason in _AMISS else "other")


def reason_marks(report: Report) -> tuple[list[tuple[str, str]], list[Mark]]:
    """Return rows and marks: a row for each policy, or for each pool where there is one policy."""
    pools = [pool.name for pool in report.first.pools]
    halves = [pool.role.value for pool in report.first.pools]  # the page's heading has the name of the split
    rows = [(name, "") for name in (halves if len(set(halves)) == len(pools) > 1 else pools)]
    if not report.alone:
        rows = [(each.policy, look_of(each.policy)) for each in report.outcomes]
    marks = []
    for number, outcome in enumerate(report.outcomes):
        for said in everything_said(outcome):
            row = pools.index(said.pool) if report.alone and said.pool in pools else number
            words = f"{clock(said.at)} {said.pool} {said.reason.value}: {said.words}"
            marks.append(Mark(said.at, row, kind_of(said.reason), look_of(outcome.policy), words))
    return rows, marks
