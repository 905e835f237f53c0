"""Nodes of most of both halves go away in mid-roll: both keep replicas of the same pair until successors serve."""

from __future__ import annotations

from random import Random

import pytest

from tests.decide.loaded import Loaded, loaded_split
from tests.decide.test_counted_on import capacity
from tests.decide.test_last_to_serve import give_notice
from weft.decide.rollouts.lasting import keep_the_last, pairs_that_last
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutSpec
from weft.domain.status import Assignment
from weft.placement import Departure

HALVES = ("pd-prefill", "pd-decode")
GOES = Explanation(Reason.NodeReclaimed, "the cloud takes its node")
NOTICED = 100.0


def departure(replica: int, *, seconds: float | None = None, since: float = 0.0, alone: bool = False) -> Departure:
    """One that serves for so many seconds; None: for longer than anybody looks ahead."""
    at = Assignment(replica, "", (f"n-{replica}",), 8, since)
    if seconds is None:
        return Departure(at, ready=True, outdated=False, alone=alone)
    return Departure(at, ready=True, outdated=False, displaced=GOES, urgent=True, serves_seconds=seconds, alone=alone)


def in_mid_roll(counts: tuple[int, int], turns: int) -> Loaded:
    here = loaded_split(counts, 16, RolloutSpec(), (0.5, 0.5))
    here.change("2")
    here.turn(turns)
    return here


def test_the_pair_that_serves_longest_is_as_long_as_its_half_that_goes_first() -> None:
    short, long, for_ever = departure(0, seconds=30.0), departure(1, seconds=90.0), departure(2)
    assert ["2", "1"] == pairs_that_last([{"1": [for_ever], "2": [long]}, {"1": [short], "2": [long]}])
    assert ["1", "2"] == pairs_that_last([{"1": [for_ever], "2": [long]}, {"1": [long], "2": [long]}])
    assert ["1"] == pairs_that_last([{"1": [long], "2": [for_ever]}, {"1": [long]}])
    assert ["1"] == pairs_that_last([{"1": [long], "2": [departure(3, seconds=90.0, alone=True)]}] * 2)


def test_one_that_serves_for_long_is_nobody_where_the_other_half_keeps_another_pair() -> None:
    """The pair of replica 0 lasts as long as its decode replica, which is less than that of replica 1."""
    stays, goes = departure(0), departure(1, seconds=90.0)
    assert [False, True] == [each.lasts for each in keep_the_last([stays, goes], 1, NOTICED, {0: 1, 1: 0})]
    assert [False, False] == [each.lasts for each in keep_the_last([stays, goes], 1, NOTICED, {0: 0, 1: 1})]
    assert [False, True] == [each.lasts for each in keep_the_last([stays, goes], 1, NOTICED, {1: 0})]
    assert [False, False] == [each.lasts for each in keep_the_last([stays, goes], 1, NOTICED)]


def test_the_only_two_prefill_replicas_of_two_pairs_get_a_notice_and_decode_keeps_the_pair_that_prefill_keeps() -> None:
    here = in_mid_roll((1, 1), 4)
    give_notice(here.world, *(node for nodes in here.world.nodes_of("pd-prefill") for node in nodes))
    for _ in range(12):
        here.turn()
        assert capacity(here) > 0.0
    assert here.is_through()


@pytest.mark.parametrize("seed", range(40))
def test_something_serves_however_many_nodes_of_a_split_get_a_notice_in_mid_roll(seed: int) -> None:
    chance = Random(seed)
    counts = chance.randint(1, 3), chance.randint(1, 3)
    here = in_mid_roll(counts, chance.randint(1, 7))
    nodes = [node for name in HALVES for held in here.world.nodes_of(name) for node in held]
    give_notice(here.world, *chance.sample(nodes, chance.randint(1, len(nodes))))
    for _ in range(8):
        here.turn()
        assert capacity(here) > 0.0
