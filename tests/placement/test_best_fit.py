"""Where a replica goes: the tightest domain that holds it whole, so that big holes stay big."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fabric.cluster import board, busy, rack, taint, tray
from tests.placement.cases import ANYWHERE, free_map, tp
from tests.yardstick import assert_quick
from weft.domain.spec import DomainRule, PlacementSpec, Toleration
from weft.placement import FreeMap, Hold, Neighbours, Slot, find_slot

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.shape import Shape


APART = PlacementSpec(domain=DomainRule.Preferred)


def slot(shape: Shape, free: FreeMap, placement: PlacementSpec = ANYWHERE) -> tuple[str, ...] | None:
    found = find_slot(shape, placement, free)
    return found.nodes if isinstance(found, Slot) else None


def test_a_small_replica_takes_the_board_that_is_nearly_full() -> None:
    free = free_map([board("b-0"), board("b-1")], busy("x", "b-1", 6))
    assert slot(tp(2), free) == ("b-1",)


def test_slots_of_the_arriving_shape_count_and_not_free_gpus() -> None:
    """7 free GPUs hold one TP4 and 4 free hold one too: both have one slot, then the fewer free GPUs decide."""
    free = free_map([board("b-0"), board("b-1")], busy("x", "b-0", 1), busy("y", "b-1", 4))
    assert slot(tp(4), free) == ("b-1",)


def test_a_rack_with_one_slot_beats_a_rack_with_more_even_if_it_has_more_free_gpus() -> None:
    """A rack of 7 free trays holds one replica of 4 trays, as does one of 5; one of 8 holds two and stays whole."""
    pods = [busy(f"a{i}", f"a.1-t{i}", 4) for i in range(10)] + [busy(f"b{i}", f"b.1-t{i}", 4) for i in range(11)]
    free = free_map([*rack("a.1"), *rack("b.1")], *pods)
    assert slot(tp(16, "GB200"), free) == tuple(f"b.1-t{i}" for i in range(11, 15))


def test_a_16_gpu_replica_lands_inside_one_clique_and_never_across_two() -> None:
    halves = [*rack("a.1", 3), *rack("b.1", 3)]
    assert slot(tp(16, "GB200"), free_map(halves)) is None
    assert slot(tp(16, "GB200"), free_map([*halves, *rack("c.1", 4)])) == tuple(f"c.1-t{i}" for i in range(4))


def test_trays_of_one_replica_are_neighbours() -> None:
    pods = [busy("x", "a.1-t1", 4), busy("y", "a.1-t4", 4)]
    assert slot(tp(16, "GB200"), free_map(rack("a.1", 12), *pods)) == tuple(f"a.1-t{i}" for i in (5, 6, 7, 8))


def test_single_gpu_replicas_fill_a_tray_before_they_open_another() -> None:
    free = free_map(rack("a.1", 3), busy("x", "a.1-t2", 2))
    assert slot(tp(1, "GB200"), free) == ("a.1-t2",)


def test_tp8_on_boards_with_seven_free_gpus_each_fits_nowhere() -> None:
    nodes = [board(f"b-{i}") for i in range(4)]
    assert slot(tp(8), free_map(nodes, *(busy(f"x{i}", f"b-{i}", 1) for i in range(4)))) is None


def test_promised_gpus_are_not_free_until_the_promise_is_taken_back() -> None:
    free = free_map([board("b-0")])
    hold = Hold("b-0", 8, "pool team/chat")
    free.reserve(hold)
    assert slot(tp(1), free) is None
    free.release(hold)
    assert slot(tp(8), free) == ("b-0",)


def test_pipeline_stages_may_use_different_domains_but_each_stays_whole() -> None:
    nodes = slot(tp(8, stages=2), free_map([board("b-0"), board("b-1")]), APART)
    assert nodes == ("b-0", "b-1")
    racks = [*rack("a.1", 5), *rack("b.1", 5)]
    nodes = slot(tp(16, "GB200", stages=2), free_map(racks), APART)
    assert nodes is not None
    assert [name[:3] for name in nodes] == ["a.1"] * 4 + ["b.1"] * 4


def test_pipeline_stages_stay_together_unless_they_may_part() -> None:
    """`placement.domain` is Required by default: the whole replica shares one NVLink domain."""
    assert slot(tp(8, stages=2), free_map([board("b-0"), board("b-1")])) is None


def test_pipeline_stages_prefer_one_domain() -> None:
    racks = [*rack("a.1", 4), *rack("b.1", 18)]
    nodes = slot(tp(16, "GB200", stages=2), free_map(racks), APART)
    assert nodes == tuple(f"b.1-t{i}" for i in range(8))


def test_pipeline_stages_stay_in_one_zone() -> None:
    zoned = [board("b-0", labels={"topology.kubernetes.io/zone": "a"})]
    zoned += [board("b-1", labels={"topology.kubernetes.io/zone": "b"})]
    assert slot(tp(8, stages=2), free_map(zoned), APART) is None


def test_every_pod_of_a_replica_has_a_node_of_its_own() -> None:
    """Two 2-GPU pods of one replica could share a tray, but a replica's pods never do."""
    assert slot(tp(4, "GB200", per_pod=2), free_map(rack("a.1", 1))) is None
    assert slot(tp(4, "GB200", per_pod=2), free_map(rack("a.1", 2))) == ("a.1-t0", "a.1-t1")


