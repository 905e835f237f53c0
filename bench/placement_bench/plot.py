"""docs/placement.svg: what each placer rejects, one panel for each mix and load; readable on light and dark pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.picture import GRID, INK, QUIET, SOFT, WEFT, as_svg_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

Row = dict[str, Any]


def as_svg(told: dict[str, Any]) -> str:
    """The picture of the loss system with all trays up; the same figures are the same bytes."""
    rows = [row for row in told["rows"] if row["variant"] == "loss" and not row["trays_down"]]
    return as_svg_of(lambda: _figure(rows), "Share of GPUs asked for that is rejected, by placer, mix and load")


def _figure(rows: Sequence[Row]) -> Any:  # noqa: ANN401 - a matplotlib Figure, which is not loaded for its name
    from matplotlib.figure import Figure  # noqa: PLC0415

    cells = list(dict.fromkeys((row["mix"], row["load"]) for row in rows))
    figure = Figure(figsize=(10.0, 3.3 * ((len(cells) + 1) // 2)), layout="constrained")
    panels = figure.subplots((len(cells) + 1) // 2, 2, sharex=True, sharey=True, squeeze=False).flatten()
    for axes, (mix, load) in zip(panels, cells, strict=False):
        _panel(axes, [row for row in rows if (row["mix"], row["load"]) == (mix, load)])
        axes.set_title(f"{mix} mix, {load:.0%} load", loc="left", fontsize=10, color=INK)
    for axes in panels[-2:]:
        axes.set_xlabel("rejected, % of GPUs asked for (mean and 95 % interval)")
    return figure


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    """A dot for each placer from above, its figure beside it, and the bound as a line through all of them."""
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    for place, row in enumerate(rows):
        share, spread = 100.0 * row["rejected_share"], 100.0 * row["rejected_share_spread"]
        colour = WEFT if row["placer"] == "weft" else QUIET
        axes.plot([max(0.0, share - spread), share + spread], [place, place], color=colour, linewidth=1.6)
        axes.plot([share], [place], "o", color=colour, markersize=5.5, clip_on=False)
        axes.annotate(
            f"{share:.1f}", (share + spread, place), (6, 0), textcoords="offset points", va="center", color=SOFT
        )
        if row["placer"] == "pooled":
            axes.axvline(share, color=SOFT, linewidth=0.8, linestyle=(0, (4, 3)))
    names = [row["placer"] + (f": {row['levers']}" if row["levers"] else "") for row in rows]
    axes.set_yticks(range(len(rows)), [name.replace("pooled", "pooled (bound)") for name in names])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0.0, 50.0)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
