"""The passes of a split and of its halves come in any order: no router that the Service chooses loses half its pair.

Rule S6 of docs/rules.md, after every single write.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.holding.cluster import boards
from tests.holding.pairs import Pair, split_body
from tests.holding.test_edits_in_mid_roll import edited_again
from tests.holding.test_generations import newer


@dataclass
class Ordered(Pair):
    """`order` has a letter for each pass of a turn: it decides, and converges the split and its children."""

    order: str = "dsc"
    watched: bool = False
    were_pairs: set[str] = field(default_factory=set)

    def turn(self, turns: int = 1, seconds: float = 5.0) -> None:
        for _ in range(turns):
            self.cluster.now += seconds
            for each in self.order:
                self._pass(each)
            self.go_on()

    def _pass(self, which: str) -> None:
        if which == "d":
            self.decide()
        elif which == "s":
            self.converge_the_split()
        else:
            for name in list(self.bodies):
                self.converge(name)

    def _count(self) -> None:
        super()._count()
        if self.watched:
            assert not [pair for pair in self.routers() if pair in self.were_pairs and not self.is_pair(pair)]
            self.were_pairs |= {pair for pair in self.pairs() if self.is_pair(pair)}


def with_two_fronts(counts: tuple[int, int], order: str) -> Ordered:
    """A generation serves, and the next one is a pair behind the Service, too."""
    world = Ordered.on(boards(4), split_body(*counts))
    world.turn(12)
    newer(world)
    while len(world.routers()) < 2:
        world.turn(1, seconds=2.0)
    world.order, world.watched = order, True
    return world


@pytest.mark.parametrize("order", ["dsc", "dcs", "scd", "csd"])
@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (1, 3)])
def test_a_generation_that_an_edit_skips_keeps_a_pair_for_as_long_as_its_routers_are_chosen(
    counts: tuple[int, int], order: str
) -> None:
    world = with_two_fronts(counts, order)
    edited_again(world, 32)
    world.turn(30)
    assert 1 == len(world.pairs())


@pytest.mark.parametrize("order", ["dsc", "dcs", "scd", "csd"])
@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (1, 3)])
def test_so_does_one_that_a_second_edit_asks_for_again(counts: tuple[int, int], order: str) -> None:
    world = with_two_fronts(counts, order)
    edited_again(world, 32)
    world.turn()
    edited_again(world, 64)
    world.turn(30)
    assert 1 == len(world.pairs())


def test_the_last_pair_behind_routers_that_end_outlives_a_missed_probe_of_its_successor() -> None:
    """Routers take as long as their streams do; the successor has its place already and needs no GPUs of theirs."""
    world = Ordered.on(boards(4), split_body(1, 1))
    world.ending_turns = 20
    world.turn(12)
    (old,) = world.pairs()
    newer(world)
    while not world.going:
        world.turn()
    (new,) = world.pairs() - {old}
    (decode,) = world.engines("decode", new)
    world.cluster.stumble(decode)
    world.turn(2)
    assert world.is_pair(old)
    assert 1.0 == world.within_reach()
    world.cluster.stumble(decode, ready=True)
    world.turn(60)
    assert {new} == world.pairs()
