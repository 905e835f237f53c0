"""The second look before release, and who leaves when a pool shrinks."""

from __future__ import annotations

from dataclasses import replace

from tests.fabric.cluster import board, busy, rack
from tests.placement.cases import free_map, tp
from weft.domain.reasons import Reason
from weft.domain.status import Assignment
from weft.placement import Departure, choose_victims, leaves_domain, slot_is_still_free, slot_lost


def assignment(replica: int, *nodes: str, gpus: int = 8) -> Assignment:
    return Assignment(replica, "r1", nodes, gpus, since=0.0)


def test_a_slot_that_nobody_took_is_still_free() -> None:
    fabric = free_map([board("b-0")]).fabric
    assert slot_is_still_free(assignment(0, "b-0"), fabric, {})


def test_a_slot_is_lost_to_a_pod_a_promise_a_cordon_or_a_vanished_node() -> None:
    taken = free_map([board("b-0")], busy("x", "b-0", 1)).fabric
    whole = free_map([board("b-0")]).fabric
    cordoned = free_map([replace(board("b-0"), cordoned=True)]).fabric
    lost = [
        slot_lost(assignment(0, "b-0"), taken, {}),
        slot_lost(assignment(0, "b-0"), whole, {"b-0": 1}),
        slot_lost(assignment(0, "b-0"), cordoned, {}),
        slot_lost(assignment(0, "gone"), whole, {}),
    ]
    reasons = [why.reason for why in lost if why]
    assert reasons == [Reason.SlotTaken, Reason.SlotTaken, Reason.NodeCordoned, Reason.NodeLost]


def test_pods_that_are_bound_already_need_no_second_slot() -> None:
    """After a crash between two releases, one rank is bound and its devices count as used."""
    fabric = free_map(rack("a.1", 2), busy("own", "a.1-t0", 4)).fabric
    both = assignment(0, "a.1-t0", "a.1-t1", gpus=4)
    assert not slot_is_still_free(both, fabric, {})
    assert slot_is_still_free(both, fabric, {}, bound={0})


def test_a_group_whose_nodes_changed_clique_leaves_its_domain() -> None:
    fabric = free_map([*rack("a.1", 2), *rack("b.1", 2)]).fabric
    inside = assignment(0, "a.1-t0", "a.1-t1", gpus=4)
    across = assignment(0, "a.1-t0", "b.1-t0", gpus=4)
    assert not leaves_domain(inside, tp(8, "GB200"), fabric)
    assert leaves_domain(across, tp(8, "GB200"), fabric)
    assert not leaves_domain(across, tp(4, "GB200", stages=2), fabric)


def test_victims_are_not_ready_then_outdated_then_open_the_largest_hole_then_newest() -> None:
    free = free_map([board(f"b-{i}") for i in range(4)], *(busy(f"x{i}", f"b-{i}", 4) for i in range(4)))
    free_more = free_map([board(f"b-{i}") for i in range(4)], *(busy(f"x{i}", f"b-{i}", 8 - i) for i in range(4)))
    current = [Departure(assignment(i, f"b-{i}", gpus=4), ready=True, outdated=False) for i in range(4)]
    assert [each.assignment.replica for each in choose_victims(current, 2, free)] == [3, 2]
    reverse = [replace(each, assignment=assignment(9 - i, f"b-{i}", gpus=4)) for i, each in enumerate(current)]
    assert [each.assignment.nodes for each in choose_victims(reverse, 2, free_more)] == [("b-3",), ("b-2",)]
    outdated = replace(current[0], outdated=True)
    broken = replace(current[1], ready=False)
    mixed = [outdated, broken, *current[2:]]
    assert [each.assignment.replica for each in choose_victims(mixed, 4, free)] == [1, 0, 3, 2]


def test_what_is_free_on_a_node_that_takes_nothing_new_makes_no_hole_larger() -> None:
    """Three idle trays of rack a are cordoned, so that the tray to give back is the one beside two idle trays in b."""
    idle = [replace(node, cordoned=index > 0) for index, node in enumerate(rack("a.1", 4))]
    free = free_map([*idle, *rack("b.1", 3)], busy("x", "a.1-t0", 4), busy("y", "b.1-t0", 4))
    both = [assignment(0, "b.1-t0", gpus=4), assignment(1, "a.1-t0", gpus=4)]
    (victim,) = choose_victims([Departure(each, ready=True, outdated=False) for each in both], 1, free)
    assert ("b.1-t0",) == victim.assignment.nodes


def test_no_more_victims_than_asked_for() -> None:
    one = [Departure(assignment(0, "b-0"), ready=True, outdated=False)]
    assert choose_victims(one, 0, free_map([board("b-0")])) == ()
    assert choose_victims(one, -1, free_map([board("b-0")])) == ()
