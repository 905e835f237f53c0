"""What a scrape reads of the pools, whenever it comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board
from weft.control.telemetry import Telemetry

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
