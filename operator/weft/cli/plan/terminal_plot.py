"""The picture of a plan in a terminal: braille dots, two across and four down in a character.

It is readable without colours: the front is a solid line with a letter for each shape, the chosen shape a dotted one.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.text import Text

from weft.cli.plan.picture import PER_GPU, PER_USER, decades
from weft.domain.texts.figures import digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.cli.plan.picture import Picture
    from weft.shaping.outlook import CurvePoint

_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # of a braille character, by column and row
_BRAILLE = 0x2800
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LEFT = 7  # columns for the figures of the vertical axis
_LEAST_WIDTH, _LEAST_ROWS, _FEWEST_COLUMNS = 24, 6, 10  # the least that is readable
_FRONT, _CHOSEN, _TARGET, _SOFT = "bright_blue", "bold green", "magenta", "dim"
_EVERY = 4  # one in so many dots is set on the chosen shape's line


@dataclass(frozen=True, slots=True)
class _Canvas:
    """Characters with dots and marks on them; x and y run from 0 to 1, y upwards."""

    columns: int
    rows: int
    dots: dict[tuple[int, int], int] = field(default_factory=dict)
    marks: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    styles: dict[tuple[int, int], str] = field(default_factory=dict)

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Return the column and the row, counted from the top, of a point."""
        return round(x * (2 * self.columns - 1)) // 2, round((1.0 - y) * (4 * self.rows - 1)) // 4

    def line(self, points: Iterable[tuple[float, float]], style: str, every: int = 1) -> None:
        """Draw a line from point to point; earlier lines keep their colour."""
        at = [(x * (2 * self.columns - 1), (1.0 - y) * (4 * self.rows - 1)) for x, y in points]
        for index, (x, y) in enumerate(_steps(at)):
            if index % every == 0 and 0 <= x < 2 * self.columns and 0 <= y < 4 * self.rows:
                cell = x // 2, y // 4
                self.dots[cell] = self.dots.get(cell, 0) | _BITS[x % 2][y % 4]
                self.styles.setdefault(cell, style)

    def row(self, row: int) -> Text:
        """Return a row as it is printed."""
        shown = Text()
        for column in range(self.columns):
            cell = column, row
            if cell in self.dots and self.marks.get(cell, ("┊", ""))[0] == "┊":
                shown.append(chr(_BRAILLE + self.dots[cell]), self.styles[cell])
            else:
                shown.append(*self.marks.get(cell, (" ", "")))
        return shown


def _steps(at: list[tuple[float, float]]) -> Iterator[tuple[int, int]]:
    """Yield every dot from point to point, without immediate repetition."""
    last = None
    for (x0, y0), (x1, y1) in pairwise(at):
        count = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
        for step in range(count + 1):
            dot = round(x0 + (x1 - x0) * step / count), round(y0 + (y1 - y0) * step / count)
            if dot != last:
                yield dot
            last = dot


def terminal_plot(picture: Picture, width: int, height: int) -> Text:
    """Draw the picture in at most `width` columns and about `height` rows; a sentence where that is impossible."""
    if not picture.front:
        return Text(f"{picture.model} makes no tokens here, so there is no curve")
    if width < _LEAST_WIDTH:
        return Text("a chart takes a wider terminal")
    names = _names(picture)
    heading = [Text(picture.model, "bold"), Text(picture.subtitle, _SOFT)]
    legend = list(_legend(picture, names, width))
    above = [Text(PER_GPU.partition(": ")[2], _SOFT)]
    rows = max(_LEAST_ROWS, height - len(heading) - len(legend) - len(above) - 3)
    canvas = _Canvas(max(_FEWEST_COLUMNS, width - _LEFT - 1), rows)
    _draw(canvas, picture, names)
    body = [*_framed(canvas, picture), *_below(canvas, picture)]
    lines = [*heading, *above, *body, *legend]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Text("\n").join(lines)


