"""`weft simulate --html` of several resources: all of them together on one cluster, and then each by itself.

All charts share one time axis. Each resource has its colour where all are drawn; below, colours stand for policies.
"""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from weft.cli.simulate.charts import Chart, ChartLine, Mark, TimeAxis
from weft.cli.simulate.fleet import HEADS, faults_line, held, rows
from weft.cli.simulate.html import (
    MOST_REASONS,
    file_of,
    panel_card,
    policy_cell,
    reasons_card,
    scrolled,
    summary,
    whole_page,
)
from weft.cli.simulate.page import heading
from weft.cli.simulate.pictures import FINE_BINS, Panel, kind_of, look_of, panels
from weft.cli.simulate.report import everything_said
from weft.cli.simulate.series import clock, edges_of, edges_until, rates
from weft.domain.texts.figures import seconds

if TYPE_CHECKING:
    from weft.cli.simulate.fleet import FleetReport, Row
    from weft.cli.simulate.report import Report, Said
    from weft.cli.simulate.series import Values

_LOOKS = ("p0", "p1", "p2", "p3", "p4", "p5", "p8", "p9", "p6")  # p7 is the colour of the text
_LONGEST, _SHORTEST = 15, 4  # most letters of a name beside a chart, and least of a resource's beside a policy's
_NEAR = 4  # times the GPUs held: the size of a larger cluster is not drawn


def fleet_html(fleet: FleetReport) -> str:
    """Return the whole page."""
    first = fleet.first.first
    scene = TimeAxis(max(1.0, *(each.seconds for each in fleet.first.outcomes)), first.warm_up, fleet.first.faults)
    together = [*(_gpus(fleet, place) for place in range(len(fleet.policies))), _traffic(fleet, scene)]
    reasons = _reasons(fleet, scene)
    own = [list(panels(report, scene)) for report in fleet.reports]
    parts = [_head(fleet), _table(fleet), *(panel_card(panel, scene) for panel in together), reasons]
    for place, (report, shown) in enumerate(zip(fleet.reports, own, strict=True)):
        parts += [_title(report, place), summary(report), *(panel_card(panel, scene) for panel in shown)]
    charts: list[Chart | None] = [chart for panel in together for _, chart in panel.charts]
    charts += [None] if reasons else []
    charts += [chart for shown in own for panel in shown for _, chart in panel.charts]
    title = ", ".join(report.resource for report in fleet.reports)
    return whole_page(title, parts, charts, scene, file_of("fleet.css"))


def _look(place: int) -> str:
    return _LOOKS[place % len(_LOOKS)]


def _name(report: Report, longest: int = _LONGEST) -> str:
    """Return the name of a resource for a chart, in at most so many letters."""
    name = report.resource.rpartition("/")[2]
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _lane(report: Report, policy: str) -> str:
    """Return the name of a resource and a policy for the lane of its marks."""
    return f"{_name(report, max(_SHORTEST, _LONGEST - 1 - len(policy)))} {policy}"


def _head(fleet: FleetReport) -> str:
    first = fleet.first.first
    lines = [
        f'<li><a href="#resource-{place}"><b>{escape(report.resource)}</b></a> {escape(heading(report)[1])}</li>'
        for place, report in enumerate(fleet.reports)
    ]
    lines += [f"<li>{escape(line)}</li>" for line in faults_line(fleet)]
    title = f"{len(fleet.reports)} resources on {fleet.gpus:,} GPUs"
    return (
        f"<h1><small>simulation of</small> {title}, {seconds(first.seconds)}</h1><ul class=asked>{''.join(lines)}</ul>"
    )


def _table(fleet: FleetReport) -> str:
    who = [] if fleet.alone else ["policy"]
    head = "".join(f"<th scope=col>{each}</th>" for each in ("resource", *who, *HEADS))
    places = {report.resource: place for place, report in enumerate(fleet.reports)}
    body = "".join(_row(row, fleet, places.get(row.title)) for row in rows(fleet))
    table = f"<table class=compared><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<section class=card>{table}</section>"


def _row(row: Row, fleet: FleetReport, place: int | None) -> str:
    kind = "" if row.meets is None else " class=met" if row.meets else " class=missed"
    mark = f'<i class="{_look(place)}"></i>' if place is not None else ""
    who = "" if fleet.alone else policy_cell(row.policy)
    first, *others = row.cells
    cells = f"<td{kind}>{first}</td>" + "".join(f"<td>{words}</td>" for words in others)
    whole = " class=all" if row.title == "all" else ""
    return f"<tr{whole}><th scope=row>{mark}{escape(row.title)}</th>{who}{cells}</tr>"


