"""What nothing has room for is told as what would have to be added, for a person or a cluster autoscaler."""

from __future__ import annotations

from dataclasses import replace

from tests.decide.world import World, expert_spec, external, pool, pool_spec
from tests.fabric.cluster import board, busy, rack
from weft.control.metrics.telemetry import Telemetry
from weft.domain.decision import CapacityRequest
from weft.domain.spec import DomainRule


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
