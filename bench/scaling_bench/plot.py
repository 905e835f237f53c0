"""docs/scaling.svg: requests within the SLO against GPU-hours, one panel for each trace, one line a rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from bench.picture import GRID, INK, PURPLE, QUIET, RUST, SAND, SOFT, TEAL, WEFT, as_svg_of
from bench.scaling_bench.frontiers import Cell, cells, unbeaten
from bench.scaling_bench.scenarios import FIXED_RATIO, ORACLE, OWN_RULE
from bench.scaling_bench.summary import STARTUP_SECONDS, STATIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]
_FEWEST_MISSED, _MOST_MISSED, _AIM = 0.001, 0.5, 0.01
_TICKS = {0.001: "99.9 %", 0.005: "99.5 %", 0.01: "99 %", 0.05: "95 %", 0.1: "90 %", 0.5: "50 %"}
_COLUMNS = 2
_FEW = 4  # points up to which a line is of all that there is to see


class _Look(NamedTuple):
    colour: str
    mark: str
    dashes: str = "-"
    width: float = 1.2


# Rules that are drawn. Dynamo's other predictors are not: they lie close to the first.
_LOOKS = {
    OWN_RULE: _Look(WEFT, "o", width=2.4),
    ORACLE: _Look(INK, "", ":", 1.4),
    STATIC: _Look(SOFT, "", "--", 1.4),
    FIXED_RATIO: _Look(SAND, "v"),
    "hpa": _Look(RUST, "s"),
    "hpa-queue": _Look(RUST, "^"),
    "hpa-kv": _Look(RUST, "D"),
    "aibrix": _Look(QUIET, "x"),
    "wva": _Look(PURPLE, "P"),
    "keda-slo": _Look(PURPLE, "d"),
    "dynamo": _Look(TEAL, "o"),
    "heteroscale": _Look(SAND, "X"),
}


def as_svg(rows: Iterable[Row]) -> str:
    """The same results are the same bytes."""
    found = [cell for cell in cells(rows) if cell.startup == STARTUP_SECONDS]
    return as_svg_of(lambda: _figure(found), "Requests within the SLO against GPU-hours, by rule")


def _figure(found: Sequence[Cell]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    lines = max(1, math.ceil(len(found) / _COLUMNS))
    figure = Figure(figsize=(10.0, 3.4 * lines + 0.5), layout="constrained")
    panels = list(figure.subplots(lines, _COLUMNS, squeeze=False).flatten())
    for axes, cell in zip(panels, found, strict=False):
        _panel(axes, cell)
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    _legend(figure, panels[: len(found)])
    return figure


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """One for all panels, in the order of `_LOOKS`."""
    drawn = {str(line.get_label()): line for axes in panels for line in axes.get_lines()}
    names = [name for name in _LOOKS if name in drawn]
    figure.legend(
        [drawn[name] for name in names],
        names,
        loc="outside upper center",
        ncols=max(1, math.ceil(len(names) / 2)),
        frameon=False,
        labelcolor=INK,
    )


def _panel(axes: Axes, cell: Cell) -> None:
    """The better the further up and left."""
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.8)
    axes.axhline(_AIM, color=SOFT, linewidth=0.8, linestyle=(0, (4, 3)))
    for policy, rows in cell.by_policy:
        if policy in _LOOKS:
            _draw(axes, policy, rows)
    axes.set_yscale("log")
    axes.set_ylim(_MOST_MISSED * 1.1, _FEWEST_MISSED * 0.9)
    axes.set_yticks(list(_TICKS), list(_TICKS.values()))
    axes.minorticks_off()
    axes.set_xlim(left=0.0)
    axes.locator_params(axis="x", nbins=6)
    axes.tick_params(length=0)
    part = f", first {cell.minutes:g} min" if cell.minutes else ""
    axes.set_title(f"{cell.scenario}, start-up {cell.startup:g} s{part}", loc="left", fontsize=10, color=INK)
    axes.set_xlabel("GPU-hours")
    axes.set_ylabel("requests within the SLO")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _draw(axes: Axes, policy: str, rows: Iterable[Row]) -> None:
    """The settings that no cheaper one of the same rule beats, from where half of the requests are in time."""
    points = [(hours, 1.0 - attained) for attained, hours in unbeaten(rows) if 1.0 - attained <= _MOST_MISSED]
    if not points:
        return
    hours, missed = zip(*points, strict=True)
    look = _LOOKS[policy]
    axes.plot(
        hours,
        [max(_FEWEST_MISSED, each) for each in missed],
        color=look.colour,
        linestyle=look.dashes,
        linewidth=look.width,
        marker=look.mark or ("." if len(points) <= _FEW else None),
        markersize=4.5,
        label=policy,
        zorder=4 if policy == OWN_RULE else 3,
    )
