"""The picture of a plan as a file."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from tests.cli.pictures import deepseek, llama, out_of_reach, prefill
from weft.cli.ends.failure import INPUT_IS_WRONG, CommandFailure
from weft.cli.plan import plotting
from weft.cli.plan.plotting import file_ending, write_plot

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.text import Text

    from weft.cli.plan.picture import Picture

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(params=[llama, deepseek], ids=["llama", "deepseek"])
def picture(request: pytest.FixtureRequest) -> Picture:
    """One with few shapes, and one with many."""
    found: Picture = request.param()
    return found


def drawn(picture: Picture, folder: Path, name: str = "plan.svg") -> str:
    write_plot(picture, folder / name)
    return (folder / name).read_text(encoding="utf-8")


def texts(svg: str) -> set[str]:
    """The texts of axes and heading: beside its outlines each stands as a comment."""
    return set(re.findall(r"<!-- (.*?) -->", svg))


def named(picture: Picture) -> dict[str, Text]:
    """The labels of shapes, as they lie on the page."""
    figure = plotting._figure(picture)
    return {str(each.get_gid()): each for each in figure.axes[0].texts if str(each.get_gid()).startswith(("la", "de"))}


def faster(picture: Picture, times: float) -> Picture:
    """So many times the tokens of every GPU, at the same speed of a user."""
    front = [(shape, replace(point, per_gpu=times * point.per_gpu)) for shape, point in picture.front]
    return replace(picture, front=tuple(front), operating=None)


def test_axes_have_units_and_the_title_says_what_it_is(picture: Picture, tmp_path: Path) -> None:
    found = texts(drawn(picture, tmp_path))
    assert "interactivity: output tokens/s per user (1 / mean TPOT)" in found
    assert "throughput: output tokens/s per GPU" in found
    assert {picture.model, picture.subtitle} <= found
    assert "ISL 1000 / OSL 200 tokens" in picture.subtitle
    assert "VLLM" in picture.subtitle


def test_the_chosen_shape_is_named_with_what_it_does(picture: Picture, tmp_path: Path) -> None:
    """In its label, and in the description that a screen reader reads out."""
    svg, shape = drawn(picture, tmp_path), picture.name(picture.chosen)
    assert {shape, *picture.chosen_words} <= {text.get_text() for text in named(picture).values()}
    assert f'id="label-{shape.replace(" ", "-")}"' in svg
    assert f"chosen: {shape}, {', '.join(picture.chosen_words)}" in svg
    assert 'id="operating-point"' in svg
    assert 'id="front"' in svg
    assert 'id="chosen"' in svg


def test_the_target_is_a_line_with_its_value_and_what_misses_it_is_shaded(tmp_path: Path) -> None:
    svg = drawn(llama(), tmp_path)
    assert "TPOT target: p95 within 50 ms (20 tokens/s)" in texts(svg)
    assert 'id="target"' in svg
    assert 'id="missed"' in svg


def test_a_target_beyond_the_axis_shades_all_and_is_still_told(tmp_path: Path) -> None:
    svg = drawn(out_of_reach(), tmp_path)
    assert "TPOT target: p95 within 1 ms (1000 tokens/s) →" in texts(svg)
    assert 'id="target"' not in svg
    assert 'id="operating-point"' not in svg
    assert "chosen: TP8, misses the SLO, as all do" in svg


def test_every_other_shape_is_a_quiet_line(tmp_path: Path) -> None:
    picture = deepseek()
    assert len(picture.curves) - 1 == len(re.findall(r'id="candidate-', drawn(picture, tmp_path)))


def test_labels_do_not_overlap_and_stay_on_the_page(picture: Picture) -> None:
    found = named(picture)
    boxes = {name: text.get_window_extent() for name, text in found.items() if name.startswith("label")}
    assert len(boxes) >= 3
    assert [] == [(one, other) for one, other in combinations(boxes, 2) if boxes[one].overlaps(boxes[other])]
    assert all(0.0 <= box.x0 < box.x1 <= 720.0 and 0.0 <= box.y0 < box.y1 <= 446.4 for box in boxes.values())


@pytest.mark.parametrize(("times", "tick"), [(20.0, "10,000"), (200.0, "100,000")])
def test_the_names_of_the_axes_stay_on_the_page_beside_long_ticks(times: float, tick: str) -> None:
    """A small model makes that many tokens a second on one GPU."""
    figure = plotting._figure(faster(llama(), times))
    figure.canvas.draw()
    (axes,) = figure.axes
    assert tick in [text.get_text() for text in axes.get_yticklabels()]
    assert axes.yaxis.label.get_window_extent().x0 >= 0.0
    assert axes.xaxis.label.get_window_extent().y0 >= 0.0


def test_of_many_shapes_only_the_chosen_and_those_of_the_front_are_named() -> None:
    picture = deepseek()
    on_the_front = {picture.name(shape) for shape, _ in picture.front} | {picture.name(picture.chosen)}
    labels = {text.get_text() for name, text in named(picture).items() if name.startswith("label")}
    assert labels <= on_the_front
    assert 5 <= len(labels) <= 12


def test_the_same_picture_is_the_same_bytes_without_a_date(tmp_path: Path) -> None:
    for name in ("one.svg", "other.svg", "one.png", "other.png"):
        write_plot(llama(), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "other.png").read_bytes()
    assert "dc:date" not in (tmp_path / "one.svg").read_text(encoding="utf-8")


def test_a_dark_page_has_a_colour_for_each_colour_of_a_light_one(tmp_path: Path) -> None:
    """Else a text would be dark on dark there."""
    svg = drawn(llama(), tmp_path)
    light, _, dark = svg.partition("prefers-color-scheme: dark")
    used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", light))
    assert used
    assert used <= set(re.findall(r": (#[0-9a-f]{6})", dark))


@pytest.mark.parametrize("name", ["plan.png", "plan.PNG"])
def test_a_png_is_one(name: str, tmp_path: Path) -> None:
    write_plot(llama(), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(PNG)


@pytest.mark.parametrize("name", ["plan.pdf", "plan", "svg"])
def test_another_ending_is_refused_with_those_that_are_allowed(name: str, tmp_path: Path) -> None:
    """Before anything is computed for it."""
    with pytest.raises(CommandFailure, match=r"ends with \.svg or \.png") as refused:
        file_ending(tmp_path / name)
    assert INPUT_IS_WRONG == refused.value.exit_code
    with pytest.raises(CommandFailure):
        write_plot(llama(), tmp_path / name)
    assert [] == list(tmp_path.iterdir())


def test_without_matplotlib_it_says_what_to_install_and_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "plan.svg"
    kept.write_text("earlier", encoding="utf-8")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CommandFailure, match=r"install weft\[plot\]") as refused:
        write_plot(llama(), kept)
    assert INPUT_IS_WRONG == refused.value.exit_code
    assert "earlier" == kept.read_text(encoding="utf-8")
    assert [kept] == list(tmp_path.iterdir())


def test_what_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(CommandFailure, match="it is a folder"):
        write_plot(llama(), tmp_path / "folder.svg")
    with pytest.raises(CommandFailure, match="there is no such folder"):
        write_plot(llama(), tmp_path / "nowhere" / "plan.svg")
    assert [tmp_path / "folder.svg"] == list(tmp_path.iterdir())


def test_a_write_that_fails_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full at the last moment."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    kept = tmp_path / "plan.svg"
    kept.write_text("earlier", encoding="utf-8")
    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(CommandFailure, match="No space left on device"):
        write_plot(llama(), kept)
    assert "earlier" == kept.read_text(encoding="utf-8")
    assert [kept] == list(tmp_path.iterdir())


def test_a_pool_that_only_prefills_has_no_picture(tmp_path: Path) -> None:
    with pytest.raises(CommandFailure, match="no curve"):
        write_plot(prefill(), tmp_path / "plan.svg")


def test_weft_loads_no_matplotlib_until_it_draws() -> None:
    """It need not be installed."""
    check = (
        "import sys, weft.cli.main, weft.cli.plan.plotting, weft.cli.plan.terminal_plot; "
        "print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True, timeout=50)
    assert "False\n" == done.stdout
