"""`weft simulate --html`: what was asked, how well each policy served it and at what cost, as one self-contained page.

Policies keep their colours from page to page.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

import numpy as np

from weft.cli.simulate.charts import LEFT, RIGHT, WIDTH, TimeAxis, chart_svg, marks_svg
from weft.cli.simulate.page import heading
from weft.cli.simulate.pictures import look_of, panels, reason_marks
from weft.cli.simulate.report import DRAWN, USUAL, Figures, everything_said, percent, time, times_least
from weft.cli.simulate.series import clock, edges_of
from weft.domain.texts.figures import digits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.cli.simulate.charts import Chart, Mark
    from weft.cli.simulate.pictures import Panel
    from weft.cli.simulate.report import Report
    from weft.twin.outcome import SimulationOutcome

MOST_REASONS = 400  # most rows of a policy in the table; the JSON has all
_MOST_READ = 240  # most moments for which the pointer shows values
_COSTS = frozenset({"GPU-hours", "x least", "cost in H100-hours", "changes"})
_META = '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
_SHAPES = (
    '<svg width="0" height="0" class=defs><defs>'
    '<path id="up" d="M0 -6L5.5 4H-5.5Z"/><path id="down" d="M0 6L5.5 -4H-5.5Z"/>'
    '<path id="amiss" d="M-4 -4L4 4M4 -4L-4 4"/><circle id="other" r="3.2"/></defs></svg>'
)
_KEYS = (
    ("up", "more replicas"),
    ("down", "fewer"),
    ("amiss", "cannot be had, or was lost"),
    ("other", "anything else"),
)


def simulation_html(report: Report) -> str:
    """Return the whole page of one resource."""
    scene = TimeAxis(
        max(1.0, report.seconds, *(each.seconds for each in report.outcomes)), report.first.warm_up, report.faults
    )
    shown = list(panels(report, scene))
    parts = (
        _head(report),
        summary(report),
        *(panel_card(panel, scene) for panel in shown),
        _reasons(report, scene),
    )
    charts = [chart for panel in shown for _, chart in panel.charts]
    return whole_page(f"{report.resource}: {report.trace}", parts, charts, scene)


def whole_page(
    title: str, parts: Sequence[str], charts: Sequence[Chart | None], scene: TimeAxis, style: str = ""
) -> str:
    """Put parts below each other on a page; the pointer reads `charts`, those of all figures in order (None: marks)."""
    body = (
        _SHAPES,
        *parts,
        f'<script type="application/json" id="read">{_readings(charts, scene)}</script>',
        f"<script>{file_of('page.js')}</script>",
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{_META}<title>Weft simulation of {escape(title)}</title>'
        f"<style>\n{file_of('page.css')}{style}</style></head>\n"
        f"<body><main>\n{chr(10).join(body)}\n</main></body>\n</html>\n"
    )


def file_of(name: str) -> str:
    """Return the text of a file beside this module."""
    return resources.files("weft.cli.simulate").joinpath(name).read_text(encoding="utf-8")


def _head(report: Report) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in heading(report))
    return f"<h1><small>simulation of</small> {escape(report.resource)}</h1><ul class=asked>{lines}</ul>"


def summary(report: Report) -> str:
    """Return tiles for one policy, or a table of several."""
    rows = [(outcome, Figures.of(outcome)) for outcome in report.outcomes]
    return _tiles(report, *rows[0]) if report.alone else _comparison(report, rows)


def _tiles(report: Report, outcome: SimulationOutcome, figures: Figures) -> str:
    shown = (
        ("within the SLO", percent(figures.attainment), "SLO met" if figures.meets else "SLO missed"),
        _latency_tile("TTFT", figures.ttft_at),
        _latency_tile("TPOT", figures.tpot_at),
        ("GPU-hours", digits(outcome.gpu_hours), f"cost {digits(outcome.cost)}\nin H100-hours"),
        *_beside_the_least(report, outcome),
        ("changes of replicas", f"{figures.changes:,}", "of what is wanted"),
        (
            "failed requests",
            f"{figures.failed:,}",
            f"of {figures.requests:,}\n{outcome.retried:,} retried{_unfinished(figures)}",
        ),
    )
    tiles = "".join(
        f"<div{_missed(figures, number)}><span>{name}</span><b>{value}</b><small>{escape(more)}</small></div>"
        for number, (name, value, more) in enumerate(shown)
    )
    return f"<section class=tiles>{tiles}</section>"


def _latency_tile(name: str, at: Callable[[int], float]) -> tuple[str, str, str]:
    others = "\n".join(f"p{each} {time(at(each))}" for each in DRAWN if each != USUAL)
    return f"{name} p{USUAL}", time(at(USUAL)), others


def _unfinished(figures: Figures) -> str:
    return f"\n{figures.unfinished:,} unfinished" if figures.unfinished else ""


def _beside_the_least(report: Report, outcome: SimulationOutcome) -> list[tuple[str, str, str]]:
    if not report.oracle_gpu_hours:
        return []
    return [
        (
            "times the least",
            times_least(report, outcome),
            f"at best it takes\n{digits(report.oracle_gpu_hours)} GPU-hours",
        )
    ]


def _missed(figures: Figures, number: int) -> str:
    return "" if number or figures.meets else " class=missed"


def _comparison(report: Report, rows: Sequence[tuple[SimulationOutcome, Figures]]) -> str:
    """Return a row for each policy, with the best of each column marked.

    Costs are compared among policies that meet the SLO only, if any does.
    """
    heads = ["within the SLO", *(f"{kind} p{each}" for kind in ("TTFT", "TPOT") for each in DRAWN)]
    heads += ["GPU-hours", *(["x least"] if report.oracle_gpu_hours else []), "cost in H100-hours", "changes", "failed"]
    heads += ["unfinished"] if any(figures.unfinished for _, figures in rows) else []
    cells = [_cells(report, *row)[: len(heads)] for row in rows]
    meeting = [figures.meets for _, figures in rows]
    apart = _COSTS if any(meeting) else frozenset()
    best = [
        _best([cell for cell, meets in zip(column, meeting, strict=True) if meets or head not in apart], column)
        for head, column in zip(heads, zip(*cells, strict=True), strict=True)
    ]
    body = "".join(_row(*row, own, best) for row, own in zip(rows, cells, strict=True))
    head = "".join(f"<th scope=col>{each}</th>" for each in ["policy", *heads])
    table = f"<table class=compared><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<section class=card>{table}</section>"


def _row(outcome: SimulationOutcome, figures: Figures, cells: Sequence[tuple[float, str]], best: Sequence[str]) -> str:
    look = look_of(outcome.policy)
    part = 0.0 if math.isnan(figures.attainment) else figures.attainment
    bars = [f'<u class="{look}"><s style="width:{part:.2%}"></s></u>', *[""] * (len(cells) - 1)]
    marked = "".join(
        f"<td{' class=best' if words == first else ''}>{words}{bar}</td>"
        for (_, words), first, bar in zip(cells, best, bars, strict=True)
    )
    verdict = "" if figures.meets else "<small class=missed>misses the SLO</small>"
    return f'<tr><th scope=row><i class="{look}"></i>{escape(outcome.policy)}{verdict}</th>{marked}</tr>'


def _cells(report: Report, outcome: SimulationOutcome, figures: Figures) -> list[tuple[float, str]]:
    """Return (value, text) of each column, lower values being better."""
    cells = [(-figures.attainment, percent(figures.attainment))]
    cells += [(value, time(value)) for at in (figures.ttft_at, figures.tpot_at) for value in map(at, DRAWN)]
    cells.append((outcome.gpu_hours, digits(outcome.gpu_hours)))
    if report.oracle_gpu_hours:
        cells.append((outcome.gpu_hours, times_least(report, outcome)))
    cells += [(outcome.cost, digits(outcome.cost)), (float(figures.changes), str(figures.changes))]
    return [*cells, *((float(count), f"{count:,}") for count in (figures.failed, figures.unfinished))]


def _best(compared: Sequence[tuple[float, str]], column: Sequence[tuple[float, str]]) -> str:
    """Return the text of the least value among those compared; empty where the whole column reads the same."""
    known = sorted(cell for cell in compared if not math.isnan(cell[0]))
    return known[0][1] if len({words for _, words in column}) > 1 and known else ""


def panel_card(panel: Panel, scene: TimeAxis) -> str:
    """Return a panel with its charts."""
    keys = "".join(f'<span class=key><i class="k {kind}"></i>{words}</span>' for kind, words in panel.keys)
    head = f"<header><h2>{escape(panel.title)} <small>{escape(panel.unit)}</small></h2>{keys}</header>"
    drawn = "".join(
        f"<figure><output></output>{chart_svg(chart, scene, ', '.join(filter(None, (panel.title, name))))}</figure>"
        for name, chart in panel.charts
    )
    return f"<section class=card>{head}{drawn}</section>"


def _readings(charts: Sequence[Chart | None], scene: TimeAxis) -> str:
    """Return what each chart shows at each moment, as JSON that is safe inside a page."""
    edges = edges_of(scene.seconds, _MOST_READ)
    moments = [float(each) for each in edges[:-1]]
    told = [[_told(chart, at) for at in moments] if chart is not None else [] for chart in charts]
    data = {"width": WIDTH, "left": LEFT, "right": RIGHT, "clock": [clock(at) for at in moments], "told": told}
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _told(chart: Chart, at: float) -> str:
    words = []
    for line in chart.lines:
        place = int(np.searchsorted(line.times, at, side="right")) - 1
        value = float(line.values[place]) if 0 <= place < len(line.values) else math.nan
        if line.told and math.isfinite(value):
            words.append(f'<b class="{line.look}">{escape(line.told)}</b> {chart.show(value)}')
    return " ".join(words)


def _reasons(report: Report, scene: TimeAxis) -> str:
    rows, marks = reason_marks(report)
    if not marks:
        return ""
    counts = Counter(said.reason.value for outcome in report.outcomes for said in everything_said(outcome))
    return reasons_card(counts, rows, marks, scene, _table(report, counts.total()))


def reasons_card(
    counts: Counter[str], rows: Sequence[tuple[str, str]], marks: Sequence[Mark], scene: TimeAxis, table: str
) -> str:
    """Return marks on the time axis, how often each reason was given, and a table of all reasons."""
    often = ", ".join(f"{reason} {count}" for reason, count in counts.most_common())
    keys = "".join(
        f'<span class=key><svg viewBox="-7 -7 14 14"><use href="#{kind}" class=mark /></svg>{words}</span>'
        for kind, words in _KEYS
    )
    head = f"<header><h2>Reasons <small>{escape(often)}</small></h2>{keys}</header>"
    picture = f"<figure><output></output>{marks_svg(rows, marks, scene, 'Reasons')}</figure>"
    return f"<section class=card>{head}{picture}{table}</section>"


def _table(report: Report, every: int) -> str:
    said = [(one, outcome.policy) for outcome in report.outcomes for one in everything_said(outcome)[:MOST_REASONS]]
    said.sort(key=lambda each: each[0].at)
    body = "".join(
        f"<tr><td>{clock(one.at)}</td>{_who(report, policy)}<td>{escape(one.pool)}</td>"
        f"<td><b>{one.reason.value}</b></td><td>{escape(one.words)}</td></tr>"
        for one, policy in said
    )
    heads = ["time", *([] if report.alone else ["policy"]), "pool", "reason", "message"]
    return scrolled(heads, body, left=every - len(said))


def scrolled(heads: Sequence[str], body: str, *, left: int) -> str:
    """Return a table of reasons, and how many it leaves out."""
    head = "".join(f"<th scope=col>{each}</th>" for each in heads)
    more = f"<p class=soft>{left:,} more are in the JSON.</p>" if left else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class=scroll tabindex=0 role=region aria-label="Reasons as a table">{table}</div>{more}'


def _who(report: Report, policy: str) -> str:
    return "" if report.alone else policy_cell(policy)


def policy_cell(policy: str) -> str:
    """Return a table cell with a policy in its colour."""
    return f'<td class="{look_of(policy)} policy">{escape(policy)}</td>'
