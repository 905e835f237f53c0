"""Replicas land whole inside one NVLink domain, or nowhere, with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.world import World, expert_spec, external, pool, pool_spec
from tests.fabric.cluster import board, busy, rack
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, KVSpec

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec


def test_a_replica_is_placed_and_serves() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec()))
    world.turn(5)
    assert world.nodes_of("chat") == [("b-0",)]
    assert world.serving("chat") == 1
    assert world.condition("chat", "Placed")[:2] == ("True", "AllPlaced")
    assert world.condition("chat", "Planned")[0] == "True"


def test_tp8_with_4_free_gpus_on_each_of_two_boards_waits_and_says_what_would_make_room() -> None:
    """No pod is created; when a board frees up, the replica is placed without anybody's help."""
    blockers = [busy("batch-0", "b-0", 4), busy("batch-1", "b-1", 4)]
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec()), pods=blockers)
    world.turn(3)
    assert world.nodes_of("chat") == []
    assert set(world.pods) == {"batch-0", "batch-1"}
    status, reason, message = world.condition("chat", "Placed")
    assert (status, reason) == ("False", "NoSlot")
    assert "the largest hole is 4 of 8 on b-0" in message
    assert "free 4 GPUs more on b-0 (held by default/batch-0)" in message
    del world.pods["batch-1"]
    world.turn()
    assert world.nodes_of("chat") == [("b-1",)]
    assert world.condition("chat", "Placed")[:2] == ("True", "AllPlaced")


@pytest.mark.parametrize(
    ("spec", "parallel"),
    [
        (pool_spec(16, external(1), accelerator="GB200"), "TP16"),
        (expert_spec(2, 8), "TP2 DP8 EP16"),
        (expert_spec(1, 16), "TP1 DP16 EP16"),
    ],
    ids=["tensor", "tensor and experts", "experts"],
)
def test_a_16_gpu_replica_lands_inside_one_clique_and_never_across_two(spec: PoolSpec, parallel: str) -> None:
    """Both racks have room for 12 GPUs, 24 in all: that is no slot. Two more trays in one rack are."""
    held = [busy(f"job-{rack_}-{i}", f"{rack_}.1-t{i}", 4) for rack_ in "ab" for i in range(15)]
    world = World.of([*rack("a.1"), *rack("b.1")], pool("moe", spec), pods=held)
    world.turn(3)
    assert world.nodes_of("moe") == []
    assert world.condition("moe", "Placed")[1] == "NoSlot"
    del world.pods["job-b-14"]
    world.turn()
    assert world.nodes_of("moe") == [tuple(f"b.1-t{i}" for i in range(14, 18))]
    plan = world.status("moe").plan
    assert plan is not None
    assert str(plan.shape) == f"GB200 BF16 {parallel}"


def test_of_two_pools_that_want_the_last_slot_one_gets_it_and_the_other_says_who_has_it() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec()), pool("search", pool_spec()))
    world.turn()
    assert world.nodes_of("chat") == [("b-0",)]
    assert world.nodes_of("search") == []
    assert "held by pool team/chat" in world.condition("search", "Placed")[2]
    world.turn(5)
    assert world.nodes_of("search") == []
    assert "held by pool team/chat" in world.condition("search", "Placed")[2]


def test_the_higher_priority_gets_the_last_slot_whatever_the_order_of_listing() -> None:
    low, high = pool("a-low", pool_spec()), pool("z-high", pool_spec(), priority=10)
    for order in ((low, high), (high, low)):
        world = World.of([board("b-0")], *order)
        world.turn()
        assert world.nodes_of("z-high") == [("b-0",)]
        assert world.nodes_of("a-low") == []


def test_a_slot_that_is_promised_is_not_taken_back_for_a_higher_priority() -> None:
    world = World.of([board("b-0")], pool("a-low", pool_spec()))
    world.turn()
    world.pools["z-high"] = pool("z-high", pool_spec(), priority=10)
    world.turn(4)
    assert world.nodes_of("a-low") == [("b-0",)]
    assert world.nodes_of("z-high") == []


