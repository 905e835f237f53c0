"""docs/scale.svg: time and memory of a pass over the number of GPUs; readable on light and dark pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.picture import GRID, INK, QUIET, SOFT, WEFT, as_svg_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_MEGA = 1e6
_ROOM_ABOVE = 1.12  # of a floor: its name stays clear of the title
MOST_MS, MOST_BYTES = 250.0, 300e6  # the floors
Row = dict[str, Any]


def as_svg(rows: Sequence[Row]) -> str:
    """The picture; the same figures are the same bytes."""
    return as_svg_of(lambda: _figure(rows), "Time and memory of a pass over the number of GPUs")


def _figure(rows: Sequence[Row]) -> Any:  # noqa: ANN401 - a matplotlib Figure, which is not loaded for its name
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(10.0, 3.6), layout="constrained")
    time, memory = figure.subplots(1, 2)
    gpus = [row["gpus"] for row in rows]
    _line(time, gpus, [row["place"]["processor_p99"] for row in rows], WEFT, "100 placed, p99")
    _line(time, gpus, [row["place"]["processor_p50"] for row in rows], WEFT, "100 placed, median")
    _line(memory, gpus, [row["peak_bytes"] / _MEGA for row in rows], WEFT, "peak of the process")
    _floor(time, MOST_MS)
    _floor(memory, MOST_BYTES / _MEGA)
    for axes, title in ((time, "Processor time of a pass, ms"), (memory, "Resident memory, MB")):
        _dressed(axes, title)
    return figure


def _line(axes: Axes, across: Sequence[float], up: Sequence[float], colour: str, name: str) -> None:
    """Measured points, named at the last of them."""
    axes.plot(across, up, "o-", color=colour, linewidth=1.6, markersize=4.5)
    axes.annotate(name, (across[-1], up[-1]), (8, 0), textcoords="offset points", va="center", color=SOFT)


def _floor(axes: Axes, most: float) -> None:
    """What it has to stay under."""
    axes.axhline(most, color=QUIET, linewidth=1.2, linestyle=(0, (4, 3)))
    axes.annotate(f"floor: under {most:.0f}", (0.0, most), (4, 4), textcoords="offset points", color=SOFT)
    low, high = axes.get_ylim()
    axes.set_ylim(low, max(high, _ROOM_ABOVE * most))


def _dressed(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10, color=INK)
    axes.set_xlabel("GPUs")
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.set_ylim(bottom=0.0)
    axes.set_xlim(0.0, 58_000.0)  # room for the names
    axes.set_xticks([0, 10_000, 20_000, 30_000, 40_000], ["0", "10,000", "20,000", "30,000", "40,000"])
    axes.tick_params(length=0, labelcolor=SOFT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
