"""What a picture of a plan shows, before anything draws it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.pictures import curve, deepseek, llama, out_of_reach, shape
from tests.shaping.cases import B200, CATALOG, H200, Wish
from weft.cli.plan.picture import decades, envelope, finer, picture_of
from weft.cli.plan.placing_labels import Box, Label, Obstacles, Placed, placed

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.cli.plan.picture import Picture

NOWHERE = np.empty((0, 2))
PAGE = Box(0.0, 0.0, 200.0, 120.0)


def test_the_operating_point_lies_on_the_curve_of_the_chosen_shape() -> None:
    """Capacity is found by search and curves batch by batch: they are one model."""
    picture = llama()
    points = next(each.points for each in picture.curves if each.shape == picture.chosen)[::-1]
    assert picture.operating is not None
    rate = np.interp(picture.operating.per_user, [p.per_user for p in points], [p.per_gpu for p in points])
    assert rate == pytest.approx(picture.operating.per_gpu, rel=0.01)


def test_the_operating_point_is_on_the_good_side_of_the_target() -> None:
    picture = llama()
    assert picture.operating is not None
    assert picture.operating.per_user > 1.0 / 0.05


def test_where_nothing_meets_the_slo_there_is_no_operating_point() -> None:
    assert out_of_reach().operating is None
    assert ("misses the SLO, as all do",) == out_of_reach().chosen_words


@pytest.mark.parametrize("picture", [llama, deepseek], ids=["llama", "deepseek"])
def test_no_curve_is_above_the_front(picture: Callable[[], Picture]) -> None:
    front = picture().front[::-1]
    speeds, rates = [p.per_user for _, p in front], [p.per_gpu for _, p in front]
    for each in picture().curves:
        for point in each.points:
            assert point.per_gpu <= 1.02 * np.interp(point.per_user, speeds, rates, right=np.inf)


def test_the_front_changes_shape_where_curves_cross() -> None:
    """Of the computed points alone it would have been one of the two on the wrong side."""
    slow, fast = curve(2, (50.0, 0.01), (1.0, 98.0)), curve(4, (100.0, 0.01), (1.0, 49.5))
    front = envelope((slow, fast))
    turns = [at.per_user for (one, _), (other, at) in pairwise(front) if one != other]
    assert [pytest.approx(100.0 / 3.0, abs=0.3)] == turns  # where 100 - 2 x = 50 - x / 2
    assert shape(4) == front[0][0]
    assert shape(2) == front[-1][0]


def test_the_front_only_rises_as_users_get_slower() -> None:
    """A shape whose slowest user is fast leaves a gap that the front bridges without going down."""
    front = envelope((curve(2, (80.0, 10.0), (60.0, 90.0)), curve(4, (70.0, 5.0), (10.0, 120.0))))
    rates = [point.per_gpu for _, point in front]
    assert sorted(rates) == rates


@given(st.lists(st.floats(1.05, 4.0), min_size=3, max_size=12), st.lists(st.floats(1.05, 4.0), min_size=3, max_size=12))
def test_a_finer_curve_has_the_computed_points_and_no_waves(falls: list[float], rises: list[float]) -> None:
    count = min(len(falls), len(rises))
    users, gpus = 1000.0 / np.cumprod(falls[:count]), np.cumprod(rises[:count])
    points = finer(curve(2, *zip(users.tolist(), gpus.tolist(), strict=True))).points
    assert users == pytest.approx([point.per_user for point in points[::6]])
    assert gpus == pytest.approx([point.per_gpu for point in points[::6]])
    assert (np.diff([point.per_user for point in points]) < 0.0).all()
    assert (np.diff([point.per_gpu for point in points]) > 0.0).all()


def test_what_all_shapes_share_is_said_once() -> None:
    picture = llama()
    assert "ISL 1000 / OSL 200 tokens" in picture.subtitle
    assert picture.subtitle.endswith("H200 BF16")
    assert f"TP{picture.chosen.tensor_parallel}" == picture.name(picture.chosen)


def test_where_accelerators_differ_each_name_has_its_own() -> None:
    picture = picture_of(Wish(supplies=(H200, B200)).request(), CATALOG)
    assert "200" not in picture.subtitle.partition("tokens")[2].replace("OSL 200", "")
    assert str(picture.chosen) == picture.name(picture.chosen)


def test_a_target_far_beyond_does_not_make_the_curves_small() -> None:
    fastest = max(point.per_user for _, point in out_of_reach().front)
    assert out_of_reach().most_per_user < 1.2 * fastest


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (8.0, 130.0, (10.0, 20.0, 50.0, 100.0)),
        (2.5, 4000.0, (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)),
        (0.5, 6e6, (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)),
    ],
    ids=["a decade", "three decades", "seven decades"],
)
def test_ticks_are_round_and_few(low: float, high: float, ticks: tuple[float, ...]) -> None:
    assert ticks == decades(low, high)


@given(st.lists(st.tuples(st.floats(10, 190), st.floats(10, 110), st.floats(8, 90)), min_size=1, max_size=12))
def test_labels_stay_in_the_frame_and_off_each_other(wished: list[tuple[float, float, float]]) -> None:
    labels = tuple(Label(((x, y),), width, 13.0) for x, y, width in wished)
    found = [each.box for each in placed(labels, Obstacles(PAGE, NOWHERE, NOWHERE)) if each is not None]
    assert found
    assert all(box.lies_in(PAGE) for box in found)
    assert not any(one.overlaps(other) for index, one in enumerate(found) for other in found[:index])


def test_a_label_covers_no_strong_line_and_few_quiet_ones() -> None:
    """Above the anchor is a strong line, right of it quiet ones: what is left is free."""
    strong = np.array([[float(x), 70.0] for x in range(200)])
    quiet = np.array([[float(x), float(y)] for x in range(100, 200) for y in range(0, 69, 3)])
    place = placed((Label(((95.0, 60.0),), 50.0, 13.0),), Obstacles(PAGE, strong, quiet))[0]
    assert isinstance(place, Placed)
    assert (0, 0) == (place.box.count(strong), place.box.count(quiet))
    assert place.box.top < 70.0


def test_a_label_that_costs_more_than_it_is_worth_is_left_out() -> None:
    crowd = np.array([[float(x), float(y)] for x in range(200) for y in range(120)])
    must, may = Label(((100.0, 60.0),), 40.0, 13.0), Label(((100.0, 60.0),), 40.0, 13.0, worth=20.0)
    found = placed((must, may), Obstacles(PAGE, NOWHERE, crowd))
    assert [True, False] == [each is not None for each in found]
