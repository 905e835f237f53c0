"""Who needs a ComputeDomain, and that no node is in two of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fabric.cluster import board, forming, rack, tray
from tests.placement.cases import ANYWHERE, free_map, tp
from weft.domain.reasons import Reason
from weft.domain.reports import ComputeDomainReport, DomainMember
from weft.domain.spec import DomainRule, PlacementSpec
from weft.domain.status import Assignment, ComputeDomain
from weft.fabric.membership import NO_FABRIC
from weft.placement import (
    FreeMap,
    Hold,
    Movable,
    Move,
    PlacementRefusal,
    Repacking,
    Requirements,
    Slot,
    compute_domain_of,
    domain_lost,
    find_slot,
    repack,
)

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord

TWO_TRAYS = tp(8, "GB200", per_pod=4)
HALVES = tp(4, "GB200", per_pod=2)  # two pods of two GPUs
NOWHERE = f"{NO_FABRIC}.0"


def domain(name: str, *nodes: str) -> ComputeDomainReport:
    members = tuple(DomainMember(node, "", ready=True) for node in nodes)
    return ComputeDomainReport("team", name, members, f"uid-{name}")


def formed(nodes: list[NodeRecord], *domains: ComputeDomainReport) -> FreeMap:
    """Free trays of a cluster where the driver runs."""
    return free_map(nodes, reports=forming(*nodes, domains=domains))


def of(*nodes: str, cluster: list[NodeRecord]) -> ComputeDomain | None:
    return compute_domain_of(nodes, formed(cluster).fabric)


def test_two_pods_of_one_rack_share_memory() -> None:
    assert ComputeDomain(("a.1", "a.1")) == of("a.1-t0", "a.1-t1", cluster=rack("a.1", 2))


def test_stages_over_racks_share_it_where_a_stage_spans_trays() -> None:
    cluster = [*rack("a.1", 2), *rack("b.1", 2)]
    nodes = ("a.1-t0", "a.1-t1", "b.1-t0", "b.1-t1")
    assert ComputeDomain(("a.1", "a.1", "b.1", "b.1")) == of(*nodes, cluster=cluster)
    assert of("a.1-t0", "b.1-t0", cluster=cluster) is None


def test_a_rack_known_by_another_label_gives_no_clique() -> None:
    """No affinity is asked for on a label that the nodes lack."""
    racked = {"ds.coreweave.com/nvlink.domain": "r1"}
    assert ComputeDomain(("", "")) == of("x", "y", cluster=[tray("x", None, racked), tray("y", None, racked)])


def test_a_clique_of_no_fabric_is_none() -> None:
    """One without a cluster UUID is what it is until the fabric is up: no pod is bound to it."""
    racked = {"ds.coreweave.com/nvlink.domain": "r1"}
    assert ComputeDomain(("", "")) == of("x", "y", cluster=[tray(name, NOWHERE, racked) for name in ("x", "y")])


@pytest.mark.parametrize(
    ("nodes", "cluster"),
    [
        pytest.param(("a.1-t0",), rack("a.1", 2), id="one pod"),
        pytest.param(("b-0", "b-1"), [board("b-0"), board("b-1")], id="boards"),
        pytest.param(("a.1-t0", "gone"), rack("a.1", 2), id="a node that is gone"),
    ],
)
def test_others_do_not(nodes: tuple[str, ...], cluster: list[NodeRecord]) -> None:
    assert of(*nodes, cluster=cluster) is None


def test_nobody_does_where_no_driver_forms_domains() -> None:
    """The definition alone says nothing: the driver's chart installs it for GPUs alone, too."""
    nodes = rack("a.1", 2)
    assert compute_domain_of(("a.1-t0", "a.1-t1"), free_map(nodes, reports=forming()).fabric) is None
    unlisted = replace(forming(*nodes), knows_compute_domains=False)
    assert compute_domain_of(("a.1-t0", "a.1-t1"), free_map(nodes, reports=unlisted).fabric) is None


def test_a_node_in_a_domain_is_passed_over_for_replicas_of_several_pods_only() -> None:
    free = formed(rack("a.1", 2), domain("theirs", "a.1-t0"))
    refused = find_slot(TWO_TRAYS, ANYWHERE, free)
    assert isinstance(refused, PlacementRefusal)
    assert "passed over: node a.1-t0 is in ComputeDomain team/theirs" in refused.explanation.message
    assert find_slot(tp(4, "GB200"), ANYWHERE, free) == Slot(("a.1-t0",))


def test_a_domain_on_boards_keeps_nobody_away() -> None:
    """Where NVLink ends at the node a replica of Weft forms none, so that it is in nobody's way."""
    free = formed([board("b-0"), board("b-1")], domain("theirs", "b-0"))
    stages = tp(8, stages=2)
    assert isinstance(find_slot(stages, PlacementSpec(domain=DomainRule.Preferred), free), Slot)


