"""A replica that fits nowhere: what it needs, what is there, what would make room, and why each domain lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.fabric.cluster import board, busy, rack, tray
from tests.placement.cases import ANYWHERE, free_map, tp
from weft.domain.reasons import Reason
from weft.domain.spec import DomainRule, PlacementSpec
from weft.placement import Hold, PlacementRefusal, Slot, find_slot, spares_of

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.shape import Shape
    from weft.placement import FreeMap


def refusal(shape: Shape, free: FreeMap, placement: PlacementSpec = ANYWHERE) -> PlacementRefusal:
    found = find_slot(shape, placement, free)
    assert isinstance(found, PlacementRefusal)
    return found


def test_tp8_with_4_free_gpus_on_each_of_two_boards_says_what_would_make_room() -> None:
    """Eight GPUs are free, but no board has them together."""
    free = free_map([board("b-0"), board("b-1")], busy("batch-0", "b-0", 4), busy("batch-1", "b-1", 4))
    found = refusal(tp(8), free)
    assert found.explanation.reason is Reason.NoSlot
    assert found.explanation.message == (
        "H200 FP8 TP8 needs 8 GPUs free on one node: the largest hole is 4 of 8 on b-0; "
        "to make room, free 4 GPUs more on b-0 (held by default/batch-0)"
    )
    assert {name: why.reason for name, why in found.domains} == {
        "b-0": Reason.DomainFragmented,
        "b-1": Reason.DomainFragmented,
    }


def test_the_pool_that_holds_the_last_slot_is_named() -> None:
    free = free_map([board("b-0")])
    free.reserve(Hold("b-0", 8, "pool team/chat"))
    assert "held by pool team/chat" in refusal(tp(8), free).explanation.message


def test_a_board_that_is_too_small_is_said_to_be() -> None:
    found = refusal(tp(8), free_map([board("b-0", gpus=4)]))
    assert "no node has that many at all" in found.explanation.message
    assert [why.reason for _, why in found.domains] == [Reason.DomainTooSmall]


def test_a_rack_names_how_many_trays_are_missing_and_who_has_them() -> None:
    pods = [busy(f"job-{i}", f"a.1-t{i}", 1) for i in range(2)]
    found = refusal(tp(16, "GB200"), free_map([*rack("a.1", 5), *rack("b.1", 2)], *pods))
    assert found.explanation.message == (
        "GB200 FP8 TP16 needs 4 nodes with 4 GPUs free each inside one NVLink domain: a.1 comes nearest with 3; "
        "to make room, free 1 more of its nodes (held by default/job-0, default/job-1)"
    )
    assert dict(found.domains)["b.1"].reason is Reason.DomainTooSmall


def test_nodes_that_would_do_but_for_a_cordon_are_listed() -> None:
    cordoned = replace(board("b-1"), cordoned=True)
    message = refusal(tp(8), free_map([board("b-0"), cordoned], busy("x", "b-0", 8))).explanation.message
    assert message.endswith("; passed over: node b-1 is cordoned")


def test_with_no_candidate_at_all_every_reason_is_counted() -> None:
    nodes = [tray("t-0", "a.1"), tray("t-1", "a.1"), replace(board("b-0"), ready=False)]
    found = refusal(tp(8), free_map(nodes))
    assert found.explanation.message.endswith(
        "but no node may take it; passed over: node b-0 is not ready, 2 WrongAccelerator (t-0, t-1)"
    )
    assert {name: why.reason for name, why in found.domains} == {
        "a.1": Reason.WrongAccelerator,
        "b-0": Reason.NodeNotReady,
    }


def test_every_domain_that_lost_has_a_reason() -> None:
    nodes = [board("b-0", gpus=2), *rack("a.1", 2), replace(board("b-1"), cordoned=True), board("b-2")]
    free = free_map(nodes, busy("x", "b-2", 1))
    assert {name for name, _ in refusal(tp(8), free).domains} == {each.name for each in free.fabric.domains}


class TestItsOwn:
    """Replicas beside which the missing one would serve are not told to make room for it."""

    OWN = frozenset({"pool team/pd-prefill", "pool team/pd-decode"})

    def message(self, free: FreeMap, size: int = 8, accelerator: str = "H200") -> str:
        found = find_slot(tp(size, accelerator), ANYWHERE, free, own=self.OWN)
        assert isinstance(found, PlacementRefusal)
        return found.explanation.message

    def test_a_node_of_others_is_named_rather_than_its_own(self) -> None:
        """Its own node would need the least freeing."""
        free = free_map([board("b-0"), board("b-1")], busy("job", "b-1", 6))
        free.reserve(Hold("b-0", 4, "pool team/pd-decode"))
        assert self.message(free).endswith("free 6 GPUs more on b-1 (held by default/job)")
        assert refusal(tp(8), free).explanation.message.endswith("on b-0 (held by pool team/pd-decode)")

    def test_a_node_of_both_is_named_where_others_hold_enough(self) -> None:
        free = free_map([board("b-0")], busy("job", "b-0", 4))
        free.reserve(Hold("b-0", 4, "pool team/pd-decode"))
        assert self.message(free, 4).endswith("free 4 GPUs more on b-0 (held by default/job)")

    def test_where_its_own_hold_too_much_nodes_are_missing(self) -> None:
        free = free_map([board("b-0"), board("b-1")], busy("job", "b-1", 4))
        for node in ("b-0", "b-1"):
            free.reserve(Hold(node, 4, "pool team/pd-decode"))
        assert self.message(free).endswith(
            "the largest hole is 4 of 8 on b-0; its own replicas (of pool team/pd-decode) hold too much "
            "of every node that is large enough: add a node with 8 GPUs"
        )

    def test_a_rack_where_others_can_make_room_comes_before_its_own(self) -> None:
        jobs = [busy(f"job-{index}", f"b.1-t{index}", 4) for index in range(2)]
        free = free_map([*rack("a.1", 3), *rack("b.1", 2)], *jobs)
        for node in ("a.1-t0", "a.1-t1"):
            free.reserve(Hold(node, 4, "pool team/pd-prefill"))
        assert self.message(free, 8, "GB200").endswith(
            "b.1 comes nearest with 0; to make room, free 2 more of its nodes (held by default/job-0, default/job-1)"
        )

    def test_racks_full_of_its_own_are_said_to_be(self) -> None:
        free = free_map(rack("a.1", 3), busy("job", "a.1-t2", 1))
        for node in ("a.1-t0", "a.1-t1"):
            free.reserve(Hold(node, 4, "pool team/pd-prefill"))
        assert self.message(free, 8, "GB200").endswith(
            "a.1 comes nearest with 0; its own replicas (of pool team/pd-prefill) hold too much "
            "of every NVLink domain that is large enough: add nodes"
        )


class TestSpares:
    """`spareNodesPerDomain` is named where it keeps a replica out, and its nodes are not counted as free."""

    def test_a_replica_of_two_trays_is_told_which_tray_is_kept(self) -> None:
        found = refusal(tp(8, "GB200"), free_map(rack("a.1", 2)), PlacementSpec(spare_nodes_per_domain=1))
        assert found.explanation.message == (
            "GB200 FP8 TP8 needs 2 nodes with 4 GPUs free each inside one NVLink domain: a.1 comes nearest with 1, "
            "and no NVLink domain has that many at all; spareNodesPerDomain keeps a.1-t1 free: lower it to use it"
        )
        assert dict(found.domains)["a.1"].reason is Reason.DomainTooSmall
        assert "of which spareNodesPerDomain keeps 1 free" in dict(found.domains)["a.1"].message

    def test_a_tray_of_its_own_is_freed_or_taken_from_the_spares(self) -> None:
        free = free_map(rack("a.1", 2), busy("job", "a.1-t0", 3))
        message = refusal(tp(2, "GB200"), free, PlacementSpec(spare_nodes_per_domain=1)).explanation.message
        assert message == (
            "GB200 FP8 TP2 needs 2 GPUs free on one node: the largest hole is 1 of 4 on a.1-t0; to make room, free "
            "1 GPU more on a.1-t0 (held by default/job); spareNodesPerDomain keeps a.1-t1 free: lower it to use it"
        )

    def test_what_is_freed_fills_up_the_spares_before_it_helps(self) -> None:
        jobs = [busy(f"job-{index}", f"a.1-t{index}", 4) for index in range(3)]
        message = refusal(tp(4, "GB200"), free_map(rack("a.1", 3), *jobs), PlacementSpec(spare_nodes_per_domain=2))
        assert message.explanation.message.endswith(
            "free 3 more of the nodes of a.1 (held by default/job-0, default/job-1, default/job-2), "
            "of which spareNodesPerDomain keeps 2"
        )

    def test_a_pool_that_keeps_every_node_is_told_so(self) -> None:
        free = free_map(rack("a.1", 2))
        message = refusal(tp(4, "GB200"), free, PlacementSpec(spare_nodes_per_domain=2)).explanation.message
        assert message.endswith(
            "every node that may take it is kept as a spare; "
            "spareNodesPerDomain keeps a.1-t0, a.1-t1 free: lower it to use them"
        )

    def test_what_other_pools_keep_is_told(self) -> None:
        """It looks idle to everybody."""
        free = free_map(rack("a.1", 3), busy("job", "a.1-t0", 4))
        for node in ("a.1-t1", "a.1-t2"):
            free.reserve(Hold(node, 4, spares_of("pool team/chat")))
        message = refusal(tp(4, "GB200"), free).explanation.message
        assert message.endswith("; a.1-t1, a.1-t2 are kept as spares of pool team/chat")


def test_the_nearest_domain_is_one_that_could_hold_it() -> None:
    """A full rack of five helps where an empty one of three never will."""
    jobs = [busy(f"job-{index}", f"b.1-t{index}", 4) for index in range(5)]
    free = free_map([*rack("a.1", 3), *rack("b.1", 5)], *jobs)
    message = refusal(tp(16, "GB200"), free).explanation.message
    assert "b.1 comes nearest with 0; to make room, free 4 more of its nodes" in message


def with_the_rest(node: NodeRecord, **amounts: float) -> NodeRecord:
    """A node of which everything is known that it offers."""
    return replace(node, offers=tuple((name.replace("_", "/"), amount) for name, amount in amounts.items()))


def test_a_device_that_no_node_offers_is_named() -> None:
    """The scheduler would leave the pod pending for ever."""
    nodes = [with_the_rest(board(name), rdma_ib=8.0, cpu=192.0) for name in ("b-0", "b-1")]
    found = find_slot(tp(8), ANYWHERE, free_map(nodes), needs=(("rdma/hca", "8"),))
    assert isinstance(found, PlacementRefusal)
    assert found.explanation.message.endswith(
        "no node may take it; passed over: 2 NodeLacksResource (b-0, b-1): node b-0 has 0 rdma/hca, not 8"
    )


def test_the_rdma_devices_that_a_node_has_are_named_where_it_lacks_the_wanted_ones() -> None:
    """Each device plugin lets the administrator choose the name: a pool that uses another one's is easily mended."""
    nodes = [with_the_rest(board(name), rdma_ib=8.0, cpu=192.0) for name in ("b-0", "b-1")]
    nodes = [replace(each, allocatable=(*each.allocatable, ("rdma/ib", 8))) for each in nodes]
    found = find_slot(tp(8), ANYWHERE, free_map(nodes), needs=(("rdma/hca", "8"),))
    assert isinstance(found, PlacementRefusal)
    assert found.explanation.message.endswith("node b-0 has 0 rdma/hca, not 8 (its RDMA devices: 8 rdma/ib)")
    for needs in ((("rdma/ib", "9"),), (("cpu", "200"),)):
        found = find_slot(tp(8), ANYWHERE, free_map(nodes), needs=needs)
        assert isinstance(found, PlacementRefusal)
        assert "RDMA" not in found.explanation.message


