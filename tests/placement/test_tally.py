"""Counts that follow what is promised: an answer never depends on what was asked, reserved and released before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.cluster import board, rack
from tests.placement.cases import experts, free_map, tp
from weft.domain.spec import DomainRule, PlacementSpec
from weft.placement import FreeMap, Hold, Neighbours, Slot, find_slot
from weft.placement.names import natural

if TYPE_CHECKING:
    from weft.domain.shape import Shape

ZONE = "topology.kubernetes.io/zone"
NODES = [
    *rack("a.1", 6),
    *rack("b.1", 4),
    *(board(f"b-{index}", labels={ZONE: "west"}) for index in (1, 2, 10)),
    *(board(f"e-{index}", labels={ZONE: "east"}) for index in (1, 2, 10)),
]
NAMES = [node.name for node in NODES]
FABRIC = free_map(NODES).fabric
KINDS = (
    *(tp(size, "GB200") for size in (1, 2, 4, 8, 16)),
    *(tp(size) for size in (1, 4, 8)),
    tp(8, stages=2),
    tp(4, "GB200", per_pod=2),
    experts(2, 4, "GB200"),
)
PLACEMENTS = (
    PlacementSpec(),
    PlacementSpec(spread="Zone"),
    PlacementSpec(spread="None", domain=DomainRule.Preferred),
    PlacementSpec(spare_nodes_per_domain=2),
)
asked = st.tuples(
    st.sampled_from(KINDS),
    st.sampled_from(PLACEMENTS),
    st.lists(st.sampled_from(NAMES), max_size=3),
    st.lists(st.sampled_from(NAMES), max_size=2),
)


@given(steps=st.lists(st.tuples(asked, st.booleans()), max_size=25))
def test_what_changed_since_the_last_question_is_counted(
    steps: list[tuple[tuple[Shape, PlacementSpec, list[str], list[str]], bool]],
) -> None:
    """A map that lived through the promises answers like a new one that begins with them, in words too."""
    free, holds = FreeMap.of(FABRIC), list[Hold]()
    for (shape, placement, siblings, partners), leave in steps:
        near = Neighbours(tuple(siblings), tuple(partners))
        found = find_slot(shape, placement, free, near)
        assert find_slot(shape, placement, FreeMap.of(FABRIC, holds), near) == found
        if leave and holds:
            free.release(holds.pop(0))
        if isinstance(found, Slot):
            for node in found.nodes:
                holds.append(Hold(node, shape.gpus_per_pod, "pool a/b"))
                free.reserve(holds[-1])


@given(shifts=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(-8, 8)), max_size=10), kind=st.sampled_from(KINDS))
def test_what_was_supposed_leaves_no_trace(shifts: list[tuple[str, int]], kind: Shape) -> None:
    """Whatever is asked in between, the map is afterwards as it was before."""
    free = FreeMap.of(FABRIC, [Hold("b-1", 3, "pool a/b")])
    before, slot = free.each(NAMES), find_slot(kind, PLACEMENTS[0], free)
    with free.supposing():
        for node, gpus in shifts:
            free.shift(node, gpus)
            find_slot(kind, PLACEMENTS[0], free)
    assert before == free.each(NAMES)
    assert slot == find_slot(kind, PLACEMENTS[0], free)


def test_numbers_in_names_count_as_numbers() -> None:
    assert ["tray-2", "tray-10", "tray-10-b", "tray-x"] == sorted(
        ["tray-x", "tray-10-b", "tray-10", "tray-2"], key=natural
    )
