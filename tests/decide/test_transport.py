"""What the network between the halves of a split should do: one figure, for predictions and for those who read it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.test_splits import half, over_rdma, split_conditions, split_world
from tests.scaling.cases import seen
from weft.catalog import load
from weft.control.metrics.telemetry import Telemetry
from weft.decide.telling.transport import transport_of
from weft.domain.spec import EngineSpec, KVSpec
from weft.domain.transport import Transport
from weft.domain.workload import Role
from weft.perf import ReplicaModel, handed_over_seconds
from weft.perf.service import service
from weft.shaping import Supply, resolve_architecture
from weft.shaping.candidates import Option
from weft.shaping.case import ShapeCase
from weft.shaping.request import ShapeRequest

if TYPE_CHECKING:
    from tests.decide.world import World

NICS = (("rdma/ib", "1"),)


def summary(world: World) -> Transport:
    assert world.last is not None
    wire = world.last.splits[0].transport
    assert wire is not None
    return wire


def over(transport: str = "Auto", resources: tuple[tuple[str, str], ...] = ()) -> World:
    engine, kv = EngineSpec(resources=resources), KVSpec(transport=transport)
    prefill, decode = (replace(half(role), engine=engine, kv=kv) for role in (Role.Prefill, Role.Decode))
    world = split_world(prefill, decode)
    world.decide()
    return world


@pytest.mark.parametrize(
    ("transport", "resources", "name"), [("Auto", (), "TCP"), ("Auto", NICS, "RDMA"), ("TCP", NICS, "TCP")]
)
def test_auto_is_rdma_where_pods_have_devices_of_it(
    transport: str, resources: tuple[tuple[str, str], ...], name: str
) -> None:
    assert summary(over(transport, resources)).name == name


@pytest.mark.parametrize("with_devices", [Role.Prefill, Role.Decode])
@pytest.mark.parametrize(("transport", "reason"), [("Auto", "PairIncompatible"), ("RDMA", "SpecInvalid")])
def test_no_rate_is_told_of_rdma_that_one_half_has_no_devices_for(
    with_devices: Role, transport: str, reason: str
) -> None:
    halves = [replace(half(role), kv=KVSpec(transport=transport)) for role in (Role.Prefill, Role.Decode)]
    prefill, decode = (over_rdma(each) if each.role is with_devices else each for each in halves)
    world = split_world(prefill, decode)
    world.decide()
    assert world.last is not None
    assert world.last.splits[0].transport is None
    assert split_conditions(world)["Planned"] == ("False", reason)


def sender() -> ReplicaModel:
    spec, catalog = half(Role.Prefill), load()
    accelerator = catalog.accelerator("H200")
    supply = Supply("H200", accelerator.memory_bytes, 8, 8)
    request = ShapeRequest(spec, resolve_architecture(spec.model, catalog), spec.workload, (supply,))
    world = split_world(half(Role.Prefill), half(Role.Decode))
    world.turn(2)
    plan = world.status("pd-prefill").plan
    assert plan is not None
    return ShapeCase(Option(plan.shape, supply, accelerator), request, catalog).replica


def test_the_status_has_what_predictions_count_with() -> None:
    replica, spec = sender(), half(Role.Prefill)
    wire = summary(over())
    assert wire == transport_of(spec, replica)
    assert wire.bytes_per_second == 1.4e9
    assert wire.mean_seconds == service(replica, spec.workload, Role.Prefill).handover_seconds
    assert wire.p95_seconds > wire.mean_seconds


def test_what_is_measured_stands_beside_what_such_prompts_should_take() -> None:
    world = split_world(half(Role.Prefill), half(Role.Decode))
    world.turn(5)
    world.observations = {
        "uid-pd-prefill": replace(seen(8.0, 1), input_tokens=4000.0),
        "uid-pd-decode": replace(seen(8.0, 1), transfer_seconds=0.9),
    }
    world.turn()
    assert world.last is not None
    figures = world.last.splits[0].observed
    assert figures is not None
    assert (figures.transfer, figures.transfer_expected) == (0.9, handed_over_seconds(sender(), 4000.0))


def test_nothing_is_expected_without_measurements_or_without_a_plan() -> None:
    world = split_world(half(Role.Prefill), half(Role.Decode))
    world.turn(5)
    world.observations = {"uid-pd-prefill": seen(8.0, 1), "uid-pd-decode": seen(8.0, 1)}
    world.turn()
    assert world.last is not None
    figures = world.last.splits[0].observed
    assert figures is not None
    assert figures.transfer is figures.transfer_expected is None
    unplanned = over("RDMA")  # which needs devices
    assert unplanned.last is not None
    assert unplanned.last.splits[0].transport is None


def test_metrics_have_the_rate_and_the_times() -> None:
    world, telemetry = over(resources=NICS), Telemetry()
    assert world.last is not None
    telemetry.show(world.snapshot(), world.last)
    wire, text = summary(world), telemetry.text().decode()
    rate = 'weft_split_transport_bytes_per_second{namespace="team",split="pd",transport="RDMA"}'
    assert f"{rate} {wire.bytes_per_second:g}".replace("e+10", "e+010") in text.replace("e+10", "e+010")
    for prompt, seconds in (("mean", wire.mean_seconds), ("p95", wire.p95_seconds)):
        labels = f'{{namespace="team",prompt="{prompt}",split="pd"}}'
        assert f"weft_split_kv_transfer_expected_seconds{labels} {seconds}" in text


def test_it_reads_as_a_sentence() -> None:
    assert str(Transport("RDMA", 45e9, 0.031, 0.052)) == (
        "RDMA, 45 GB/s of each prefill GPU; KV of a mean prompt in 31 ms, of a p95 one in 52 ms"
    )
    assert str(Transport("TCP", 1.4e9, 0.9, 1.2)).startswith(
        "TCP, 1.4 GB/s of each prefill GPU, if the pods' network has as much; KV of"
    )