def test_devices_that_others_hold_are_not_there() -> None:
    nodes = [with_the_rest(board(name), rdma_ib=8.0) for name in ("b-0", "b-1")]
    other = replace(busy("x", "b-0", 1), requests=(("nvidia.com/gpu", 1), ("rdma/ib", 4)))
    assert find_slot(tp(4), ANYWHERE, free_map(nodes, other), needs=(("rdma/ib", "8"),)) == Slot(("b-1",))
    assert find_slot(tp(4), ANYWHERE, free_map(nodes, other), needs=(("rdma/ib", "4"),)) == Slot(("b-0",))


def test_nodes_without_huge_pages_are_passed_over_by_name() -> None:
    """Many nodes say that they have none of a size."""
    few = replace(board("b-0"), offers=(("hugepages-2Mi", 2.0**30),))
    enough = replace(board("b-1"), offers=(("hugepages-2Mi", 2.0**33),))
    asked = (("hugepages-2Mi", "5120Mi"),)
    assert find_slot(tp(1), ANYWHERE, free_map([few, enough]), needs=asked) == Slot(("b-1",))
    found = find_slot(tp(1), ANYWHERE, free_map([few]), needs=asked)
    assert isinstance(found, PlacementRefusal)
    assert "node b-0 has 1Gi hugepages-2Mi, not 5Gi" in found.explanation.message


