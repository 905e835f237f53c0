"""What a scrape reads of the pools, whenever it comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board
from weft.control.fabric_gauges import MOST_DOMAINS
from weft.control.telemetry import Telemetry
from weft.domain.decision import Decisions
from weft.domain.pool_memory import Outlier, Outliers
from weft.domain.reasons import Explanation, Reason
from weft.domain.room import DomainRoom
from weft.domain.shape import Calibration
from weft.domain.status import Condition

POOLS = 50
ROUNDS = 20


def test_a_scrape_during_a_decision_reads_every_pool() -> None:
    """Figures are replaced in one thread and read in another: no scrape finds a pool between the old and the new."""
    world = World.of([board("b-0")], *(pool(f"pool-{i}", pool_spec(1)) for i in range(POOLS)))
    snapshot, decisions, telemetry = world.snapshot(), world.decide(), Telemetry()
    telemetry.show(snapshot, decisions)
    with ThreadPoolExecutor(max_workers=1) as thread:
        shown = [thread.submit(telemetry.show, snapshot, decisions) for _ in range(ROUNDS)]
        scrapes = [telemetry.text().decode() for _ in range(ROUNDS)]
        for each in shown:
            each.result()
    assert {text.count("\nweft_pool_desired_replicas{") for text in scrapes} == {POOLS}


def test_ready_and_what_keeps_it_from_being_are_shown_with_their_reasons() -> None:
    """They are in the status, written by converging; alerts are about them."""
    world = World.of([board("b-0")], pool("chat", pool_spec(1)))
    decisions, telemetry = world.decide(), Telemetry()
    progress = (
        Condition("Ready", "False", Explanation(Reason.ImageUnavailable, "no such image")),
        Condition("Stalled", "True", Explanation(Reason.PodRefused, "no")),
        Condition("Placed", "False", Explanation(Reason.NoSlot, "as the status had it before this decision")),
    )
    world.pools["chat"] = replace(world.pools["chat"], conditions=progress)
    telemetry.show(world.snapshot(), decisions)
    shown = [line for line in telemetry.text().decode().splitlines() if line.startswith("weft_pool_condition{")]
    labels = 'namespace="team",pool="chat",reason='
    assert f'weft_pool_condition{{condition="Ready",{labels}"ImageUnavailable"}} 0.0' in shown
    assert f'weft_pool_condition{{condition="Stalled",{labels}"PodRefused"}} 1.0' in shown
    assert ["AllPlaced"] == [line.split('"')[7] for line in shown if 'condition="Placed"' in line]


def test_factors_are_shown_exactly_once_there_are_any() -> None:
    """The status has them rounded; a pool that was never measured has none."""
    world = World.of([board("b-0")], pool("chat", pool_spec(1)), pool("new", pool_spec(1)))
    snapshot, decisions, telemetry = world.snapshot(), world.decide(), Telemetry()
    learning = decisions.memory["uid-chat"].calibration
    assert learning is not None
    learnt = replace(learning, factors=Calibration(1.1234567, 0.9, 3))
    memory = {**decisions.memory, "uid-chat": replace(decisions.memory["uid-chat"], calibration=learnt)}
    telemetry.show(snapshot, replace(decisions, memory=memory))
    shown = [line for line in telemetry.text().decode().splitlines() if line.startswith("weft_calibration{")]
    assert sorted(shown) == [
        'weft_calibration{kind="decode",namespace="team",pool="chat"} 0.9',
        'weft_calibration{kind="prefill",namespace="team",pool="chat"} 1.1234567',
    ]


def test_replicas_that_are_named_as_slow_are_told_and_no_others() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec(1)))
    snapshot, decisions, telemetry = world.snapshot(), world.decide(), Telemetry()
    slow = (Outlier(2, "chat-2-0", 800.0, 1.75, 1000.0), Outlier(3, "chat-3-0", 900.0, 1.6))
    memory = {"uid-chat": replace(decisions.memory["uid-chat"], outliers=Outliers(1000.0, slow))}
    telemetry.show(snapshot, replace(decisions, memory=memory))
    shown = [
        line for line in telemetry.text().decode().splitlines() if line.startswith("weft_pool_slow_replica_ratio{")
    ]
    assert ['weft_pool_slow_replica_ratio{namespace="team",pool="chat",replica="2"} 1.75'] == shown
    telemetry.show(snapshot, decisions)
    assert "weft_pool_slow_replica_ratio{" not in telemetry.text().decode()


def test_part_of_its_transfers_that_fails_is_told_of_replicas_that_are_named_for_that() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec(1)))
    snapshot, decisions, telemetry = world.snapshot(), world.decide(), Telemetry()
    named = [(2, Reason.CutOffFromPrefill), (3, Reason.TransfersFail), (4, Reason.SlowerThanSiblings)]
    found = tuple(Outlier(replica, f"chat-{replica}-0", 800.0, 0.25, 1000.0, why=why) for replica, why in named)
    memory = {"uid-chat": replace(decisions.memory["uid-chat"], outliers=Outliers(1000.0, found))}
    telemetry.show(snapshot, replace(decisions, memory=memory))
    metric = "weft_pool_failed_transfer_ratio{"
    shown = [line for line in telemetry.text().decode().splitlines() if line.startswith(metric)]
    assert [f'{metric}namespace="team",pool="chat",replica="{replica}"}} 0.25' for replica in (2, 3)] == shown


def _fabric_lines(telemetry: Telemetry, metric: str) -> list[str]:
    return [line for line in telemetry.text().decode().splitlines() if line.startswith(f"weft_fabric_{metric}{{")]


def test_holes_are_told_as_the_decision_leaves_them() -> None:
    """A replica that was promised four GPUs a moment ago leaves a hole of four."""
    world = World.of([board("b-0")], pool("chat", pool_spec(4)))
    snapshot, decisions, telemetry = world.snapshot(), world.decide(), Telemetry()
    telemetry.show(snapshot, decisions)
    assert ['weft_fabric_free_gpus{accelerator="H200",domain="b-0",zone=""} 4.0'] == _fabric_lines(
        telemetry, "free_gpus"
    )
    assert ['weft_fabric_largest_slot_gpus{accelerator="H200"} 4.0'] == _fabric_lines(telemetry, "largest_slot_gpus")
    assert 'weft_fabric_free_slots{accelerator="H200",gpus="2"} 2.0' in _fabric_lines(telemetry, "free_slots")
    shares = _fabric_lines(telemetry, "fragmentation_ratio")
    assert 'weft_fabric_fragmentation_ratio{accelerator="H200",gpus="4"} 0.0' in shares
    assert 'weft_fabric_fragmentation_ratio{accelerator="H200",gpus="8"} 1.0' in shares
    telemetry.show(snapshot, replace(decisions, rooms=()))
    assert [] == _fabric_lines(telemetry, "free_gpus")


def test_beyond_a_thousand_domains_only_zones_are_told() -> None:
    """The number of series is bounded."""
    rooms = tuple(DomainRoom(f"z{i % 2}", f"b-{i}", "H200", 8, 2, 2, ((1, 2), (2, 1))) for i in range(MOST_DOMAINS + 2))
    snapshot, decisions, telemetry = World.of([]).snapshot(), Decisions((), rooms=rooms), Telemetry()
    telemetry.show(snapshot, decisions)
    assert [
        'weft_fabric_free_gpus{accelerator="H200",domain="",zone="z0"} 1002.0',
        'weft_fabric_free_gpus{accelerator="H200",domain="",zone="z1"} 1002.0',
    ] == _fabric_lines(telemetry, "free_gpus")
    telemetry.show(snapshot, replace(decisions, rooms=rooms[:MOST_DOMAINS]))
    assert MOST_DOMAINS == len(_fabric_lines(telemetry, "free_gpus"))
