"""The picture of a plan in a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from tests.cli.pictures import deepseek, llama, out_of_reach, prefill
from weft.cli.fabric.page import FREE, LOST, PROMISED, SPARE, USED
from weft.cli.plan.terminal_plot import terminal_plot
from weft.cli.telling.plain_marks import PLAIN_MARKS

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.cli.plan.picture import Picture


def lines(picture: Picture, width: int = 100, height: int = 28) -> list[str]:
    return terminal_plot(picture, width, height).plain.splitlines()


@pytest.mark.parametrize("width", [1, 10, 24, 30, 41, 80, 200])
@pytest.mark.parametrize("picture", [llama, deepseek, out_of_reach], ids=lambda picture: picture.__name__)
def test_it_fits_the_width(picture: Callable[[], Picture], width: int) -> None:
    shown = lines(picture(), width)
    if width >= 24:
        assert all(cell_len(line) <= width for line in shown)
        assert len(shown) > 10
    else:
        assert ["a chart takes a wider terminal"] == shown


@pytest.mark.parametrize("height", [18, 24, 40])
def test_it_has_the_height_that_is_given(height: int) -> None:
    assert height == len(lines(llama(), 100, height))


def test_axes_have_ticks_and_units() -> None:
    shown = lines(llama())
    assert "output tokens/s per GPU" in shown
    assert "output tokens/s per user (1 / mean TPOT)" in {line.strip() for line in shown}
    ticks = [int(line.partition("┤")[0]) for line in shown if "┤" in line]
    assert ticks == sorted(ticks, reverse=True)
    assert len(ticks) >= 4
    assert {"1", "2", "5"} >= {str(tick).rstrip("0") for tick in ticks}
    assert ["0", "20", "40", "60", "80", "100"] in [line.split() for line in shown]


def test_the_chosen_point_is_where_its_figures_say() -> None:
    """Between the ticks around its tokens a second per GPU and per user, which are 20 apart."""
    shown, point = lines(llama()), llama().operating
    assert point is not None
    row = next(index for index, line in enumerate(shown) if "●" in line)
    ticks = {int(line.partition("┤")[0]): index for index, line in enumerate(shown) if "┤" in line}
    columns = [index for index, each in enumerate(next(line for line in shown if "└" in line)) if each == "┬"]
    above = min(tick for tick in ticks if tick >= point.per_gpu)
    below = max(tick for tick in ticks if tick <= point.per_gpu)
    assert ticks[above] <= row <= ticks[below]
    left = int(point.per_user // 20)
    assert columns[left] <= shown[row].index("●") <= columns[left + 1]


def test_the_legend_names_the_chosen_shape_the_target_and_the_front() -> None:
    shown = " ".join(line.strip() for line in lines(deepseek()))
    picture = deepseek()
    assert f"● {picture.name(picture.chosen)}: {', '.join(picture.chosen_words)}" in shown
    assert "┊ TPOT target: p95 within 50 ms (20 tokens/s)" in shown
    assert all(f" {picture.name(each)}" in shown for each, _ in picture.runs())


def test_each_letter_of_the_legend_is_on_the_front() -> None:
    shown = lines(deepseek(), 120, 40)
    chart = "".join(line for line in shown if "┤" in line or "│" in line)
    legend = " ".join(shown[shown.index(next(line for line in shown if "Pareto front" in line)) :])
    letters = re.findall(r"\b([A-Z]) +TP", legend)
    assert len(letters) >= 4
    assert letters == [letter for letter in letters if chart.count(letter) == 1]


def test_the_target_is_a_line_from_top_to_bottom_and_absent_without_one() -> None:
    chart = [line for line in lines(llama()) if "┤" in line or "│" in line]
    column = chart[0].index("┊")
    assert sum(line[column : column + 1] == "┊" for line in chart) >= len(chart) - 2
    assert "┊" not in "".join(lines(replace(llama(), tpot_target=None)))


def test_a_target_beyond_the_axis_is_told() -> None:
    assert any("beyond this chart" in line for line in lines(out_of_reach()))


def test_a_pool_that_only_prefills_has_a_sentence_instead() -> None:
    assert "no curve" in lines(prefill())[0]


def test_each_mark_has_one_of_its_own_without_unicode() -> None:
    """The legend would explain two marks by one otherwise."""
    shown = "".join(lines(deepseek(), 120, 40))
    used = sorted({each for each in shown if not each.isascii() and each not in "·…" and ord(each) < 0x2800})
    plain = [each.encode("ascii", PLAIN_MARKS) for each in used]
    assert b"?" not in plain
    assert len({*"┊●━"} & {*used}) == len({each.encode("ascii", PLAIN_MARKS) for each in "┊●━"}) == 3
    marks = [USED, PROMISED, FREE, SPARE, LOST]
    assert len(marks) == len({each.encode("ascii", PLAIN_MARKS) for each in marks} - {b"?"})
