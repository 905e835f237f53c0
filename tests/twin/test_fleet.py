"""The fleet feeds engines the way a front does, through pods that come and go."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from weft.twin.engine.speed import EngineSpeed
from weft.twin.engine.steps import StepTable
from weft.twin.live.fleet import LivePod, LiveStream, SimulatedFleet
from weft.twin.traffic.open_loop import LogNormalLengths, Profile

SPEED = EngineSpeed(
    StepTable({(1, 1): 0.0102, (101, 1): 0.0302}, {(1, 1): 0.00005, (10_001, 1): 0.50005}),
    max_batch=64,
    kv_tokens=200_000,
    transfer_seconds=0.03,
)
STEADY = Profile(((0.0, 4.0),))
STEP = 0.05


def pod(name: str, pool: str = "chat", *, routed: bool = True) -> LivePod:
    """A ready pod."""
    return LivePod(uid=name, address="127.0.0.1", pool=pool, speed=SPEED, routed=routed)


def advance(fleet: SimulatedFleet, start: float, end: float) -> None:
    """Run the fleet's clock."""
    for step in range(round((end - start) / STEP)):
        fleet.advance(start + (step + 1) * STEP, STEP)


def chat() -> SimulatedFleet:
    """One aggregated stream."""
    return SimulatedFleet([LiveStream("chat", "chat", STEADY, LogNormalLengths(800), LogNormalLengths(100))], Random(1))


def test_requests_wait_for_the_first_engine_and_are_then_answered() -> None:
    """A pool without a pod loses nothing; the wait shows in TTFT."""
    fleet = chat()
    advance(fleet, 0, 5)
    record = fleet.records["chat"]
    assert record.answered == 0
    assert len(record.backlog) == record.arrived > 5
    fleet.sync([pod("a")])
    advance(fleet, 5, 15)
    assert not record.backlog
    assert (record.percentile("ttft", 95) or 0) > 1


def test_an_unrouted_pod_finishes_what_it_has_and_gets_nothing_new() -> None:
    """Draining, as the front sees it."""
    fleet = chat()
    fleet.sync([pod("a")])
    advance(fleet, 0, 5)
    fleet.sync([pod("a", routed=False), pod("b")])
    advance(fleet, 5, 20)
    assert fleet.engines["a"].engine.load == 0
    assert fleet.engines["b"].engine.load > 0


def test_a_split_prefills_on_one_side_and_decodes_on_the_other() -> None:
    """The user's TTFT contains the prefill; TPOT comes from the decode side; both engines count work."""
    stream = LiveStream(
        "big", "big-prefill", STEADY, LogNormalLengths(2000), LogNormalLengths(50), decode_pool="big-decode"
    )
    fleet = SimulatedFleet([stream], Random(1))
    fleet.sync([pod("p", "big-prefill"), pod("d", "big-decode")])
    advance(fleet, 0, 20)
    record = fleet.records["big"]
    assert record.answered > 40
    assert 0.05 < (record.percentile("ttft", 50) or 0) < 1
    assert fleet.engines["p"].engine.kv_usage < 0.2  # what was handed over is not kept
    assert b"vllm:generation_tokens_total" in fleet.engines["d"].metrics.text()


def test_what_no_engine_can_hold_is_refused_and_holds_up_nobody() -> None:
    fleet = SimulatedFleet(
        [LiveStream("chat", "chat", STEADY, LogNormalLengths(800, sigma=2.0), LogNormalLengths(100))], Random(1)
    )
    fleet.sync([replace(pod("a"), speed=replace(SPEED, kv_tokens=4000))])
    advance(fleet, 0, 30)
    record = fleet.records["chat"]
    assert 0 < record.refused < record.answered
    assert fleet.engines["a"].engine.load < 0.2 * record.arrived


def test_two_pods_share_the_load_evenly() -> None:
    """Least loaded first."""
    fleet = chat()
    fleet.sync([pod("a"), pod("b")])
    advance(fleet, 0, 30)
    counts = [live.metrics.text().decode() for live in fleet.engines.values()]
    answered = [float(text.split("vllm:request_success_total{")[1].split("} ")[1].split("\n")[0]) for text in counts]
    assert min(answered) > 0.7 * max(answered)
