"""docs/scaling.svg: requests that miss the SLO against GPU-hours, one panel for each comparison, one line a rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from bench.picture import GRID, INK, QUIET, SOFT, WEFT, as_svg_of
from bench.scaling_bench.frontiers import Cell, cells
from bench.scaling_bench.scenarios import OWN_RULE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

Row = dict[str, Any]
_FEWEST_MISSED, _MOST_MISSED, _AIM = 0.001, 0.6, 0.01
_TICKS = {0.001: "99.9 %", 0.005: "99.5 %", 0.01: "99 %", 0.05: "95 %", 0.1: "90 %", 0.5: "50 %"}
_COLUMNS = 2


def as_svg(rows: Iterable[Row]) -> str:
    """The same results are the same bytes."""
    found = cells(rows)
    return as_svg_of(lambda: _figure(found), "Requests within the SLO against GPU-hours, by rule")


def _figure(found: Sequence[Cell]) -> Any:  # noqa: ANN401 - a matplotlib Figure, which is not loaded for its name
    from matplotlib.figure import Figure  # noqa: PLC0415

    lines = max(1, math.ceil(len(found) / _COLUMNS))
    figure = Figure(figsize=(10.0, 3.6 * lines), layout="constrained")
    panels = figure.subplots(lines, _COLUMNS, squeeze=False).flatten()
    for axes, cell in zip(panels, found, strict=False):
        _panel(axes, cell)
    for axes in panels[len(found) :]:
        axes.set_visible(False)
    return figure


def _panel(axes: Axes, cell: Cell) -> None:
    """The better the further up and left; a rule's name stands at its safest setting."""
    axes.set_axisbelow(True)
    axes.grid(color=GRID, linewidth=0.8)
    axes.axhline(_AIM, color=SOFT, linewidth=0.8, linestyle=(0, (4, 3)))
    for policy, rows in cell.by_policy:
        own = policy == OWN_RULE
        hours = [row["gpu_hours"] for row in rows]
        missed = [min(_MOST_MISSED, max(_FEWEST_MISSED, 1.0 - row["attainment"])) for row in rows]
        colour, width = (WEFT, 2.0) if own else (QUIET, 1.0)
        axes.plot(
            hours, missed, "o-", color=colour, linewidth=width, markersize=4.5 if own else 3.0, zorder=3 if own else 2
        )
        axes.annotate(
            policy,
            (hours[-1], missed[-1]),
            (5, 0),
            textcoords="offset points",
            va="center",
            color=WEFT if own else SOFT,
            fontsize=8,
        )
    axes.set_yscale("log")
    axes.set_ylim(_MOST_MISSED * 1.1, _FEWEST_MISSED * 0.9)
    axes.set_yticks(list(_TICKS), list(_TICKS.values()))
    axes.minorticks_off()
    axes.set_xlim(left=0.0)
    axes.margins(x=0.2)
    axes.tick_params(length=0)
    part = f", first {cell.minutes:g} min" if cell.minutes else ""
    axes.set_title(f"{cell.scenario}, start-up {cell.startup:g} s{part}", loc="left", fontsize=10, color=INK)
    axes.set_xlabel("GPU-hours")
    axes.set_ylabel("requests within the SLO")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
