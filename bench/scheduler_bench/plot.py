"""docs/scheduler-benchmark.svg: time to bind all, and what became of gangs; readable on light and dark pages."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from bench.picture import BAD, GRID, INK, PAPER, QUIET, SOFT, WEFT, as_svg_of
from bench.scheduler_bench import demand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

Row = dict[str, Any]


def as_svg(told: dict[str, Any]) -> str:
    """The picture; the same figures are the same bytes."""
    return as_svg_of(lambda: _figure(told["rows"]), "Weft's pods beside plain ones on kube-scheduler")


def _figure(rows: Sequence[Row]) -> Any:  # noqa: ANN401 - a matplotlib Figure, which is not loaded for its name
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(10.0, 3.2), layout="constrained")
    times, gangs = figure.subplots(1, 2)
    _times(times, [row for row in rows if row["scenario"] == demand.SCENARIOS[0].name])
    _gangs(gangs, [row for row in rows if row["scenario"] != demand.SCENARIOS[0].name])
    return figure


def _times(axes: Axes, rows: Sequence[Row]) -> None:
    """A bar for the median of equal runs, with its figure behind it, and a dot for each run."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(f"{row['placer']}, {row['writes_per_second']} writes/s", []).append(row)
    for place, equal in enumerate(runs.values()):
        seconds = [row["all_bound_seconds"] for row in equal if row["all_bound_seconds"] is not None]
        middle = median(seconds) if len(seconds) == len(equal) else 0.0
        axes.barh(place, middle, 0.6, color=WEFT if equal[0]["placer"] == "weft" else QUIET)
        axes.plot(
            seconds, [place] * len(seconds), "o", color=INK, markersize=3.4, markeredgecolor=PAPER, markeredgewidth=0.7
        )
        _note(axes, f"{middle:.1f} s" if middle else "not all", (max([middle, *seconds]), place))
    _lay_out(axes, [*runs], f"{demand.SCENARIOS[0].says}: seconds until all are bound")
    axes.set_xlabel("bar: median; dot: each run")


def _gangs(axes: Axes, rows: Sequence[Row]) -> None:
    """Gangs placed whole, and behind them those that wedged."""
    for place, row in enumerate(rows):
        whole, wedged = 100.0 * row["placed_share"], 100.0 * row["wedged"] / row["gangs"]
        axes.barh(place, whole, 0.6, color=WEFT if row["placer"] == "weft" else QUIET)
        axes.barh(place, wedged, 0.6, left=whole, color=BAD)
        _note(axes, f"{row['placed']} of {row['gangs']}, {row['wedged']} wedged", (whole + wedged, place))
    names = [f"{row['placer']}, {row['scenario']} {row['load']:.0%}" for row in rows]
    _lay_out(axes, names, "gangs placed whole and wedged, % of all")
    axes.set_xlim(0.0, 145.0)  # room for the words
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("bar: placed whole; red after it: wedged")


def _note(axes: Axes, words: str, where: tuple[float, float]) -> None:
    axes.annotate(words, where, (5, 0), textcoords="offset points", va="center", color=SOFT)


def _lay_out(axes: Axes, names: Sequence[str], title: str) -> None:
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.2)
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
