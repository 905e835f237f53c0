"""Charts over time as SVG: lines, steps and areas with names at their ends, on one time axis for all charts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from weft.cli.simulate.series import linear_ticks, log_ticks, moment, only_changes, step_of_time
from weft.domain.texts.figures import digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from weft.cli.simulate.series import Values

WIDTH, LEFT, RIGHT, TOP, BELOW = 1120.0, 58.0, 104.0, 9.0, 22.0  # pixels, on a page that is wide enough
LINE = 13.0  # pixels from one name to the next
_MOST_TIMES = 10
_FAULT_NAME = 170.0  # pixels that the name of a fault may take
_MOST_LETTERS = 14  # of a name, on the right of a chart: a longer one would be cut off by the edge of the page
_NEARLY = 0.02  # fraction of a step by which an axis may end before its last tick
_DECADE = 8.0  # ratio of highest to least value from which an axis is logarithmic


@dataclass(frozen=True, slots=True, eq=False)
class ChartLine:
    """Values over time. `look` are CSS classes: a colour, and `thin`, `dashed` or `area`; `name` stands at its end.

    With `steps` a value holds until the next one; else values belong to bins of time and are drawn in their middle. NaN
    is a gap. `told` is the name in the text at the pointer; empty: the line is not in it.
    """

    times: Values
    values: Values
    look: str
    name: str = ""
    told: str = ""
    steps: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment in a row; `kind` is `up`, `down`, `amiss` or `other`; `words` appear where the pointer rests."""

    at: float
    row: int
    kind: str
    look: str
    words: str


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """What all charts share: the length in seconds, the warm-up, and (time, node) of faults."""

    seconds: float
    warm_up: float = 0.0
    faults: tuple[tuple[float, str], ...] = ()

    def x(self, at: float) -> float:
        """Return the pixels from the left for a time."""
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, at / self.seconds))


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """Lines of one unit. `targets` are values with their names; `whole` allows ticks at whole numbers only.

    The axis reaches `highest` at least, so that charts can be compared. A `mixed` chart may be logarithmic. `name` is a
    text and its CSS class, beside the chart; `timed`: the axis shows times; `first`: faults have their names.
    """

    lines: tuple[ChartLine, ...]
    height: float = 130.0
    show: Callable[[float], str] = digits
    targets: tuple[tuple[float, str], ...] = ()
    highest: float = 0.0
    whole: bool = False
    mixed: bool = False
    name: tuple[str, str] = ("", "")
    timed: bool = True
    first: bool = False

    @property
    def extent(self) -> tuple[float, float]:
        """Least positive value and highest value that are known; (infinity, `highest`) where there are none."""
        parts = [line.values for line in self.lines] + [np.array([target for target, _ in self.targets])]
        values = np.concatenate(parts) if parts else np.zeros(0)
        known = values[np.isfinite(values)]
        above = known[known > 0]
        return float(above.min(initial=math.inf)), max(float(known.max(initial=0.0)), self.highest)


