"""What a scrape of the operator tells of a pool's traffic."""

from __future__ import annotations

from dataclasses import replace

from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board
from weft.control.metrics.telemetry import Telemetry
from weft.control.metrics.traffic_gauges import TRAFFIC
from weft.domain.snapshot import Caveat, PoolObservation
from weft.domain.start_up import MeasuredStart

SEEN = PoolObservation(
    expected=1,
    answered=1,
    age_seconds=1.0,
    requests_per_second=2.0,
    waiting=4.0,
    waiting_for_kv=3.0,
    input_tokens=560.0,
    input_tokens_p95=1500.0,
    computed_input_tokens=420.0,
    startup_seconds=95.5,
    tpot=((95, 0.004),),
    arrivals=25.0,
    arrival_seconds=10.0,
    arrivals_at_front=True,
    caveats=(Caveat("the engine does not show x"),),
    starts=(
        MeasuredStart(3, (2, 300, 0, 20, 30)),
        MeasuredStart(4, (2, 5, 0, 21, 30)),
        MeasuredStart(5, (3, 5, 0, 22, 30)),
    ),
)


def shown(*observations: PoolObservation | None) -> list[str]:
    world, telemetry = World.of([board("b-0")], pool("chat", pool_spec(1))), Telemetry()
    snapshot, decisions = world.snapshot(), world.decide()
    for seen in observations:
        telemetry.show(replace(snapshot, observations={} if seen is None else {"uid-chat": seen}), decisions)
    lines = telemetry.text().decode().splitlines()
    names = tuple(gauge.name + "{" for gauge in TRAFFIC.gauges)
    return [
        line.replace('namespace="team",', "").replace('pool="chat"', "*") for line in lines if line.startswith(names)
    ]


def test_every_figure_that_is_known_is_told() -> None:
    assert shown(SEEN) == [
        "weft_pool_requests_per_second{*} 2.0",
        "weft_pool_requests_waiting{*} 4.0",
        "weft_pool_requests_waiting_for_kv{*} 3.0",
        "weft_pool_startup_seconds{*} 95.5",
        'weft_pool_latency_seconds{kind="tpot",percentile="95",*} 0.004',
        'weft_pool_tokens{kind="input",*,statistic="mean"} 560.0',
        'weft_pool_tokens{kind="input",*,statistic="p95"} 1500.0',
        'weft_pool_tokens{kind="computed_input",*,statistic="mean"} 420.0',
        'weft_pool_requests_arriving_per_second{counted_by="front",*} 2.5',
        'weft_pool_startup_phase_seconds{phase="setup",*} 2.0',
        'weft_pool_startup_phase_seconds{phase="image",*} 5.0',
        'weft_pool_startup_phase_seconds{phase="download",*} 0.0',
        'weft_pool_startup_phase_seconds{phase="weights",*} 21.0',
        'weft_pool_startup_phase_seconds{phase="engine",*} 30.0',
        'weft_pool_metrics_caveat{caveat="the engine does not show x",*} 1.0',
    ]


def test_what_is_not_known_any_more_is_absent() -> None:
    assert shown(SEEN, None) == []
