"""docs/twin.svg: TPOT in the twin over TPOT that was measured, and how many rows are off by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bench.picture import GRID, INK, QUIET, SOFT, WEFT, as_svg_of
from bench.truth_bench.scored import AIM, all_scored, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from bench.truth_bench.scored import Scored

_MILLI, _MOST_PERCENT = 1e3, 50.0
_CURVES = {  # with where their names stand
    "straight_tpot": ("TPOT by a straight line, no twin", QUIET, "-", (12.0, 80.0)),
    "tpot": ("TPOT", WEFT, "-", (12.0, 86.0)),
    "ttft": ("TTFT", WEFT, (0, (4, 3)), (33.0, 62.0)),
}


def as_svg(told: dict[str, Any]) -> str:
    """The same figures are the same bytes."""
    rows = all_scored(told["rows"]["series"])
    return as_svg_of(lambda: _figure(rows), "TPOT in the twin over TPOT that was measured")


def _figure(rows: Sequence[Scored]) -> Any:  # noqa: ANN401 - a matplotlib Figure, which is not loaded for its name
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(10.0, 4.4), layout="constrained")
    beside, errors = figure.subplots(1, 2)
    _beside(beside, rows)
    _errors(errors, rows)
    for axes in (beside, errors):
        axes.set_axisbelow(True)
        axes.grid(color=GRID, linewidth=0.8)
        axes.tick_params(length=0, which="both", labelcolor=SOFT)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    return figure


def _beside(axes: Axes, rows: Sequence[Scored]) -> None:
    """A dot for each scored row; between the dashed lines the twin is off by a tenth at most."""
    measured, twin = (np.array([_MILLI * row[side]["tpot"] for row in rows]) for side in ("measured", "twin"))
    ends = np.array([min(measured.min(), twin.min()) / 1.2, max(measured.max(), twin.max()) * 1.2])
    for factor in (1.0 - AIM, 1.0 + AIM):
        axes.plot(ends, factor * ends, color=SOFT, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.plot(measured, twin, "o", color=WEFT, markersize=2.6, alpha=0.6, markeredgewidth=0.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(*ends)
    axes.set_ylim(*ends)
    ticks = [tick for tick in (2, 5, 10, 20, 50, 100, 200) if ends[0] < tick < ends[1]]
    axes.set_xticks(ticks, [f"{tick}" for tick in ticks])
    axes.set_yticks(ticks, [f"{tick}" for tick in ticks])
    axes.minorticks_off()
    axes.set_title(f"TPOT of {len(rows)} rows, ms", loc="left", fontsize=10, color=INK)
    axes.set_xlabel("measured (dashed: off by a tenth)")
    axes.set_ylabel("in the twin")


def _errors(axes: Axes, rows: Sequence[Scored]) -> None:
    """The share of rows that are off by at most so much."""
    share = 100.0 * np.arange(1, len(rows) + 1) / len(rows)
    for name, (title, colour, style, place) in _CURVES.items():
        off = np.sort([100.0 * abs(ratio(row, name) - 1.0) for row in rows])
        axes.plot(off, share, color=colour, linewidth=1.6, linestyle=style)
        axes.annotate(title, place, color=colour, fontsize=8)
    axes.set_xlim(0.0, _MOST_PERCENT)
    axes.set_ylim(0.0, 102.0)
    axes.set_title("Rows that are off by at most so much, %", loc="left", fontsize=10, color=INK)
    axes.set_xlabel("error, %")
