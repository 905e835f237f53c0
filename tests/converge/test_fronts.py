"""How many routers stand before each generation of a split while two of them serve."""

from __future__ import annotations

import pytest

from weft.converge.generations import Generation, fronts_wanted
from weft.converge.split_routing import Routing

NONE, ONE = (0, 0), (1, 1)
# An earlier pair of which only decode answers for now, though both of its replicas are to stay.
BLINKS = Generation("o", (0, 1), (0, 1), ONE)


@pytest.mark.parametrize(
    ("serving", "usual", "routers"),
    [
        ((1, 1), 2, (2, 2)),
        ((1, 2), 2, (1, 2)),
        ((2, 1), 1, (2, 1)),
        ((3, 1), 2, (3, 1)),
        ((1, 3), 1, (1, 3)),
        ((4, 1), 2, (3, 1)),
        ((9, 1), 2, (4, 1)),
        ((3, 3), 6, (6, 6)),
    ],
)
def test_routers_are_in_proportion_to_what_serves_and_no_more_than_tell_it(
    serving: tuple[int, int], usual: int, routers: tuple[int, int]
) -> None:
    """Each router that stood for a moment drains for as long as any, and keeps its generation for that time."""
    new, old = (Generation(pair, (n, n), (n, n), (n, n)) for pair, n in zip("no", serving, strict=True))
    assert fronts_wanted((new, old), usual, taken_over=True) == dict(zip("no", routers, strict=True))


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_pair_that_is_to_stay_keeps_its_front_while_one_half_does_not_answer(*, taken_over: bool) -> None:
    """To start it anew would take longer than what ails the half; one without a replica that stays keeps none."""
    new = Generation("n", NONE, NONE, NONE)
    assert fronts_wanted((new, BLINKS), 2, taken_over=taken_over) == {"n": 2, "o": 2}
    leaves = Generation("o", NONE, (0, 1), (0, 1))
    assert fronts_wanted((new, leaves), 2, taken_over=taken_over) == {"n": 2}


def test_a_front_behind_which_half_a_pair_answers_does_not_take_the_service_from_one_that_serves() -> None:
    known = (Generation("n", ONE, ONE, ONE), BLINKS)
    routers = fronts_wanted(known, 2, taken_over=True)
    assert set(routers) == {"n", "o"}
    assert Routing(known, routers, {"n": None, "o": None}).only == "n"


def test_two_pairs_that_serve_keep_the_service_to_themselves() -> None:
    """It cannot choose two fronts of three: that of a third pair, which does not answer, goes."""
    known = (Generation("n", ONE, ONE, ONE), BLINKS, Generation("p", ONE, ONE, ONE))
    routers = fronts_wanted(known, 2, taken_over=True)
    assert set(routers) == {"n", "p"}
    assert Routing(known, routers, dict.fromkeys("nop", None)).only == ""


def test_a_current_generation_that_is_no_pair_gets_its_front_later_than_two_that_serve() -> None:
    """Beside one that serves it comes before its engines do, and beside two with them."""
    earlier = Generation("o", ONE, ONE, ONE), Generation("p", ONE, ONE, ONE)
    starts, answers = (Generation("n", each, each, ONE) for each in (NONE, ONE))
    assert fronts_wanted((starts, earlier[0]), 2, taken_over=True) == {"n": 2, "o": 2}
    assert fronts_wanted((starts, *earlier), 2, taken_over=True) == {"o": 2, "p": 2}
    assert fronts_wanted((answers, *earlier), 2, taken_over=True) == {"n": 2, "o": 2, "p": 2}