@pytest.mark.parametrize("stages", [1, 2])
def test_two_replicas_never_share_a_tray(stages: int) -> None:
    """However many GPUs are left on it."""
    shape = tp(4, "GB200", stages=stages, per_pod=2)
    placement = PlacementSpec(domain=DomainRule.Preferred)
    free = formed(rack("a.1", 2 * stages))
    slot = find_slot(shape, placement, free)
    assert isinstance(slot, Slot)
    for node in slot.nodes:
        free.reserve(Hold(node, 2, "pool team/chat", joins=1))
    refused = find_slot(shape, placement, free)
    assert isinstance(refused, PlacementRefusal)
    assert f"{2 * stages} NodeInComputeDomain" in refused.explanation.message
    for node in slot.nodes:
        free.release(Hold(node, 2, "pool team/chat", joins=1))
    assert slot == find_slot(shape, placement, free)


def test_what_is_supposed_is_undone() -> None:
    free = formed(rack("a.1", 2))
    with free.supposing():
        free.shift("a.1-t0", -1, 1)
        assert free.has_joined("a.1-t0")
        assert [0, 4] == free.each(["a.1-t0", "a.1-t1"], joins=True)
        assert [3, 4] == free.each(["a.1-t0", "a.1-t1"])
    assert not free.has_joined("a.1-t0")
    assert [4, 4] == free.each(["a.1-t0", "a.1-t1"], joins=True)


def test_a_replica_that_moves_takes_its_domain_along() -> None:
    """Its trays count as free of it where it left, and as taken where it goes."""
    free = formed([*rack("a.1", 4), *rack("b.1", 2)])
    for node in ("a.1-t0", "a.1-t1"):
        free.reserve(Hold(node, 4, "chat/0", joins=1))
    movable = Movable("chat/0", Requirements(TWO_TRAYS, ANYWHERE), ("a.1-t0", "a.1-t1"), joins=1)
    found = repack(Requirements(tp(16, "GB200"), ANYWHERE), [movable], free, 1)
    moves = (Move("chat/0", ("a.1-t0", "a.1-t1"), ("b.1-t0", "b.1-t1"), 4),)
    assert found == Repacking(moves, Slot(("a.1-t0", "a.1-t1", "a.1-t2", "a.1-t3")))
    assert free.has_joined("a.1-t0")
    assert not free.has_joined("b.1-t0")


def test_no_replica_moves_to_a_tray_in_a_domain() -> None:
    free = formed([*rack("a.1", 4), *rack("b.1", 2)], domain("theirs", "b.1-t1"))
    for node in ("a.1-t0", "a.1-t1"):
        free.reserve(Hold(node, 4, "chat/0", joins=1))
    movable = Movable("chat/0", Requirements(TWO_TRAYS, ANYWHERE), ("a.1-t0", "a.1-t1"), joins=1)
    assert repack(Requirements(tp(16, "GB200"), ANYWHERE), [movable], free, 1) is None


def promised(*nodes: str, clique: str = "a.1") -> Assignment:
    return Assignment(0, "r1", nodes, 4, 0.0, compute_domain=ComputeDomain((clique,) * len(nodes)))


def nobodys(_: str) -> bool:
    return False


def test_a_domain_can_form_where_nothing_has_changed() -> None:
    nodes = rack("a.1", 2)
    assert domain_lost(promised("a.1-t0", "a.1-t1"), formed(nodes).fabric, nobodys) is None
    theirs = formed(nodes, domain("theirs", "a.1-t0")).fabric
    assert domain_lost(promised("a.1-t0", "a.1-t1"), theirs, lambda name: name == "team/theirs") is None
    assert domain_lost(promised("a.1-t0", "a.1-t1"), theirs, nobodys, bound={0}) is None
    without = replace(promised("a.1-t0", "a.1-t1"), compute_domain=None)
    assert domain_lost(without, theirs, nobodys) is None


def test_a_node_whose_fabric_went_down_has_left_its_clique() -> None:
    """A promise that names none holds, whether the fabric is up or not."""
    racked = {"ds.coreweave.com/nvlink.domain": "r1"}
    down = formed([tray(name, NOWHERE, racked) for name in ("x", "y")]).fabric
    up = formed([tray(name, "a.1", racked) for name in ("x", "y")]).fabric
    lost = domain_lost(promised("x", "y"), down, nobodys)
    assert lost is not None
    assert "node x has left the NVLink clique a.1" in lost.message
    assert domain_lost(promised("x", "y", clique=""), down, nobodys) is None
    assert domain_lost(promised("x", "y", clique=""), up, nobodys) is None


def test_a_domain_cannot_form_beside_another_outside_its_clique_or_without_a_driver() -> None:
    nodes = rack("a.1", 2)
    slot = promised("a.1-t0", "a.1-t1")
    lost = [
        domain_lost(slot, formed(nodes, domain("theirs", "a.1-t1")).fabric, nobodys),
        domain_lost(promised("a.1-t0", "a.1-t1", clique="a.2"), formed(nodes).fabric, nobodys),
        domain_lost(slot, free_map(nodes).fabric, nobodys),
    ]
    assert [Reason.NodeInComputeDomain, Reason.SlotTaken, Reason.SlotTaken] == [why.reason for why in lost if why]
    assert "a.1-t1 is in ComputeDomain team/theirs" in (lost[0].message if lost[0] else "")
    assert "a.1-t0 has left the NVLink clique a.2" in (lost[1].message if lost[1] else "")
    assert "nothing forms ComputeDomains on node a.1-t0" in (lost[2].message if lost[2] else "")