def _title(report: Report, place: int) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in heading(report, faults=False))
    name = f'<i class="{_look(place)}"></i>{escape(report.resource)}'
    return f'<h2 class=resource id="resource-{place}">{name}</h2><ul class=asked>{lines}</ul>'


def _gpus(fleet: FleetReport, place: int) -> Panel:
    """Draw what each resource holds under one policy, and all together."""
    outcomes = fleet.outcomes(place)
    times = np.array([moment.at for moment in outcomes[0].timeline], dtype=np.float64)
    values = [np.array(held(outcome), dtype=np.float64) for outcome in outcomes]
    total: Values = np.sum(values, axis=0)
    lines = [
        ChartLine(times, each, _look(number), _name(report), told=report.resource, steps=True)
        for number, (report, each) in enumerate(zip(fleet.reports, values, strict=True))
    ]
    lines.append(ChartLine(times, total, "ink dashed", "all", told="all", steps=True))
    full = ((float(fleet.gpus), f"{fleet.gpus:,} GPUs"),) if fleet.gpus <= _NEAR * total.max(initial=0.0) else ()
    chart = Chart(tuple(lines), 168.0, targets=full, whole=True, first=not place)
    title = "GPUs" if fleet.alone else f"GPUs under {fleet.policies[place]}"
    return Panel(title, "held by replicas that start, serve or drain", (("", chart),))


def _traffic(fleet: FleetReport, scene: TimeAxis) -> Panel:
    edges = edges_of(scene.seconds, FINE_BINS)
    asked = [(place, report, edges_until(report.seconds, edges)) for place, report in enumerate(fleet.reports)]
    lines = tuple(
        ChartLine(bins, rates(report.first.came, bins), _look(place), _name(report), told=report.resource)
        for place, report, bins in asked
        if len(report.first.came)
    )
    return Panel("Requests", "per second", (("", Chart(lines, 120.0)),))


def _reasons(fleet: FleetReport, scene: TimeAxis) -> str:
    """Show decisions and shortages on the time axis: a row for each resource, or for each of its policies."""
    marks: list[Mark] = []
    for number, report in enumerate(fleet.reports):
        for place, outcome in enumerate(report.outcomes):
            row, look = number * len(fleet.policies) + place, _look(number) if fleet.alone else look_of(outcome.policy)
            for at, _, reason, words in _told(report, place):
                marks.append(Mark(at, row, kind_of(reason), look, f"{clock(at)} {reason.value}: {words}"))
    if not marks:
        return ""
    names = [
        (_name(report), _look(number)) if fleet.alone else (_lane(report, policy), look_of(policy))
        for number, report in enumerate(fleet.reports)
        for policy in fleet.policies
    ]
    return reasons_card(_counts(fleet), names, marks, scene, _all_told(fleet))


def _told(report: Report, place: int) -> list[Said]:
    """Return what was said of a resource under one policy, by time, at most `MOST_REASONS` entries."""
    return everything_said(report.outcomes[place])[:MOST_REASONS]


def _counts(fleet: FleetReport) -> Counter[str]:
    outcomes = [outcome for report in fleet.reports for outcome in report.outcomes]
    return Counter(said.reason.value for outcome in outcomes for said in everything_said(outcome))


def _all_told(fleet: FleetReport) -> str:
    found = [
        (at, number, place, pool, reason, words)
        for number, report in enumerate(fleet.reports)
        for place in range(len(fleet.policies))
        for at, pool, reason, words in _told(report, place)
    ]
    body = "".join(
        f"<tr><td>{clock(at)}</td>{'' if fleet.alone else policy_cell(fleet.policies[place])}"
        f'<td class="{_look(number)} policy">{escape(fleet.reports[number].resource)}</td><td>{escape(pool)}</td>'
        f"<td><b>{reason.value}</b></td><td>{escape(words)}</td></tr>"
        for at, number, place, pool, reason, words in sorted(found, key=lambda each: each[:3])
    )
    heads = ["time", *([] if fleet.alone else ["policy"]), "resource", "pool", "reason", "message"]
    return scrolled(heads, body, left=_counts(fleet).total() - len(found))
