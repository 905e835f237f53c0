"""Draws the picture of a plan as a file with matplotlib, which is loaded only for that and may be missing.

An SVG has text as outlines, so that it looks the same everywhere, and colours for dark pages beside those for light
ones; a PNG has a light background of its own. The same picture gives the same bytes.
"""

from __future__ import annotations

import io
import logging
import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.whole import write_whole
from weft.cli.plan.dark_svg import also_dark
from weft.cli.plan.picture import PER_GPU, PER_USER, decades
from weft.cli.plan.placing_labels import Box, Label, Obstacles, Placed, placed
from weft.domain.texts.figures import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from weft.cli.plan.picture import Picture
    from weft.cli.plan.placing_labels import Points
    from weft.shaping.outlook import CurvePoint

ENDINGS = (".svg", ".png")
_INCHES = (10.0, 6.2)
_PAGE_DPI, _PNG_DPI = 72, 200  # 72: a pixel is a point of the page, the unit in which labels are placed
_FRAME = (0.095, 0.105, 0.88, 0.73)  # left (room for a tick of `100,000`), bottom, width, height, as parts of the page
_GROUND, _INK, _SOFT, _QUIET = "#fcfcfb", "#1d2733", "#5b6673", "#b4bcc6"
_FRONT, _CHOSEN, _MISSED, _GRID = "#1668a8", "#c2500c", "#f0ece4", "#e7e9ec"
_DARK = {
    _GROUND: "#14181d",
    _INK: "#e8ebef",
    _SOFT: "#a3adb9",
    _QUIET: "#4c5763",
    _FRONT: "#5fb0ea",
    _CHOSEN: "#ff9550",
    _MISSED: "#262320",
    _GRID: "#252b32",
}
_ANCHORS = (0.5, 0.35, 0.65, 0.2, 0.8, 0.05, 0.95)  # fractions along the part of the front that a label names
_WORTH = 26.0  # most that placing a name of the front may cost; the chosen shape is named at any cost
_LINE = 13.5  # points from one line of a label to the next
_NEAR = 10.0  # points within which a label needs no line to what it names
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that widths are the same everywhere
    "font.size": 9.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "weft",
    "text.parse_math": False,
    "text.color": _INK,
    "axes.edgecolor": _SOFT,
    "axes.labelcolor": _INK,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
}


