"""Charts of `weft simulate`: what is drawn of lines that end apart."""

from __future__ import annotations

import re

import numpy as np

from weft.cli.simulate.charts import RIGHT, WIDTH, Chart, ChartLine, TimeAxis, chart_svg, marks_svg

SCENE = TimeAxis(100.0)


def test_what_a_policy_holds_is_drawn_until_its_own_end() -> None:
    """One that is done at 40 s holds nothing for the minute that another goes on for."""
    short = ChartLine(np.array([0.0, 20.0, 40.0]), np.array([2.0, 3.0, 3.0]), "p0", steps=True)
    long = ChartLine(np.array([0.0, 100.0]), np.array([5.0, 5.0]), "p1", steps=True)
    drawn = chart_svg(Chart((short, long)), SCENE, "GPUs")
    ends = {
        look: path.split("L")[-1].split()[0] for look, path in re.findall(r'class="line (p\d)" d="M([^"]+)"', drawn)
    }
    assert {"p0": f"{SCENE.x(40.0):.1f}", "p1": f"{SCENE.x(100.0):.1f}"} == ends


def test_a_line_without_values_draws_nothing() -> None:
    nothing = ChartLine(np.zeros(0), np.zeros(0), "p0", steps=True)
    assert "p0" not in chart_svg(Chart((nothing,)), SCENE, "GPUs")


def test_the_last_time_of_an_axis_ends_where_names_of_lines_begin() -> None:
    line = ChartLine(np.array([0.0, 100.0]), np.array([5.0, 5.0]), "p1", name="weft", steps=True)
    drawn = chart_svg(Chart((line,)), SCENE, "GPUs")
    times = re.findall(r'<text class="(\w+)" x="([\d.]+)" y="154.0"', drawn)
    assert ("middle", f"{SCENE.x(0.0):.1f}") == times[0]
    assert ("end", f"{WIDTH - RIGHT:.1f}") == times[-1]


def test_a_name_that_is_too_long_for_the_page_keeps_its_end_and_is_whole_where_the_pointer_rests() -> None:
    drawn = marks_svg([("summaries-of-contracts", ""), ("chat", "")], [], SCENE, "Reasons")
    assert ">…-of-contracts<title>summaries-of-contracts</title></text>" in drawn
    assert ">chat</text>" in drawn


def test_a_point_between_gaps_is_a_dot_that_can_be_seen() -> None:
    times, values = np.linspace(0.0, 100.0, 6), np.array([1.0, np.nan, 2.0, 3.0, np.nan])
    drawn = chart_svg(Chart((ChartLine(times, values, "p0"),)), SCENE, "TTFT")
    assert 1 == drawn.count('class="line dot p0"')
    assert 1 == drawn.count('class="line p0"')


def test_names_of_faults_that_would_overlap_are_one_name() -> None:
    line = ChartLine(np.array([0.0, 100.0]), np.array([5.0, 5.0]), "p1", steps=True)
    faults = ((90.0, "d"), (0.0, "b"), (0.0, "a"), (3.0, "c"))
    drawn = chart_svg(Chart((line,), first=True), TimeAxis(100.0, faults=faults), "Requests")
    assert ["a and 2 more fail", "d fails"] == re.findall(r'class="fault-name"[^>]*>([^<]+)<', drawn)