def test_a_node_with_less_memory_than_a_pod_asks_for_is_named() -> None:
    node = with_the_rest(board("b-0"), cpu=192.0, memory=2.0**41)
    free = free_map([node])
    assert find_slot(tp(8), ANYWHERE, free, needs=(("cpu", "192"), ("memory", "2Ti"))) == Slot(("b-0",))
    found = find_slot(tp(8), ANYWHERE, free, needs=(("cpu", "192"), ("memory", "100Ti")))
    assert isinstance(found, PlacementRefusal)
    assert found.explanation.message.endswith("passed over: node b-0 has 2048Gi memory, not 102400Gi")


def test_a_node_of_which_nothing_else_is_known_is_believed_to_have_it() -> None:
    """`weft plan` makes nodes up."""
    assert find_slot(tp(8), ANYWHERE, free_map([board("b-0")]), needs=(("rdma/ib", "8"),)) == Slot(("b-0",))


def test_stages_of_one_gpu_need_a_node_each_and_no_domain() -> None:
    anywhere = PlacementSpec(domain=DomainRule.Preferred)
    free = free_map([board("b-0", gpus=1)])
    found = refusal(replace(tp(1), pipeline_parallel=2, gpus_per_pod=1), free, anywhere)
    assert "needs a node with 1 GPU free for each of 2 pipeline stages: " in found.explanation.message