def _names(picture: Picture) -> list[tuple[str, str, CurvePoint]]:
    """Return (letter, name, point) for the shapes of the front with the longest runs, from slow users to fast ones."""
    runs = [(picture.name(shape), run[len(run) // 2]) for shape, run in picture.runs() if shape != picture.chosen]
    told = sorted(runs[: len(_LETTERS)], key=lambda each: each[1].per_user)
    return [(letter, *each) for letter, each in zip(_LETTERS, told, strict=False)]


def _draw(canvas: _Canvas, picture: Picture, names: list[tuple[str, str, CurvePoint]]) -> None:
    if picture.tpot_target is not None:
        column = canvas.cell(1.0 / picture.tpot_target[1] / picture.most_per_user, 0.0)[0]
        canvas.marks.update({(column, row): ("┊", _TARGET) for row in range(canvas.rows)})
    canvas.line((_placed(picture, point) for _, point in picture.front), _FRONT)
    for curve in picture.curves:
        if curve.shape == picture.chosen:
            canvas.line((_placed(picture, point) for point in curve.points), _CHOSEN, _EVERY)
    for letter, _, point in names:
        cell = canvas.cell(*_placed(picture, point))
        if canvas.marks.get(cell, ("┊", ""))[0] == "┊":  # of two letters in one place the slower shape's stays
            canvas.marks[cell] = (letter, f"bold {_FRONT}")
    if picture.operating is not None:
        canvas.marks[canvas.cell(*_placed(picture, picture.operating))] = ("●", _CHOSEN)


def _placed(picture: Picture, point: CurvePoint) -> tuple[float, float]:
    low, high = picture.per_gpu_range
    return point.per_user / picture.most_per_user, math.log(point.per_gpu / low) / math.log(high / low)


def _framed(canvas: _Canvas, picture: Picture) -> Iterator[Text]:
    low, high = picture.per_gpu_range
    ticks = {canvas.cell(0.0, math.log(tick / low) / math.log(high / low))[1]: tick for tick in decades(low, high)}
    for row in range(canvas.rows):
        tick = f"{digits(ticks[row])} ┤" if row in ticks else "│"
        yield Text.assemble((tick.rjust(_LEFT + 1), _SOFT), canvas.row(row))


def _below(canvas: _Canvas, picture: Picture) -> Iterator[Text]:
    """Yield the horizontal axis with a figure at each tick, and its title."""
    every = _round(picture.most_per_user / max(2, canvas.columns // 12))
    rule, figures = ["─"] * canvas.columns, [" "] * (canvas.columns + _LEFT + 1)
    for step in range(math.floor(picture.most_per_user / every) + 1):
        column, words = canvas.cell(step * every / picture.most_per_user, 0.0)[0], digits(step * every)
        begin = column + _LEFT + 1 - len(words) // 2
        if begin + len(words) <= len(figures):
            rule[column] = "┬"
            figures[begin : begin + len(words)] = words
    yield Text(" " * _LEFT + "└" + "".join(rule), _SOFT)
    yield Text("".join(figures).rstrip(), _SOFT)
    yield Text(" " * (_LEFT + 1) + PER_USER.partition(": ")[2], _SOFT)


def _round(step: float) -> float:
    """Return the next larger of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step)


def _legend(picture: Picture, names: list[tuple[str, str, CurvePoint]], width: int) -> Iterator[Text]:
    """Explain the marks, each in as many lines as it takes."""
    mark = "●" if picture.operating is not None else "⠂"
    yield from _wrapped(f"{mark} {picture.name(picture.chosen)}: {', '.join(picture.chosen_words)}", width, _CHOSEN)
    if picture.tpot_target is not None:
        beyond = 1.0 / picture.tpot_target[1] > picture.most_per_user
        yield from _wrapped(f"┊ {picture.target_words}{', beyond this chart' if beyond else ''}", width, _TARGET)
    found = "  ".join(f"{letter} {name}".replace(" ", "\N{NO-BREAK SPACE}") for letter, name, _ in names)
    yield from _wrapped(f"━ Pareto front  {found}", width, _FRONT)


def _wrapped(words: str, width: int, style: str) -> Iterator[Text]:
    for line in textwrap.wrap(words, width, subsequent_indent="  ", break_on_hyphens=False):
        yield Text(line.replace("\N{NO-BREAK SPACE}", " "), style)
