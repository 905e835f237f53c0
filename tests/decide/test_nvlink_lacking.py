"""Splits whose KV should go over NVLink and cannot: what is refused by name, and what waits for room and says so."""

from __future__ import annotations

from tests.decide.nvlink import SETTLED, half, planned, racks, serving, world_of
from tests.decide.test_compute_domains import somebodys
from tests.decide.world import World, external, of_kueue, pool, pool_spec
from tests.fabric.cluster import board, busy, rack, tray
from weft.domain.workload import Role


def test_a_split_that_outgrows_its_rack_gets_no_more_and_says_so() -> None:
    """KV from another rack would go over TCP without a word."""
    world = world_of([*rack("a.1", 3), *rack("b.1", 3)], half(Role.Prefill, 2), half(Role.Decode, 2))
    world.turn(SETTLED)
    assert 1 == len(racks(world))
    assert 3 == len(world.nodes_of("pd-prefill")) + len(world.nodes_of("pd-decode"))
    told = [world.condition(name, "Placed") for name in ("pd-prefill", "pd-decode")]
    (lacks,) = [message for status, reason, message in told if (status, reason) == ("False", "NoSlot")]
    assert "3 OutsideNvlinkDomain (b.1-t0, b.1-t1, b.1-t2)" in lacks


def test_parts_of_nodes_are_refused_by_name() -> None:
    """The driver gives the channel of a node to one claim, and each pod has a claim of its own."""
    world = world_of(rack("a.1", 4), half(Role.Prefill, tp=2), half(Role.Decode))
    world.decide()
    status, _, message = planned(world)
    assert "False" == status
    assert "spec.kvTransfer.transport NVLink gives a node to one pod" in message
    assert "allowed: 4 GPUs in each pod" in message


def test_without_the_driver_it_is_refused_by_name() -> None:
    world = world_of(rack("a.1", 4), half(Role.Prefill), half(Role.Decode))
    world.driver = False
    world.decide()
    assert ("False", "NoAccelerator") == planned(world)[:2]
    assert "no ComputeDomains are formed on them; use Auto, RDMA or TCP" in planned(world)[2]


def test_boards_are_refused_by_name() -> None:
    boards = [board("b-0"), board("b-1")]
    world = world_of(boards, half(Role.Prefill, tp=8, name="H200"), half(Role.Decode, tp=8, name="H200"))
    world.decide()
    assert ("False", "NoAccelerator") == planned(world)[:2]
    assert "needs nodes that share an NVLink domain" in planned(world)[2]


def test_a_scheduler_that_picks_nodes_is_refused_by_name() -> None:
    world = world_of(rack("a.1", 4), *(of_kueue(half(role)) for role in (Role.Prefill, Role.Decode)))
    world.decide()
    assert ("False", "FeatureUnsupported") == planned(world)[:2]
    assert "spec.kvTransfer.transport NVLink with scheduler.name Kueue" in planned(world)[2]


def test_a_pool_that_is_half_of_no_split_is_refused_by_name() -> None:
    world = World.of(rack("a.1", 4), pool("alone", half(Role.Prefill, pair="")))
    world.driver = True
    world.decide()
    status, reason, message = world.condition("alone", "Planned")
    assert ("False", "FeatureUnsupported") == (status, reason)
    assert "spec.kvTransfer.transport NVLink for a pool of role Prefill alone" in message


def test_nobody_moves_for_it() -> None:
    """Its rack is chosen once: what moves open elsewhere is of no use to it, and in its rack it takes whole nodes."""
    world = world_of(rack("a.1", 3), half(Role.Prefill), half(Role.Decode, 2))
    world.pools = {"other": pool("other", pool_spec(4, external(1), "GB200"), priority=1), **world.pools}
    world.turn(SETTLED)
    assert 1 == world.serving("other")
    world.nodes += rack("b.1", 1)
    world.turn(2)
    assert ((1, 1), {"a.1"}) == (serving(world), racks(world))
    status, reason, message = world.condition("pd-decode", "Placed")
    assert ("False", "NoSlot") == (status, reason)
    assert "would make room" not in message


def test_nodes_in_another_compute_domain_are_named_where_they_lack() -> None:
    world = world_of(rack("a.1", 3), half(Role.Prefill), half(Role.Decode, 2))
    world.theirs = (somebodys("a.1-t0"),)
    world.turn(SETTLED)
    assert "node a.1-t0 is in ComputeDomain other/theirs, and can be in one only" in str(
        [world.condition(name, "Placed") for name in ("pd-prefill", "pd-decode")]
    )


def test_where_all_racks_are_full_it_goes_nowhere_else() -> None:
    """A tray that shares NVLink with no other would have nobody to hand KV to."""
    world = world_of([*rack("a.1", 2), tray("lone", None)], half(Role.Prefill), half(Role.Decode))
    world.pods = {f"job-{at}": busy(f"job-{at}", f"a.1-t{at}", 4) for at in (0, 1)}
    world.turn(2)
    assert ([], []) == (world.nodes_of("pd-prefill"), world.nodes_of("pd-decode"))
    assert "free 4 GPUs more on a.1-t0" in str(
        [world.condition(name, "Placed") for name in ("pd-prefill", "pd-decode")]
    )


def test_half_a_pair_is_not_bound_to_a_rack_that_has_no_room_for_the_other() -> None:
    """It would serve nobody, and stay there when room for both comes elsewhere."""
    world = world_of([*rack("a.1", 3), *rack("b.1", 4)], half(Role.Prefill), half(Role.Decode))
    taken = [node.name for node in world.nodes if node.name != "a.1-t0"]
    world.pods = {f"job-{name}": busy(f"job-{name}", name, 4) for name in taken}
    world.turn(SETTLED)
    assert ([], []) == (world.nodes_of("pd-prefill"), world.nodes_of("pd-decode"))
    told = [world.condition(name, "Placed") for name in ("pd-prefill", "pd-decode")]
    assert ["NoSlot", "NoSlot"] == [reason for _, reason, _ in told]
    world.pods = {name: pod for name, pod in world.pods.items() if not name.startswith("job-b")}
    world.turn(SETTLED)
    assert ({"b.1"}, (1, 1)) == (racks(world), serving(world))