@pytest.mark.parametrize(
    "refused",
    [
        replace(board("b-0"), ready=False),
        replace(board("b-0"), cordoned=True),
        replace(board("b-0"), taints=(taint("dedicated", "training"),)),
        replace(board("b-0"), taints=(taint("nvidia.com/gpu-xid-error", "true", "NoExecute"),)),
        tray("b-0", None),
        board("b-0", labels={"nvidia.com/gpu.replicas": "2"}),
    ],
    ids=["not ready", "cordoned", "tainted", "evicting", "other accelerator", "shared"],
)
def test_a_node_that_may_not_be_used_is_not(refused: NodeRecord) -> None:
    assert slot(tp(4), free_map([refused])) is None
    assert slot(tp(4), free_map([refused, board("b-1")])) == ("b-1",)


def test_the_node_selector_is_obeyed() -> None:
    wanted = PlacementSpec(node_selector=(("tier", "gold"),))
    nodes = [board("b-0"), board("b-1", labels={"tier": "gold"})]
    assert slot(tp(8), free_map(nodes), wanted) == ("b-1",)


@pytest.mark.parametrize(
    ("toleration", "allowed"),
    [
        (Toleration("dedicated", value="llm"), True),
        (Toleration("dedicated", value="web"), False),
        (Toleration("dedicated", "Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration("dedicated", "Exists", effect="NoExecute"), False),
    ],
)
def test_tolerations_work_as_in_kubernetes(toleration: Toleration, *, allowed: bool) -> None:
    tainted = replace(board("b-0"), taints=(taint("dedicated", "llm"),))
    found = slot(tp(8), free_map([tainted]), PlacementSpec(tolerations=(toleration,)))
    assert (found == ("b-0",)) is allowed


def test_a_toleration_that_runs_out_is_none_for_a_pod_that_shall_stay() -> None:
    tainted = replace(board("b-0"), taints=(taint("x", effect="NoExecute"),))
    soon_gone = PlacementSpec(tolerations=(Toleration("x", "Exists", seconds=300),))
    assert slot(tp(8), free_map([tainted]), soon_gone) is None


def test_the_device_plugins_own_taint_and_preferences_do_not_refuse() -> None:
    mild = taint("busy", effect="PreferNoSchedule")
    assert slot(tp(8), free_map([replace(board("b-0"), taints=(taint("nvidia.com/gpu", "present"), mild))])) == ("b-0",)


def test_parts_of_gpus_serve_only_where_there_are_no_whole_ones() -> None:
    """A plan for whole devices counted on their memory; a part of the same kind has less."""
    part = board("b-0", labels={"nvidia.com/gpu.product": "NVIDIA-H200-MIG-3g.71gb"})
    assert slot(tp(1), free_map([part])) == ("b-0",)
    assert slot(tp(1), free_map([part, board("b-1")])) == ("b-1",)
    assert slot(tp(1), free_map([part, board("b-1")], busy("x", "b-1", 8))) is None


def test_spare_trays_stay_free_for_repairs() -> None:
    """64 + 8 of 72: with two spare trays, 16 of 18 may be used."""
    keep_two = PlacementSpec(spare_nodes_per_domain=2)
    assert slot(tp(64, "GB200"), free_map(rack("a.1")), keep_two) == tuple(f"a.1-t{i}" for i in range(16))
    assert slot(tp(4, "GB200"), free_map(rack("a.1", 2)), keep_two) is None
    assert slot(tp(8), free_map([board("b-0")]), keep_two) == ("b-0",)


@pytest.mark.parametrize("left", [3, 0])
def test_a_tray_that_lost_a_gpu_is_no_spare_for_a_whole_one(left: int) -> None:
    """It could stand in for none of the others, so another one is kept, although this one comes last by name."""
    keep_one = PlacementSpec(spare_nodes_per_domain=1)
    hurt = [*rack("a.1", 3), replace(tray("a.1-t3", "a.1"), allocatable=(("nvidia.com/gpu", left),))]
    assert ("a.1-t0", "a.1-t1") == slot(tp(8, "GB200"), free_map(hurt), keep_one)
    assert slot(tp(12, "GB200"), free_map(hurt), keep_one) is None


def test_replicas_of_a_pool_spread_over_domains_among_equals() -> None:
    free = free_map([*rack("a.1", 2), *rack("b.1", 2)], busy("x", "a.1-t0", 4), busy("y", "b.1-t0", 4))
    shape = tp(4, "GB200")
    assert find_slot(shape, ANYWHERE, free, Neighbours(("a.1-t0",))) == Slot(("b.1-t1",))
    assert find_slot(shape, ANYWHERE, free, Neighbours(("b.1-t0",))) == Slot(("a.1-t1",))


ZONE = "topology.kubernetes.io/zone"
OVER_ZONES = PlacementSpec(spread="Zone")


def zones(*names: str) -> list[NodeRecord]:
    """Two boards in each of these zones."""
    return [board(f"{zone}-{index}", labels={ZONE: zone}) for zone in names for index in (0, 1)]


def test_replicas_that_shall_spread_over_zones_do_so_before_they_fill_a_board() -> None:
    """All of them would fit the board that the first has opened."""
    free, homes = free_map(zones("a", "b", "c")), list[str]()
    for _ in range(6):
        found = find_slot(tp(2), OVER_ZONES, free, Neighbours(tuple(homes)))
        assert isinstance(found, Slot)
        homes += found.nodes
        free.reserve(Hold(found.nodes[0], 2, "pool team/chat"))
    assert ["a-0", "b-0", "c-0", "a-0", "b-0", "c-0"] == homes


def test_a_sibling_on_a_node_that_takes_nothing_new_is_in_its_zone_all_the_same() -> None:
    """Two on one board are two."""
    sick = [replace(node, faults=("GpuMemWatch",)) if node.name == "a-0" else node for node in zones("a", "b")]
    free = free_map(sick, busy("x", "a-1", 4))
    assert Slot(("b-0",)) == find_slot(tp(2), OVER_ZONES, free, Neighbours(("a-0",)))
    assert Slot(("a-1",)) == find_slot(tp(2), OVER_ZONES, free, Neighbours(("a-0", "b-0", "b-0")))


def test_a_zone_without_room_is_passed_over() -> None:
    free = free_map(zones("a", "b"), busy("x", "b-0", 8), busy("y", "b-1", 8))
    assert Slot(("a-0",)) == find_slot(tp(2), OVER_ZONES, free, Neighbours(("a-0",)))


@pytest.mark.parametrize(
    ("spread", "node"), [("Domain", "b-2"), ("None", "b-2"), ("Zone", "b-0")], ids=["domain", "none", "zone"]
)
def test_a_half_goes_to_the_zone_of_the_other_unless_it_shall_spread_over_zones(spread: str, node: str) -> None:
    """Near counts for more than tight: the fuller board is in the other zone."""
    nodes = [board("b-0", labels={ZONE: "west"}), *(board(f"b-{i}", labels={ZONE: "east"}) for i in (1, 2))]
    free = free_map(nodes, busy("x", "b-0", 6), busy("decode", "b-1", 8))
    there = Neighbours(partners=("b-1",))
    assert find_slot(tp(2), PlacementSpec(spread=spread), free, there) == Slot((node,))


def test_a_half_takes_what_there_is_where_its_zone_is_full() -> None:
    nodes = [board("b-0", labels={ZONE: "west"}), board("b-1", labels={ZONE: "east"})]
    free = free_map(nodes, busy("decode", "b-1", 8))
    assert find_slot(tp(2), ANYWHERE, free, Neighbours(partners=("b-1",))) == Slot(("b-0",))


def test_thousands_of_taints_are_looked_at_once_and_not_for_each_question() -> None:
    """Each of these tolerations is looked for among all taints, and found among none."""
    strange = PlacementSpec(tolerations=tuple(Toleration(f"gone-{index}", "Exists") for index in range(4)))
    tainted = replace(board("b-0"), taints=tuple(taint(f"t{index}") for index in range(10_000)))
    fabric = free_map([tainted, board("b-1")]).fabric

    def ask() -> None:
        free = FreeMap.of(fabric)
        for _ in range(100):
            assert Slot(("b-1",)) == find_slot(tp(2), strange, free)

    assert_quick(ask, yards=1500)
