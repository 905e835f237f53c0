"""Replicas over zones: the same domain as by comparing all of them, in steps that do not grow with the zones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.counting import counted
from tests.fabric.cluster import board, rack
from tests.placement.cases import free_map, tp
from weft.domain.spec import DomainRule, PlacementSpec
from weft.placement import FreeMap, Hold, Neighbours, Slot, find_slot
from weft.placement.search import wishes_of
from weft.placement.tally import tally_of

if TYPE_CHECKING:
    from weft.domain.fabric import Fabric
    from weft.domain.shape import Shape

    Steps = list[tuple[Shape, list[str], list[tuple[str, int]]]]

ZONE = "topology.kubernetes.io/zone"
OVER_ZONES = PlacementSpec(spread="Zone")
ONE_BOARD = tp(8)
NODES = [*rack("a.1", 2), *(board(f"{zone}-{index}", labels={ZONE: zone}) for zone in "abcde" for index in range(2))]
NAMES = [node.name for node in NODES]
FABRIC = free_map(NODES).fabric
steps = st.tuples(
    st.sampled_from([tp(1), tp(4), tp(8)]),
    st.lists(st.sampled_from(NAMES), max_size=8),
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-8, 8)), max_size=4),
)


@given(asked=st.lists(steps, max_size=12))
def test_the_domain_is_the_best_of_all_that_have_room(asked: Steps) -> None:
    """Whatever was asked before, and while what is free goes and comes back."""
    free = FreeMap.of(FABRIC)
    for shape, siblings, shifts in asked:
        for node, gpus in shifts:
            free.shift(node, gpus)
        tally = tally_of(shape, OVER_ZONES, free)
        wishes = wishes_of(OVER_ZONES, Neighbours(tuple(siblings)), free)
        merits = {index: tally.merits(index, wishes) for index in range(len(FABRIC.domains)) if tally.holds_one(index)}
        best = min(merits, key=lambda index: merits[index], default=None)
        assert tally.tightest(wishes) == best


def zones(count: int) -> Fabric:
    """Two boards in each."""
    names = [f"z{number}" for number in range(count)]
    return free_map([board(f"{zone}-{index}", labels={ZONE: zone}) for zone in names for index in (0, 1)]).fabric


def test_a_replica_takes_no_more_steps_where_there_are_more_zones() -> None:
    few, many = (_calls_while_placing(20, zones(count)) for count in (50, 400))
    assert many <= 1.1 * few


def test_a_replica_in_each_zone_takes_as_many_steps_each_however_many_there_are() -> None:
    few, many = (_calls_while_placing(2 * count, zones(count)) for count in (50, 100))
    assert many <= 2.2 * few


def _calls_while_placing(replicas: int, fabric: Fabric) -> int:
    """Calls of functions while a pool gets so many replicas, two of which are there and have looked at everything."""
    free, homes = FreeMap.of(fabric), list[str]()
    _place_one(free, homes)
    _place_one(free, homes)
    _, calls = counted(lambda: _place_so_many(replicas - 2, free, homes))
    assert len({fabric.nodes()[home].zone for home in homes}) == min(replicas, len(fabric.domains) // 2)
    return calls


def _place_so_many(replicas: int, free: FreeMap, homes: list[str]) -> None:
    for _ in range(replicas):
        _place_one(free, homes)


def _place_one(
    free: FreeMap, homes: list[str], shape: Shape = ONE_BOARD, placement: PlacementSpec = OVER_ZONES
) -> None:
    found = find_slot(shape, placement, free, Neighbours(tuple(homes)))
    assert isinstance(found, Slot)
    homes += found.nodes
    for node in found.nodes:
        free.reserve(Hold(node, shape.gpus_per_pod, "pool team/chat"))


def test_replicas_whose_stages_part_are_spread_over_zones_too() -> None:
    """Each of their zones has room for all of them."""
    fabric = free_map([board(f"{zone}-{index}", labels={ZONE: zone}) for zone in "abc" for index in range(6)]).fabric
    free, homes, apart = FreeMap.of(fabric), list[str](), replace(OVER_ZONES, domain=DomainRule.Preferred)
    for _ in range(6):
        _place_one(free, homes, tp(8, stages=2), apart)
    assert 2 * ["a", "b", "c"] == [fabric.nodes()[home].zone for home in homes[::2]]


def test_stages_go_to_boards_without_siblings_where_these_are_to_be_spread() -> None:
    fabric = free_map([board(f"b-{index}") for index in range(4)]).fabric
    free, homes = FreeMap.of(fabric), list[str]()
    for _ in range(2):
        _place_one(free, homes, tp(4, stages=2), PlacementSpec(spread="Domain", domain=DomainRule.Preferred))
    assert ["b-0", "b-1", "b-2", "b-3"] == homes
