"""What is scarce goes first to traffic that is there, then to what pools want beside it, each time to who has least."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decide.limited import GPUS, desired, limited
from tests.decide.test_splits import split
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.decide.counting.rounds import fill_of, in_rounds
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.decide.counting.rounds import Fill

BOARDS = 4


def capacity() -> float:
    """Requests per second that one replica of these pools serves."""
    world = World.of([board("b-0")], pool("one", pool_spec(8)))
    world.turn()
    plan = world.status("one").plan
    assert plan is not None
    return plan.prediction.capacity


CAPACITY = capacity()


def busy(world: World, name: str, replicas: float, waiting: float = 0.0) -> None:
    """Traffic that keeps so many replicas busy, as all of the ready ones tell it."""
    ready = max(1, world.serving(name))
    world.observations[world.pools[name].key.uid] = seen(replicas * CAPACITY, ready, waiting=waiting)


def placed(world: World, *names: str) -> tuple[int, ...]:
    return tuple(len(world.status(name).assignments) for name in names)


def short(first: float | None, second: float | None, waiting: float = 0.0) -> World:
    """Two pools that want three boards each, of which there are four; both have one, and traffic for so many."""
    world = World.of(
        [board("b-0"), board("b-1")], pool("older", pool_spec(8, external(1))), pool("newer", pool_spec(8))
    )
    world.turn(5)
    assert (1, 1) == placed(world, "older", "newer")
    world.nodes += [board("b-2"), board("b-3")]
    for name, replicas in (("older", first), ("newer", second)):
        spec = world.pools[name].spec
        assert spec is not None
        world.edit(name, replace(spec, scaling=external(3)))
        if replicas is not None:
            busy(world, name, replicas, waiting)
    world.now += 5.0
    world.decide()
    return world


def test_traffic_that_is_there_comes_before_what_somebody_wants_to_have_ready() -> None:
    assert (1, 3) == placed(short(0.5, 2.9), "older", "newer")
    assert (3, 1) == placed(short(2.9, 0.5), "older", "newer")


@pytest.mark.parametrize(("first", "second"), [(2.9, 2.9), (0.5, 0.5), (None, None), (None, 2.9)])
def test_who_needs_as_much_gets_as_much(first: float | None, second: float | None) -> None:
    """Of a pool that nobody measures all that it wants counts."""
    assert (2, 2) == placed(short(first, second), "older", "newer")


def test_what_a_full_pool_answers_is_no_measure_of_what_it_needs() -> None:
    assert (2, 2) == placed(short(0.9, 2.9, waiting=50.0), "older", "newer")


def test_the_fewest_that_a_user_declares_are_needed_whatever_is_measured() -> None:
    declared = ScalingSpec(min_replicas=3, max_replicas=3)
    world = World.of([board(f"b-{index}") for index in range(BOARDS)], pool("busy", pool_spec(8, external(3))))
    world.pools["quiet"] = pool("quiet", pool_spec(8, declared))
    world.now += 5.0
    busy(world, "quiet", 0.1)
    busy(world, "busy", 2.9)
    world.decide()
    assert (2, 2) == placed(world, "busy", "quiet")


def test_what_a_quota_leaves_is_shared_out_by_the_same_rule() -> None:
    world = limited(8, {GPUS: 32}, pool("older", pool_spec(8, external(3))), pool("newer", pool_spec(8, external(3))))
    busy(world, "older", 0.5)
    busy(world, "newer", 2.9)
    world.turn()
    assert (1, 3) == desired(world, "older", "newer")


def test_a_split_stands_where_the_half_of_it_that_needs_most_does() -> None:
    """One of its halves lacks what its traffic needs, so that it comes before a pool that lacks nothing yet."""
    sides = [pool_spec(8, external(2), role=role) for role in (Role.Prefill, Role.Decode)]
    world = World.of([board(f"b-{index}") for index in range(BOARDS)], pool("alone", pool_spec(8, external(4))))
    world.splits["pd"] = split(sides[0], sides[1])
    for side in sides:
        name = f"pd-{side.role.value.lower()}"
        world.pools[name] = pool(name, side, split_uid="uid-pd")
    busy(world, "alone", 0.5)
    world.now += 5.0
    world.decide()
    assert (1, 3) == (placed(world, "alone")[0], sum(placed(world, "pd-prefill", "pd-decode")))


class Pool:
    """Takes replicas while there are any."""

    cost = 1.0

    def __init__(self, needed: int, want: int, left: list[int]) -> None:
        self.have, self.needed, self.want, self.left = 0, min(needed, want), want, left

    @property
    def fill(self) -> Fill:
        return fill_of(self.have, self.needed, self.want)

    def advance(self) -> bool:
        if not self.left:
            return False
        self.left.pop()
        self.have += 1
        return self.have < self.want


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(1, 6)), min_size=1, max_size=5), st.integers(0, 30))
def test_nobody_gets_more_than_its_traffic_needs_while_a_peer_lacks_that(
    wishes: list[tuple[int, int]], replicas: int
) -> None:
    """Of replicas of one size. What is needed is shared max-min fairly, and so is the rest."""
    left = [1] * replicas
    pools = [Pool(needed, want, left) for needed, want in wishes]
    in_rounds(pools)
    lacking = [each for each in pools if each.have < each.needed]
    for short_of in lacking:
        for other in pools:
            assert other.have <= max(1, other.needed)
            assert (other.have - 1) / max(1, other.needed) <= short_of.have / short_of.needed
    assert not left or all(each.have == each.want for each in pools)