def file_ending(path: Path) -> str:
    """Return `.svg` or `.png`; raises `CommandFailure` for another one, so a command calls it before it works."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise CommandFailure(f"cannot draw {path}: give it a name that ends with {' or '.join(ENDINGS)}")
    return ending


def write_plot(picture: Picture, path: Path) -> None:
    """Write the picture whole or not at all.

    Raises `CommandFailure` for another ending, without matplotlib, without a curve, and where the file cannot be
    written.
    """
    ending = file_ending(path)
    if not picture.front:
        raise CommandFailure(f"cannot draw {path}: {picture.model} makes no tokens here, so there is no curve")
    write_whole(path, _drawn(picture, ending))


def _drawn(picture: Picture, ending: str) -> bytes:
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # else it logs to stderr where it keeps its fonts
    try:
        from matplotlib import rc_context, rcdefaults, rcParams
    except ModuleNotFoundError:
        raise CommandFailure("pictures need matplotlib, which is not here: install weft[plot]") from None
    content = io.BytesIO()
    with rc_context():
        rcdefaults()  # ignores any matplotlibrc
        rcParams.update(_STYLE)
        figure = _figure(picture)
        if ending == ".png":
            figure.savefig(content, format="png", dpi=_PNG_DPI, metadata={"Software": None})
            return content.getvalue()
        told = {"Title": f"{picture.model}: {picture.subtitle}", "Description": _description(picture)}
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": "Weft", **told})
    return also_dark(content.getvalue().decode(), _DARK).encode()


def _description(picture: Picture) -> str:
    """Return what a screen reader says of the picture."""
    chosen = ", ".join([picture.name(picture.chosen), *picture.chosen_words])
    return f"{PER_GPU}, over {PER_USER}; chosen: {chosen}"


def _figure(picture: Picture) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, dpi=_PAGE_DPI, facecolor=_GROUND)
    FigureCanvasAgg(figure)  # measures texts
    axes = figure.add_axes(_FRAME, facecolor="none")
    _draw_axes(axes, picture)
    _draw_target(axes, picture)
    _draw_curves(axes, picture)
    _name_shapes(axes, picture)
    _draw_heading(figure, picture)
    return figure


def _draw_axes(axes: Axes, picture: Picture) -> None:
    from matplotlib.ticker import NullLocator

    low, high = picture.per_gpu_range
    axes.set_xlim(0.0, picture.most_per_user)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    ticks = decades(low, high)
    axes.set_yticks(ticks, [f"{tick:,.4g}" if tick < 1.0 else f"{tick:,.0f}" for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(PER_USER, labelpad=7)
    axes.set_ylabel(PER_GPU, labelpad=7)
    axes.grid(axis="y", color=_GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _draw_target(axes: Axes, picture: Picture) -> None:
    """Draw the line at the target, and shade what misses it; a target beyond the axis shades everything."""
    if picture.tpot_target is None:
        return
    speed = 1.0 / picture.tpot_target[1]
    axes.axvspan(0.0, min(speed, picture.most_per_user), color=_MISSED, linewidth=0, zorder=0.2, gid="missed")
    words = picture.target_words
    if speed < picture.most_per_user:
        axes.axvline(speed, color=_INK, linewidth=1.2, zorder=3, gid="target")
    else:
        speed, words = picture.most_per_user, f"{words} \N{RIGHTWARDS ARROW}"
    x = axes.transAxes.inverted().transform(axes.transData.transform((speed, 1.0)))[0]
    text = axes.text(x, 1.0 + 5 / axes.bbox.height, words, transform=axes.transAxes, gid="target-label")
    over = _box(text).right - axes.bbox.x1
    if over > 0:  # moved left so that it ends in the frame
        text.set_x(x - over / axes.bbox.width)


def _draw_curves(axes: Axes, picture: Picture) -> None:
    for index, curve in enumerate(picture.curves):
        if curve.shape != picture.chosen:
            line = axes.plot(*_columns(curve.points), color=_QUIET, linewidth=0.8, zorder=1.5)[0]
            line.set_gid(f"candidate-{index}")
    _outlined(axes, [point for _, point in picture.front], _FRONT, 3.2, "front")
    for curve in picture.curves:
        if curve.shape == picture.chosen:
            _outlined(axes, curve.points, _CHOSEN, 1.5, "chosen")
    if picture.operating is not None:
        dot = axes.plot(*_columns([picture.operating]), "o", color=_CHOSEN, markeredgecolor=_GROUND, zorder=5)[0]
        dot.set(markersize=11, markeredgewidth=1.6, gid="operating-point")


def _outlined(
    axes: Axes, points: list[CurvePoint] | tuple[CurvePoint, ...], colour: str, width: float, gid: str
) -> None:
    """Draw a line with a rim in the background's colour, so that it stands out from the lines that it crosses."""
    for order, (each, wide) in enumerate(((_GROUND, width + 1.6), (colour, width))):
        line = axes.plot(*_columns(points), color=each, linewidth=wide, zorder=4 + 0.1 * order)[0]
        line.set(solid_capstyle="round", gid=gid if order else f"{gid}-rim")


def _draw_heading(figure: Figure, picture: Picture) -> None:
    """Draw title, subtitle and legend above the frame, where the legend covers no curve."""
    from matplotlib.lines import Line2D

    others = sum(curve.shape != picture.chosen for curve in picture.curves)
    chosen = "chosen, at its capacity within the SLO" if picture.operating else "chosen, though it misses the SLO"
    entries = [("Pareto front", _FRONT, 3.2), (chosen, _CHOSEN, 1.5)]
    entries += [(counted(others, "other shape"), _QUIET, 0.8)] if others else []
    lines = [Line2D([], [], label=words, color=colour, linewidth=width) for words, colour, width in entries]
    lines[1].set(marker="o" if picture.operating else "", markersize=8, markeredgecolor=_GROUND)
    right = _FRAME[0] + _FRAME[2]
    legend = figure.legend(
        handles=lines,
        loc="upper right",
        bbox_to_anchor=(right, 0.965),
        frameon=False,
        labelcolor=_SOFT,
        borderpad=0,
        borderaxespad=0,
        handlelength=2.4,
        labelspacing=0.35,
    )
    legend.set_gid("legend")
    title = figure.text(_FRAME[0], 0.935, picture.model, size=16, weight="bold", gid="title")
    figure.text(_FRAME[0], 0.893, picture.subtitle, size=10, color=_SOFT, gid="subtitle")
    room = legend.get_window_extent().x0 - 12 - _box(title).left
    title.set_fontsize(16 * min(1.0, room / (_box(title).right - _box(title).left)))


