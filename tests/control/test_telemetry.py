"""What a scrape reads of the pools, whenever it comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board
from weft.control.telemetry import Telemetry
from weft.domain.shape import Calibration

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
