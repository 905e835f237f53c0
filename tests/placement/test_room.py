"""How many replicas of each size would still fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.placement.cases import ANYWHERE, tp
from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
from weft.domain.reasons import Explanation, Reason
from weft.placement import FreeMap, Hold, Slot, by_accelerator, find_slot, rooms_of
from weft.placement.room import sizes

DOWN = Explanation(Reason.NodeNotReady, "node is not ready")


def _rack(name: str, *free: int, gpus: int = 4, accelerator: str = "GB200") -> NvlinkDomain:
    nodes = tuple(
        FabricNode(f"{name}-{index}", name, "a", accelerator, "nvidia.com/gpu", 1 << 37, gpus, gpus - left)
        for index, left in enumerate(free)
    )
    return NvlinkDomain(name, "a", accelerator, nodes, ("a",))


def _slots(*domains: NvlinkDomain) -> dict[int, int]:
    (kind,) = by_accelerator(rooms_of(FreeMap.of(Fabric(domains))))
    return dict(kind.slots)


@pytest.mark.parametrize(
    ("node_gpus", "nodes", "expected"),
    [
        (8, 1, [1, 2, 4, 8]),
        (4, 18, [1, 2, 4, 8, 16, 32, 64]),
        (7, 1, [1, 2, 4]),
        (6, 4, [1, 2, 4]),
        (0, 1, []),
    ],
    ids=["board", "rack", "a board that lost a GPU", "nodes of six", "nothing left"],
)
def test_sizes_are_powers_of_two_and_whole_nodes_above_one(node_gpus: int, nodes: int, expected: list[int]) -> None:
    """Up to the domain."""
    assert expected == list(sizes(node_gpus, nodes))


def test_an_empty_rack_of_18_trays_holds_one_of_64_and_four_of_16() -> None:
    """Sizes that are no power of two are told by the largest."""
    rack = _rack("r", *[4] * 18)
    assert _slots(rack) == {1: 72, 2: 36, 4: 18, 8: 9, 16: 4, 32: 2, 64: 1}
    assert 72 == rooms_of(FreeMap.of(Fabric((rack,))))[0].largest


def test_a_large_replica_takes_whole_trays_of_one_domain() -> None:
    """Three GPUs on each of many trays hold nothing above a tray, and two half racks no whole one."""
    assert _slots(_rack("r", 3, 3, 3, 3)) == {1: 12, 2: 4, 4: 0, 8: 0, 16: 0}
    assert _slots(_rack("r", 4, 4, 0, 0), _rack("s", 4, 4, 0, 0)) == {1: 16, 2: 8, 4: 4, 8: 2, 16: 0}


def test_promises_spares_and_nodes_that_are_down_hold_nothing() -> None:
    rack = _rack("r", 4, 4, 4, 4)
    down = replace(rack, nodes=(replace(rack.nodes[0], unusable=DOWN), *rack.nodes[1:]))
    free = FreeMap.of(Fabric((down,)), [Hold("r-1", 4, "spares of pool team/chat"), Hold("r-2", 1, "pool team/chat")])
    (room,) = rooms_of(free)
    assert (16, 7, 4) == (room.total, room.free, room.largest)
    assert dict(room.slots) == {1: 7, 2: 3, 4: 1, 8: 0, 16: 0}


def test_rooms_are_counted_again_once_anything_is_promised() -> None:
    fabric = Fabric((_rack("r", 4, 4), _rack("s", 4, 4)))
    before, again = (rooms_of(FreeMap.of(fabric)) for _ in range(2))
    after = rooms_of(FreeMap.of(fabric, [Hold("s-0", 1, "pool team/chat")]))
    assert again is before
    assert [8, 7] == [room.free for room in after]


@given(st.lists(st.lists(st.tuples(st.sampled_from(["r-0", "r-1", "s-0"]), st.integers(0, 5)), max_size=4), max_size=4))
def test_rooms_follow_what_is_promised_from_pass_to_pass(passes: list[list[tuple[str, int]]]) -> None:
    """Whatever was promised before, every domain has what is left of its own nodes."""
    fabric = Fabric((_rack("r", 4, 4), _rack("s", 4)))
    for promised in passes:
        rooms = rooms_of(FreeMap.of(fabric, [Hold(node, gpus, "pool team/chat") for node, gpus in promised]))
        left = {node: max(0, 4 - sum(gpus for at, gpus in promised if at == node)) for node in ("r-0", "r-1", "s-0")}
        assert [left["r-0"] + left["r-1"], left["s-0"]] == [room.free for room in rooms]


def test_parts_of_gpus_hold_replicas_of_one() -> None:
    """A part never serves more than one rank."""
    board = _rack("b", 8, gpus=8, accelerator="H200")
    shared = replace(board, nodes=(replace(board.nodes[0], shared=True),))
    (room,) = rooms_of(FreeMap.of(Fabric((shared,))))
    assert (8, 1) == (room.free, room.largest)
    assert dict(room.slots) == {1: 8, 2: 0, 4: 0, 8: 0}


def test_a_tray_that_is_cut_into_parts_is_no_measure_for_the_others_of_its_rack() -> None:
    """Three of its nodes hold whole GPUs, whatever MIG makes of the fourth."""
    rack = _rack("r", 4, 4, 4, 28)
    cut = replace(rack, nodes=(*rack.nodes[:3], replace(rack.nodes[3], shared=True, total=28, used=0)))
    (room,) = rooms_of(FreeMap.of(Fabric((cut,))))
    assert (40, 40, 12) == (room.total, room.free, room.largest)
    assert {1: 40, 2: 6, 4: 3, 8: 1} == dict(room.slots)


def test_the_share_that_cannot_be_used_is_that_of_free_memory() -> None:
    """64 GPUs in one rack are of use to a replica of 64, in two racks they are not; a full fabric has no holes."""
    (whole,) = by_accelerator(rooms_of(FreeMap.of(Fabric((_rack("r", *[4] * 16, 0, 0),)))))
    (halves,) = by_accelerator(rooms_of(FreeMap.of(Fabric((_rack("r", *[4] * 8), _rack("s", *[4] * 8))))))
    (full,) = by_accelerator(rooms_of(FreeMap.of(Fabric((_rack("r", 0, 0),)))))
    assert (0.0, 0.0) == (whole.unusable_share(64), halves.unusable_share(32))
    assert 1.0 == halves.unusable_share(64)
    assert 0.0 == full.unusable_share(1)


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=5), min_size=1, max_size=4), st.sampled_from([1, 2, 4, 8])
)
def test_a_slot_is_counted_exactly_where_a_replica_finds_one(racks: list[list[int]], size: int) -> None:
    """And as many replicas as are counted can be placed one after another."""
    fabric = Fabric(tuple(_rack(f"r{index}", *free) for index, free in enumerate(racks)))
    (kind,) = by_accelerator(rooms_of(FreeMap.of(fabric)))
    free, placed = FreeMap.of(fabric), 0
    while isinstance(slot := find_slot(tp(size, "GB200"), ANYWHERE, free), Slot):
        placed += 1
        for node in slot.nodes:
            free.reserve(Hold(node, min(size, 4), "pool team/chat"))
    assert placed == dict(kind.slots)[size]