def _name_shapes(axes: Axes, picture: Picture) -> None:
    """Name the chosen shape first, then those of the front while there is room."""
    own = next((curve.points for curve in picture.curves if curve.shape == picture.chosen), ())
    names = [_Name(axes, picture.name(picture.chosen), _CHOSEN, picture.chosen_words)]
    labels = [names[0].label(axes, (picture.operating,) if picture.operating else own)]
    for shape, run in picture.runs():
        if shape != picture.chosen:
            names.append(_Name(axes, picture.name(shape), _FRONT))
            labels.append(names[-1].label(axes, run, worth=_WORTH))
    for name, place in zip(names, placed(tuple(labels), _scene(axes, picture)), strict=True):
        name.put(axes, place)


class _Name:
    """The texts of one label, from above: the name of a shape, and what it does."""

    def __init__(self, axes: Axes, name: str, colour: str, words: tuple[str, ...] = ()) -> None:
        from matplotlib.patheffects import withStroke

        rim = [withStroke(linewidth=2.6, foreground=_GROUND)]
        style: dict[str, Any] = {"color": colour, "zorder": 6, "va": "bottom", "path_effects": rim}
        words_id = name.replace(" ", "-")
        head = axes.text(0, 0, name, weight="bold" if words else "normal", gid=f"label-{words_id}", **style)
        details = (axes.text(0, 0, line, gid=f"detail-{row}-{words_id}", **style) for row, line in enumerate(words))
        self.texts = [head, *details]
        self.colour = colour

    def label(self, axes: Axes, points: tuple[CurvePoint, ...], worth: float = math.inf) -> Label:
        """Return its size, and the points that it may be tied to: from the middle to the ends."""
        tied = dict.fromkeys(points[round(part * (len(points) - 1))] for part in _ANCHORS)
        anchors = tuple((float(x), float(y)) for x, y in _on_page(axes, tuple(tied)))
        boxes = [_box(text) for text in self.texts]
        return Label(anchors, max(box.right - box.left for box in boxes), _LINE * len(boxes), worth)

    def put(self, axes: Axes, place: Placed | None) -> None:
        """Move the texts to their place, with a line to what they name if that is not near; remove them without one."""
        page = axes.transAxes.inverted()
        for row, text in enumerate(self.texts):
            if place is None:
                text.remove()
                continue
            text.set_transform(axes.transAxes)
            text.set_position(tuple(page.transform((place.box.left, place.box.top - _LINE * (row + 1)))))
        if place is not None and place.distance > _NEAR:
            x, y = page.transform(place.leader[[0, -2]]).T  # the line ends short of the text
            axes.plot(x, y, color=self.colour, linewidth=0.7, transform=axes.transAxes, zorder=4.5)


def _scene(axes: Axes, picture: Picture) -> Obstacles:
    frame = axes.bbox
    quiet = [_dotted(_on_page(axes, curve.points)) for curve in picture.curves if curve.points]
    strong = [_dotted(_on_page(axes, tuple(point for _, point in picture.front)), 3.0)]
    if picture.operating is not None:
        strong.append(_on_page(axes, (picture.operating,)))
    if picture.tpot_target is not None:
        x = axes.transData.transform((1.0 / picture.tpot_target[1], 1.0))[0]
        strong.append(_dotted(np.array([[x, frame.y0], [x, frame.y1]]), 3.0))
    inside = Box(frame.x0 + 4, frame.y0 + 4, frame.x1, frame.y1 - 2)
    return Obstacles(inside, np.vstack(strong), np.vstack(quiet))


def _box(text: Text) -> Box:
    found = text.get_window_extent()
    return Box(found.x0, found.y0, found.x1, found.y1)


def _columns(points: list[CurvePoint] | tuple[CurvePoint, ...]) -> tuple[list[float], list[float]]:
    return [point.per_user for point in points], [point.per_gpu for point in points]


def _on_page(axes: Axes, points: tuple[CurvePoint, ...]) -> Points:
    return np.asarray(axes.transData.transform(np.array(_columns(points)).T), dtype=np.float64)


def _dotted(line: Points, every: float = 6.0) -> Points:
    """Return points along a line that are at most `every` apart."""
    pieces = [np.linspace(start, end, 2 + int(np.abs(end - start).max() / every)) for start, end in pairwise(line)]
    return np.vstack([line, *pieces])
