"""What a scrape reads of the pools, whenever it comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests.decide.test_splits import half, split_world
from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board
from weft.control.metrics.fabric_gauges import MOST_DOMAINS
from weft.control.metrics.telemetry import Telemetry
from weft.domain.decision import Decisions
from weft.domain.pool_memory import Outlier, Outliers
from weft.domain.reasons import Explanation, Reason
from weft.domain.room import DomainRoom
from weft.domain.shape import Calibration
from weft.domain.status import Condition
from weft.domain.workload import Role, Slo

POOLS = 50
ROUNDS = 20


def test_a_scrape_during_a_decision_reads_every_pool() -> None:
    """A pass is shown in one thread and read in another: no scrape finds a pool between the old and the new."""
    world = World.of([board("b-0")], *(pool(f"pool-{i}", pool_spec(1)) for i in range(POOLS)))
    snapshot, decisions, telemetry = world.snapshot(), world.decide(), Telemetry()
    telemetry.show(snapshot, decisions)
    with ThreadPoolExecutor(max_workers=1) as thread:
        shown = [thread.submit(telemetry.show, snapshot, decisions) for _ in range(ROUNDS)]
        scrapes = [telemetry.text().decode() for _ in range(ROUNDS)]
        for each in shown:
            each.result()
    assert {text.count("\nweft_pool_desired_replicas{") for text in scrapes} == {POOLS}


def test_a_pass_that_ends_while_a_page_is_made_is_told_by_the_next_one() -> None:
    """Else the first gauges of a page would be of one pass, and the last ones of another."""
    world, telemetry = World.of([board("b-0")], pool("chat", pool_spec(1))), Telemetry()
    snapshot, decisions = world.snapshot(), world.decide()
    telemetry.show(snapshot, decisions)
    collected = telemetry.registry.collect()
    early = next(each for each in collected if each.name == "weft_pool_condition")
    telemetry.show(replace(snapshot, pools=()), replace(decisions, pools=()))
    late = {each.name: len(each.samples) for each in collected}
    assert early.samples
    assert 1 == late["weft_pool_desired_replicas"]
    assert "weft_pool_desired_replicas{" not in telemetry.text().decode()


def test_a_figure_that_cannot_be_read_leaves_all_others_and_is_told_once_it_was_asked_for() -> None:
    world, telemetry = World.of([board("b-0")], pool("chat", pool_spec(1))), Telemetry()
    snapshot, decisions = world.snapshot(), world.decide()
    poison: Any = "no fabric"
    broken = replace(decisions, rooms=poison)
    assert telemetry.show(snapshot, broken) is None
    text = telemetry.text().decode()
    assert 'weft_pool_desired_replicas{namespace="team",pool="chat"} 1.0' in text.splitlines()
    assert "weft_fabric_gpus{" not in text
    failed = telemetry.show(snapshot, decisions)
    assert failed is not None
    assert [None] == list(failed)
    telemetry.text()
    assert {} == telemetry.show(snapshot, decisions)


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


def _lines(telemetry: Telemetry, metric: str) -> list[str]:
    return [line for line in telemetry.text().decode().splitlines() if line.startswith(f"{metric}{{")]


def test_what_a_pool_should_reach_and_why_it_has_so_many_replicas_stands_beside_what_was_measured() -> None:
    """Alerts and panels need the target, the GPUs and the reason of each pool, not only of all pools together."""
    spec = replace(pool_spec(4), slo=Slo(ttft=((95, 0.8),), tpot=((50, 0.02), (95, 0.04))))
    prefill = replace(half(Role.Prefill), slo=Slo(tpot=((95, 0.04),)))  # which has no time per token
    world = World.of([board("b-0")], pool("chat", spec), pool("odd", None), pool("prefill", prefill))
    decisions, telemetry = world.decide(), Telemetry()
    telemetry.show(world.snapshot(), decisions)
    chat = 'namespace="team",'
    assert [
        f'weft_pool_slo_seconds{{kind="ttft",{chat}percentile="95",pool="chat"}} 0.8',
        f'weft_pool_slo_seconds{{kind="tpot",{chat}percentile="50",pool="chat"}} 0.02',
        f'weft_pool_slo_seconds{{kind="tpot",{chat}percentile="95",pool="chat"}} 0.04',
    ] == _lines(telemetry, "weft_pool_slo_seconds")
    assert f'weft_pool_gpus{{{chat}pool="chat"}} 4.0' in _lines(telemetry, "weft_pool_gpus")
    reasons = _lines(telemetry, "weft_pool_scale_reason")
    assert f'weft_pool_scale_reason{{{chat}pool="chat",reason="OwnedExternally"}} 1.0' in reasons
    assert ['weft_fabric_gpus{accelerator="H200"} 8.0'] == _fabric_lines(telemetry, "gpus")


def test_a_split_shows_conditions_of_its_own() -> None:
    """Both halves may serve while the split does not: its front is missing, or they are of two generations."""
    world = split_world(half(Role.Prefill), half(Role.Decode))
    ready = Condition("Ready", "False", Explanation(Reason.FrontNotAuthorized, "no account"))
    decisions, telemetry = world.decide(), Telemetry()
    world.splits["pd"] = replace(world.splits["pd"], conditions=(ready,))
    telemetry.show(world.snapshot(), decisions)
    shown, split = _lines(telemetry, "weft_split_condition"), 'namespace="team",reason='
    assert f'weft_split_condition{{condition="Ready",{split}"FrontNotAuthorized",split="pd"}} 0.0' in shown
    assert f'weft_split_condition{{condition="Planned",{split}"ShapeChosen",split="pd"}} 1.0' in shown
    telemetry.show(replace(world.snapshot(), splits=()), replace(decisions, splits=()))
    assert [] == _lines(telemetry, "weft_split_condition")


def test_what_looked_odd_on_nodes_is_counted_by_reason() -> None:
    odd = [board(name, gpus=0) for name in ("b-0", "b-1")]
    world, telemetry = World.of([*odd, board("b-2")], pool("chat", pool_spec(1))), Telemetry()
    telemetry.show(world.snapshot(), world.decide())
    assert ['weft_fabric_notes{reason="DevicePluginMissing"} 2.0'] == _fabric_lines(telemetry, "notes")
    world.nodes[:] = [board("b-2")]
    telemetry.show(world.snapshot(), world.decide())
    assert [] == _fabric_lines(telemetry, "notes")


@pytest.mark.parametrize("loop", ["decide", "converge"])
def test_mistakes_of_weft_are_counted_from_zero_on(loop: str) -> None:
    """A series that begins with its first mistake has never increased, for Prometheus."""
    assert f'weft_pass_failures_total{{loop="{loop}",reason="Bug"}} 0.0' in Telemetry().text().decode().splitlines()
