"""Near the other half of a split: in its NVLink domain, below its leaf, its spine, in its zone; then anywhere."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.cluster import board, busy, rack
from tests.placement.cases import ANYWHERE, free_map, tp
from tests.yardstick import assert_no_steeper
from weft.domain.spec import PlacementSpec
from weft.placement import FreeMap, Hold, Neighbours, Slot, find_slot
from weft.placement.nearness import areas_around, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.domain.cluster import NodeRecord
    from weft.domain.fabric import Fabric

ZONE = "topology.kubernetes.io/zone"
TIER = "fabric.topograph.run/tier-"


def at(name: str, zone: str, spine: str, leaf: str) -> NodeRecord:
    """A board somewhere in the network."""
    return board(name, labels={ZONE: zone, f"{TIER}1": spine, f"{TIER}0": leaf})


@pytest.mark.parametrize(
    ("full", "expected"),
    [
        ((), "same-leaf"),
        (("same-leaf",), "same-spine"),
        (("same-leaf", "same-spine"), "same-zone"),
        (("same-leaf", "same-spine", "same-zone"), "far"),
    ],
    ids=["leaf", "spine", "zone", "anywhere"],
)
def test_a_half_goes_as_near_to_the_other_as_there_is_room(full: tuple[str, ...], expected: str) -> None:
    """The nearest shared tier wins over a tighter fit; a leaf of the same name below another spine is not near."""
    nodes = [
        at("decode", "z", "s1", "l1"),
        at("same-leaf", "z", "s1", "l1"),
        at("same-spine", "z", "s1", "l2"),
        at("same-zone", "z", "s2", "l1"),
        at("far", "y", "s1", "l1"),
    ]
    taken = [busy("decode", "decode", 8), busy("tight", "far", 6), *(busy(name, name, 8) for name in full)]
    assert Slot((expected,)) == find_slot(tp(2), ANYWHERE, free_map(nodes, *taken), Neighbours(partners=("decode",)))


def test_a_half_goes_into_the_rack_of_the_other() -> None:
    """KV stays on NVLink there, whatever network both racks share."""
    free = free_map([*rack("a.1", 2), *rack("b.1", 2)], busy("x", "a.1-t0", 4))
    assert Slot(("b.1-t0",)) == find_slot(tp(4, "GB200"), ANYWHERE, free, Neighbours(partners=("b.1-t1",)))


def levels_between(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many must be climbed from the deepest until both are in one area."""
    shared = set(areas_around(one)) & set(areas_around(other))
    return max(len(one), len(other)) - max(map(len, shared), default=0)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("z", "s", "l"), ("z", "s", "l"), 0),
        (("z", "s", "l"), ("z", "s", "m"), 1),
        (("z", "s", "l"), ("z", "t", "m"), 2),
        (("z", "s", "l"), ("y", "s", "l"), 3),
        (("z", "s", "l"), ("z", "t", "l"), 2),
        (("z", "s", ""), ("z", "s", ""), 1),
        (("", "s", "l"), ("", "s", "l"), 0),
        (("", "", ""), ("", "", ""), 3),
        (("z", "s", "l"), ("z",), 2),
        ((), (), 0),
    ],
)
def test_so_many_levels_lie_between_two_places(one: tuple[str, ...], other: tuple[str, ...], expected: int) -> None:
    """Leaves of one name below different spines are different leaves, and two unknown ones are not the same."""
    assert expected == levels_between(one, other)


@given(
    st.lists(st.tuples(*[st.sampled_from(["", "a", "b", "c"])] * 3), min_size=1, max_size=8),
    st.sets(st.integers(0, 7), min_size=1),
    st.sets(st.integers(0, 7)),
)
def test_no_place_with_room_is_nearer_to_a_partner(
    places: list[tuple[str, str, str]], partners: set[int], full: set[int]
) -> None:
    """As comparing each with every other would find it."""
    nodes = [at(f"b-{index}", *place) for index, place in enumerate(places)]
    free = free_map(nodes, *(busy(f"x-{index}", f"b-{index}", 8) for index in full if index < len(nodes)))
    paths = {domain.name: path_of(domain) for domain in free.fabric.domains}
    homes = [paths[name] for index in partners if (name := f"b-{index}") in paths]
    away = {
        name: min((levels_between(path, home) for home in homes), default=0)
        for name, path in paths.items()
        if free.on(name)
    }
    found = find_slot(tp(2), ANYWHERE, free, Neighbours(partners=tuple(f"b-{index}" for index in partners)))
    assert (found.nodes[0] if isinstance(found, Slot) else None) in {
        name for name, levels in away.items() if levels == min(away.values())
    } or not away


@pytest.mark.parametrize("spread", ["Domain", "Zone"])
def test_a_place_is_found_in_time_that_does_not_grow_with_the_nodes(spread: str) -> None:
    """GKE names a tier for each host, so that every board is somewhere else."""
    wish, partners = PlacementSpec(spread=spread), tuple(f"b-{index}" for index in range(0, 40, 4))
    fabrics = [
        free_map([at(f"b-{index}", "abc"[index % 3], f"s{index % 30}", f"h{index}") for index in range(count)]).fabric
        for count in (200, 2000)
    ]

    def place(free: FreeMap) -> None:
        for _ in range(20):
            found = find_slot(tp(8), wish, free, Neighbours(("b-0",), partners))
            assert isinstance(found, Slot)
            free.reserve(Hold(found.nodes[0], 8, "pool team/chat"))

    def places_on(fabric: Fabric) -> Iterator[Callable[[], None]]:
        while True:
            free = FreeMap.of(fabric)
            find_slot(tp(8), wish, free, Neighbours(("b-0",), partners))
            yield partial(place, free)

    few, many = map(places_on, fabrics)
    assert_no_steeper(few, many, times=3)
