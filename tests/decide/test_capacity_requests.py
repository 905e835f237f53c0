"""What nothing has room for is told as what would have to be added, for a person or a cluster autoscaler."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import World, expert_spec, external, pool, pool_spec
from tests.fabric.cluster import board, busy, rack
from weft.control.metrics.telemetry import Telemetry
from weft.domain.decision import CapacityRequest
from weft.domain.spec import DomainRule
from weft.domain.texts.units import GIB

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.spec import PoolSpec


def test_nothing_is_asked_for_while_everything_has_a_place() -> None:
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(8, external(2))))
    world.turn(3)
    assert world.decision("chat").request is None
    assert all(each.kind != "CapacityRequested" for each in world.decision("chat").conditions)


def test_missing_boards_are_counted() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec(8, external(3))))
    world.turn(3)
    assert world.decision("chat").request == CapacityRequest("H200", groups=2, nodes=1, gpus_per_node=8)
    assert world.condition("chat", "CapacityRequested") == ("True", "NoSlot", "2 x 8 H200 GPUs free on one node")
    world.nodes += [board("b-1"), board("b-2")]
    world.turn(3)
    assert world.decision("chat").request is None


def test_a_rack_is_asked_for_whole() -> None:
    jobs = [busy(f"job-{index}", f"a.1-t{index}", 4) for index in range(4)]
    world = World.of(rack("a.1"), pool("wide", expert_spec(1, 64)), pods=jobs)
    world.turn(3)
    assert world.decision("wide").request == CapacityRequest("GB200", groups=1, nodes=16, gpus_per_node=4)
    told = "1 x 64 GB200 GPUs free in one NVLink domain, 4 on each of 16 nodes"
    assert world.condition("wide", "CapacityRequested")[2] == told


def test_pipeline_stages_that_may_spread_ask_for_a_domain_each() -> None:
    spec = pool_spec(8)
    spec = replace(
        spec,
        shape=replace(spec.shape, pipeline_parallel=2),
        placement=replace(spec.placement, domain=DomainRule.Preferred),
    )
    world = World.of([board("b-0")], pool("deep", spec))
    world.turn(3)
    assert world.decision("deep").request == CapacityRequest("H200", groups=2, nodes=1, gpus_per_node=8)


def test_it_is_a_metric_as_long_as_it_lasts() -> None:
    world, telemetry = World.of([board("b-0")], pool("chat", pool_spec(8, external(3)))), Telemetry()
    world.turn(3)
    assert world.last is not None
    telemetry.show(world.snapshot(), world.last)
    labels = 'accelerator="H200",domain_gpus="8",namespace="team",node_gpus="8",pool="chat"'
    assert f"weft_pool_capacity_requested_gpus{{{labels}}} 16.0" in telemetry.text().decode()
    world.nodes += [board("b-1"), board("b-2")]
    world.turn(3)
    telemetry.show(world.snapshot(), world.last)
    assert "weft_pool_capacity_requested_gpus{" not in telemetry.text().decode()


def test_how_much_one_domain_takes_along_is_told() -> None:
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(4, external(3))))
    world.turn(3)
    assert (
        world.condition("chat", "Placed")[2]
        == "3 replicas placed: H200 BF16 TP4, at most 2 of them in one NVLink domain"
    )


def offering(node: NodeRecord, **amounts: float) -> NodeRecord:
    """A node of which all is known that pods may request besides GPUs: RDMA devices by `rdma_ib`, bytes of memory."""
    known = tuple((name.replace("_", "/"), amount) for name, amount in amounts.items())
    nics = tuple((name, int(amount)) for name, amount in known if name.startswith("rdma/"))
    return replace(node, offers=known, allocatable=(*node.allocatable, *nics))


def asking(replicas: int = 1, tp: int = 8, **amounts: str) -> PoolSpec:
    """A pool whose pods request that besides GPUs."""
    resources = tuple((name.replace("_", "/"), amount) for name, amount in amounts.items())
    spec = pool_spec(tp, external(replicas))
    return replace(spec, engine=replace(spec.engine, resources=resources))


def requested(world: World) -> tuple[str, str, str]:
    world.turn(3)
    assert world.nodes_of("chat") == []
    return world.condition("chat", "CapacityRequested")


def test_devices_that_no_node_has_are_asked_for_and_no_gpus() -> None:
    """More nodes like these would not help, whatever an autoscaler adds."""
    nodes = [offering(board(name), rdma_ib=8.0) for name in ("b-0", "b-1")]
    world, telemetry = World.of(nodes, pool("chat", asking(rdma_hca="8"))), Telemetry()
    told = "1 x 8 rdma/hca on one node where 8 H200 GPUs are free: no node has that"
    assert requested(world) == ("True", "NodeLacksResource", told)
    request = world.decision("chat").request
    assert request == CapacityRequest("H200", 1, 1, 8, besides=(("rdma/hca", "8"),), on_free_gpus=1)
    assert request.gpus == 0
    assert world.last is not None
    telemetry.show(world.snapshot(), world.last)
    assert "weft_pool_capacity_requested_gpus{" not in telemetry.text().decode()
    world.nodes.append(offering(board("b-2"), rdma_hca=8.0))
    world.turn(3)
    assert world.decision("chat").request is None


def test_memory_that_no_node_has_is_asked_for_with_its_unit() -> None:
    spec = asking(memory="1500Gi", rdma_ib="8")
    world = World.of([offering(board("b-0"), memory=1000 * GIB, rdma_ib=8.0)], pool("chat", spec))
    told = "1 x 1500Gi memory on one node where 8 H200 GPUs are free: no node has that"
    assert requested(world) == ("True", "NodeLacksResource", told)


def test_what_different_nodes_lack_is_asked_for_together() -> None:
    nodes = [offering(board("b-0"), memory=1000 * GIB, rdma_ib=8.0), offering(board("b-1"), memory=2000 * GIB)]
    world = World.of(nodes, pool("chat", asking(memory="1500Gi", rdma_ib="8")))
    assert requested(world)[2].startswith("1 x 1500Gi memory and 8 rdma/ib on one node where ")


def test_where_gpus_are_missing_too_they_are_asked_for_with_what_nodes_lack() -> None:
    nodes, jobs = [offering(board(name), rdma_ib=8.0) for name in ("b-0", "b-1")], [busy("job", "b-0", 4)]
    world = World.of(nodes, pool("chat", asking(3, rdma_hca="8")), pods=jobs)
    told = (
        "2 x 8 H200 GPUs free on one node with 8 rdma/hca; "
        "1 x 8 rdma/hca on one node where 8 H200 GPUs are free: no node has that"
    )
    assert requested(world) == ("True", "NoSlot", told)
    assert world.decision("chat").request == CapacityRequest("H200", 3, 1, 8, (("rdma/hca", "8"),), on_free_gpus=1)


def test_a_rack_that_lacks_devices_is_asked_for_those_on_each_node() -> None:
    spec = expert_spec(1, 64)
    spec = replace(spec, engine=replace(spec.engine, resources=(("rdma/ib", "4"),)))
    world = World.of([offering(tray, memory=900 * GIB) for tray in rack("a.1")], pool("chat", spec))
    told = "1 x 4 rdma/ib on each of 16 nodes in one NVLink domain where 4 GB200 GPUs are free: no node has that"
    assert requested(world) == ("True", "NodeLacksResource", told)
    world.pods = {f"job-{index}": busy(f"job-{index}", f"a.1-t{index}", 4) for index in range(4)}
    told = "1 x 64 GB200 GPUs free in one NVLink domain, 4 on each of 16 nodes with 4 rdma/ib"
    assert requested(world) == ("True", "NoSlot", told)


def test_gpus_are_asked_for_where_another_node_has_all_that_is_needed() -> None:
    """One more like that would help, and so would one that works again; those of the first board do not."""
    nodes = [offering(board("b-0"), memory=1.0), offering(board("b-1"), rdma_ib=8.0)]
    told = ("True", "NoSlot", "1 x 8 H200 GPUs free on one node with 8 rdma/ib")
    for job in (busy("job", "b-1", 8), busy("job", "b-1", 1)):
        assert told == requested(World.of(nodes, pool("chat", asking(rdma_ib="8")), pods=[job]))
    world = World.of([nodes[0], replace(nodes[1], ready=False)], pool("chat", asking(rdma_ib="8")))
    assert told == requested(world)
    request = world.decision("chat").request
    assert request is not None
    assert 8 == request.gpus


def test_gpus_are_asked_for_where_others_hold_the_devices() -> None:
    """A node like these, empty, would do."""
    job = replace(busy("job", "b-0", 4), requests=(("nvidia.com/gpu", 4), ("rdma/ib", 8)))
    world = World.of([offering(board("b-0"), rdma_ib=8.0)], pool("chat", asking(tp=4, rdma_ib="4")), pods=[job])
    assert requested(world) == ("True", "NoSlot", "1 x 4 H200 GPUs free on one node with 4 rdma/ib")


def test_gpus_alone_are_asked_for_where_none_are_free() -> None:
    """Who holds them holds the devices, too."""
    job = replace(busy("job", "b-0", 8), requests=(("nvidia.com/gpu", 8), ("rdma/ib", 8)))
    world = World.of([offering(board("b-0"), rdma_ib=8.0)], pool("chat", asking(rdma_ib="8")), pods=[job])
    assert requested(world) == ("True", "NoSlot", "1 x 8 H200 GPUs free on one node")


def test_nodes_that_the_pool_does_not_select_are_no_help() -> None:
    nodes = [offering(board("b-0", labels={"team": "a"}), memory=1.0), offering(board("b-1"), rdma_ib=8.0)]
    spec = asking(rdma_ib="8")
    spec = replace(spec, placement=replace(spec.placement, node_selector=(("team", "a"),)))
    world = World.of(nodes, pool("chat", spec))
    assert requested(world)[1] == "NodeLacksResource"