@dataclass(frozen=True, slots=True)
class _Axis:
    ticks: tuple[float, ...]
    height: float
    logarithmic: bool

    def y(self, value: float) -> float:
        """Return the pixels from the top for a value; values beyond an end stand at it."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        part = (value - low) / (high - low)
        return TOP + self.height * (1.0 - min(1.0, max(0.0, part)))


def chart_svg(chart: Chart, scene: TimeAxis, label: str) -> str:
    """Draw one chart; `label` is what a screen reader says of it."""
    axis = _axis(chart)
    height = TOP + chart.height + (BELOW if chart.timed else 4.0)
    parts = (
        *_ground(scene, chart.height),
        *(_times(scene, TOP + chart.height) if chart.timed else ()),
        *(_faults(scene) if chart.first else ()),
        *(_tick(tick, axis, chart) for tick in axis.ticks),
        *(part for line in _from_below(chart.lines) for part in _drawn(line, axis, scene)),
        *_targets(chart, axis),
        *_names(chart, axis),
        _name(TOP + chart.height / 2 + 4, chart.name[0], f"name {chart.name[1]}"),
        f'<line class=cursor y1="{TOP:g}" y2="{TOP + chart.height:g}"/>',
    )
    return _svg(height, label, parts)


def marks_svg(rows: Sequence[tuple[str, str]], marks: Sequence[Mark], scene: TimeAxis, label: str) -> str:
    """Draw rows of marks on the same time axis; each row has a name at its end, with its CSS class."""
    step = 26.0
    tall = step * len(rows)
    middles = [TOP + step * (index + 0.5) for index in range(len(rows))]
    parts = (
        *_ground(scene, tall),
        *_times(scene, TOP + tall),
        *(f'<line class=grid x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in middles),
        *(_name(y + 4, name, f"name {look}") for y, (name, look) in zip(middles, rows, strict=True)),
        *(_mark(mark, scene.x(mark.at), middles[mark.row]) for mark in marks),
        f'<line class=cursor y1="{TOP:g}" y2="{TOP + tall:g}"/>',
    )
    return _svg(TOP + tall + BELOW, label, parts)


def _svg(height: float, label: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(label)}">\n{body}\n</svg>'


def _axis(chart: Chart) -> _Axis:
    low, high = chart.extent
    if chart.mixed and math.isfinite(low) and high / low >= _DECADE:
        return _Axis(tuple(log_ticks(low, high)), chart.height, logarithmic=True)
    ticks = linear_ticks(high or 1.0, max(2, round(chart.height / 36)), whole=chart.whole)
    return _Axis(tuple(ticks), chart.height, logarithmic=False)


def _ground(scene: TimeAxis, tall: float) -> Iterator[str]:
    """Yield the warm-up, the lines of time, and the faults."""
    bottom = TOP + tall
    if scene.warm_up > 0:
        wide = scene.x(scene.warm_up) - LEFT
        box = f'x="{LEFT:g}" y="{TOP:g}" width="{wide:.1f}" height="{tall:g}"'
        yield f"<rect class=warm {box}><title>warm-up, which does not count</title></rect>"
    for x in map(scene.x, _moments(scene)):
        yield f'<line class=grid x1="{x:.1f}" x2="{x:.1f}" y1="{TOP:g}" y2="{bottom:g}"/>'
    for at, node in scene.faults:
        x = scene.x(at)
        words = f"<title>{escape(node)} fails at {moment(at)}</title>"
        yield f'<line class=fault x1="{x:.1f}" x2="{x:.1f}" y1="{TOP:g}" y2="{bottom:g}">{words}</line>'


def _moments(scene: TimeAxis) -> list[float]:
    step = step_of_time(scene.seconds, _MOST_TIMES)
    found: list[float] = np.arange(0.0, scene.seconds + step * _NEARLY, step).tolist()
    return found


def _times(scene: TimeAxis, bottom: float) -> Iterator[str]:
    for x, words in ((scene.x(at), moment(at)) for at in _moments(scene)):
        ends = WIDTH - RIGHT - x < LINE  # the names of lines begin there
        yield _text(WIDTH - RIGHT if ends else x, bottom + 15, words, "end" if ends else "middle")


def _faults(scene: TimeAxis) -> Iterator[str]:
    """Yield the names of what fails; of faults whose names would overlap the first, and how many more."""
    together: list[tuple[float, list[str]]] = []
    for at, node in sorted(scene.faults):
        if together and scene.x(at) - together[-1][0] < _FAULT_NAME:
            together[-1][1].append(node)
        else:
            together.append((scene.x(at), [node]))
    for x, nodes in together:
        words = f"{nodes[0]} fails" if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more fail"
        yield _text(x - 1, TOP - 3, words, "fault-name")


def _tick(tick: float, axis: _Axis, chart: Chart) -> str:
    y = axis.y(tick)
    words = chart.show(tick) if tick else "0"
    kind = "axis" if tick == axis.ticks[0] else "grid"
    line = f'<line class={kind} x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'
    return line + _text(LEFT - 8, y + 4, words, "end")


def _targets(chart: Chart, axis: _Axis) -> Iterator[str]:
    for target, _ in chart.targets:
        y = axis.y(target)
        yield f'<line class=slo x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _names(chart: Chart, axis: _Axis) -> Iterator[str]:
    """Yield the names at the ends of lines, far enough apart to be read."""
    wanted = [(axis.y(target), name, "slo-name") for target, name in chart.targets]
    for line in chart.lines:
        known = line.values[np.isfinite(line.values)]
        if line.name and len(known):
            wanted.append((axis.y(float(known[-1])), line.name, f"name {line.look}"))
    wanted.sort(key=lambda each: each[0])
    for y, (_, name, look) in zip(_apart([y for y, _, _ in wanted], TOP + chart.height), wanted, strict=True):
        yield _name(y + 4, name, look)


def _apart(wanted: Sequence[float], bottom: float) -> list[float]:
    """Return ascending heights at least a line apart, and above the bottom if there is room."""
    found: list[float] = []
    for y in wanted:
        found.append(max(y, found[-1] + LINE) if found else y)
    limit = bottom
    for place in reversed(range(len(found))):
        found[place] = min(found[place], limit)
        limit = found[place] - LINE
    return found


def _from_below(lines: Sequence[ChartLine]) -> list[ChartLine]:
    """Order the lines for drawing: areas beneath all others, and the first line on top."""
    areas = [line for line in lines if "area" in line.look]
    return [*areas, *(line for line in reversed(lines) if line not in areas)]


def _drawn(line: ChartLine, axis: _Axis, scene: TimeAxis) -> Iterator[str]:
    for run in _runs(_points(line, axis, scene)):
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in run)
        if "area" in line.look:
            floor = TOP + axis.height
            yield f'<path class="{line.look}" d="M{run[0][0]:.1f} {floor:g}L{path}L{run[-1][0]:.1f} {floor:g}Z"/>'
        else:
            dot = " dot" if len(run) == 1 else ""  # between gaps, where a line would be too short to be seen
            yield f'<path class="line{dot} {line.look}" d="M{path}h.1"/>'


def _points(line: ChartLine, axis: _Axis, scene: TimeAxis) -> Iterator[tuple[float, float] | None]:
    """Yield the pixels along a line; None where there is a gap."""
    if not line.steps:
        middles = (line.times[:-1] + line.times[1:]) / 2.0
        for at, value in zip(middles.tolist(), line.values.tolist(), strict=True):
            yield (scene.x(at), axis.y(value)) if math.isfinite(value) else None
        return
    times, values = only_changes(line.times, line.values)
    ends = [*times.tolist(), *line.times[-1:].tolist()][1:]
    for begin, end, value in zip(times.tolist(), ends, values.tolist(), strict=True):
        if math.isfinite(value):
            yield scene.x(begin), axis.y(value)
            yield scene.x(end), axis.y(value)
        else:
            yield None


def _runs(points: Iterator[tuple[float, float] | None]) -> Iterator[list[tuple[float, float]]]:
    """Yield the parts between gaps."""
    for known, group in groupby(points, key=lambda point: point is not None):
        if known:
            yield [point for point in group if point is not None]


def _mark(mark: Mark, x: float, y: float) -> str:
    words = f"<title>{escape(mark.words)}</title>"
    return f'<use href="#{mark.kind}" class="mark {mark.look}" x="{x:.1f}" y="{y:.1f}">{words}</use>'


def _name(y: float, name: str, look: str) -> str:
    """Return a name on the right of a chart; of a long one the end, which tells pools of one team apart."""
    short = name if len(name) <= _MOST_LETTERS else f"…{name[1 - _MOST_LETTERS :]}"
    return _text(WIDTH - RIGHT + 8, y, short, look, whole=name if short != name else "")


def _text(x: float, y: float, words: str, look: str, whole: str = "") -> str:
    title = f"<title>{escape(whole)}</title>" if whole else ""
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}">{escape(words)}{title}</text>'