def test_as_many_replicas_as_fit_are_placed_and_the_rest_wait() -> None:
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(8, external(3))))
    world.turn(4)
    assert sorted(world.nodes_of("chat")) == [("b-0",), ("b-1",)]
    assert world.condition("chat", "Placed")[2].startswith("2 of 3 replicas placed; ")
    world.nodes.append(board("b-2"))
    world.turn()
    assert len(world.nodes_of("chat")) == 3


def test_replica_ids_grow_and_are_never_used_again() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec(4, external(2))))
    world.turn(4)
    world.edit("chat", pool_spec(4, external(1)))
    world.turn(4)
    world.edit("chat", pool_spec(4, external(2)))
    world.turn()
    assert [each.replica for each in world.status("chat").assignments] == [0, 2]
    assert world.status("chat").next_replica == 3


def test_a_slot_that_is_lost_before_release_is_given_up_and_placed_anew() -> None:
    """Somebody's pod was bound to the promised GPUs while ours were still gated."""
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec()))
    world.turn()
    assert world.nodes_of("chat") == [("b-0",)]
    world.pods["intruder"] = busy("intruder", "b-0", 8)
    world.turn()
    assert world.nodes_of("chat") == [("b-1",)]
    assert [event.reason.value for event in world.decision("chat").events] == ["SlotTaken"]
    assert world.status("chat").failure is None


def test_a_pool_that_is_being_deleted_is_left_alone_and_promises_nothing() -> None:
    world = World.of([board("b-0")], pool("old", pool_spec()), pool("new", pool_spec(), priority=-1))
    world.turn()
    world.pools["old"] = replace(world.pools["old"], deleting=True)
    decisions = world.decide()
    assert [each.key.name for each in decisions.pools] == ["new"]
    assert world.nodes_of("new") == [("b-0",)]


def test_no_replica_is_placed_where_its_kv_is_more_than_the_hosts_memory() -> None:
    """Its pods may use what the node has, as they request nothing: less than they will use ends them all."""
    small = replace(board("b-0"), offers=(("memory", 2.0**36),))
    large = replace(board("b-1"), offers=(("memory", 2.0**40),))
    spec = replace(pool_spec(8), kv=KVSpec(offload_json='{"size":"256Gi"}'))
    world = World.of([small], pool("chat", spec))
    world.turn(3)
    assert world.nodes_of("chat") == []
    assert "node b-0 has 64Gi memory, not 272Gi" in world.condition("chat", "Placed")[2]
    world.nodes = [small, large]
    world.turn()
    assert world.nodes_of("chat") == [("b-1",)]


def test_no_replica_is_placed_where_its_kv_is_more_than_the_disk() -> None:
    small, large = (
        replace(board(name), offers=(("ephemeral-storage", size), ("memory", 2.0**41)))
        for name, size in (("b-0", 2.0**38), ("b-1", 2.0**41))
    )
    kept = KVSpec(offload_json='{"size":"256Gi","diskGiB":1000}')
    spec = replace(pool_spec(8), kv=kept, engine=EngineSpec(name=EngineName.SGLang))
    world = World.of([small], pool("chat", spec))
    world.turn(3)
    assert world.nodes_of("chat") == []
    assert "node b-0 has 256Gi ephemeral-storage, not 1000Gi" in world.condition("chat", "Placed")[2]
    world.nodes = [small, large]
    world.turn()
    assert world.nodes_of("chat") == [("b-1",)]


def test_no_replica_is_placed_where_a_pod_would_lack_what_else_it_asks_for() -> None:
    """Nothing is created for it until a node offers the device; the plan itself stands."""
    bare = [replace(board(name), offers=(("memory", 2.0**41),)) for name in ("b-0", "b-1")]
    spec = pool_spec()
    asking = replace(spec, engine=replace(spec.engine, resources=(("rdma/ib", "8"),)))
    world = World.of(bare, pool("chat", asking))
    world.turn(3)
    assert world.pods == {}
    assert world.condition("chat", "Planned")[0] == "True"
    assert "node b-0 has 0 rdma/ib, not 8" in world.condition("chat", "Placed")[2]
    world.nodes = [bare[0], replace(bare[1], offers=(("memory", 2.0**41), ("rdma/ib", 8.0)))]
    world.turn()
    assert world.nodes_of("chat") == [("b-1",)]
