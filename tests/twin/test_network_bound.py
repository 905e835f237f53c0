"""A split whose KV travels too slowly: Weft says so and buys nothing for those who wait for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.twin.simulated import BOTH_TARGETS, INPUT, duo, trace
from weft.twin.cluster.start_up import StartPhases
from weft.twin.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.twin.engine.speed import EngineSpeed
    from weft.twin.outcome import SimulationOutcome

EVEN = StartPhases(image_seconds=30.0, weights_seconds=60.0, compile_seconds=5.0, capture_seconds=5.0, spread=0.0)
PREFILL, DECODE = 0, 1
TPOT_ALONE = {"tpot": BOTH_TARGETS["tpot"]}
SEEN_BY = 60.0  # two scrapes, and the first transfers


def linked(
    prompts_per_second: float, *parts: tuple[float, float], slo: Mapping[str, Any] = BOTH_TARGETS
) -> SimulationOutcome:
    """A split each of whose decode engines fetches so many prompts a second, on a trace of (seconds, rate)."""

    def truth(speed: EngineSpeed) -> EngineSpeed:
        return replace(speed, transfer_seconds_per_token=1.0 / (INPUT * prompts_per_second))

    return simulate(duo(trace(*parts), slo=slo, start_up=EVEN, truth=truth))


def counts(outcome: SimulationOutcome, half: int) -> list[int]:
    return [moment.pools[half].desired for moment in outcome.timeline]


def is_bound(outcome: SimulationOutcome) -> set[bool]:
    """What the decode half said once there was something to say."""
    return {moment.pools[DECODE].network_bound for moment in outcome.timeline if moment.at >= SEEN_BY}


@pytest.mark.parametrize("slo", [BOTH_TARGETS, TPOT_ALONE], ids=["both targets", "none of TTFT"])
@pytest.mark.parametrize("fetched", [0.125, 0.5], ids=["an eighth of a prompt a second", "half of one"])
def test_a_narrow_path_is_told_and_whoever_waits_for_kv_buys_no_gpus(fetched: float, slo: Mapping[str, Any]) -> None:
    """One prompt a second comes: deferred requests pile up, fill the memory of decode, and then that of prefill."""
    outcome = linked(fetched, (900.0, 1.0), slo=slo)
    assert {True} == is_bound(outcome)
    for half in (PREFILL, DECODE):
        wanted = counts(outcome, half)
        assert max(wanted) == wanted[0]
    assert max(moment.pools[DECODE].kv_usage for moment in outcome.timeline) > 0.9
    assert max(moment.pools[PREFILL].waiting for moment in outcome.timeline) > 20


@pytest.mark.parametrize("slo", [BOTH_TARGETS, TPOT_ALONE], ids=["both targets", "none of TTFT"])
def test_a_wide_path_is_not_told_of(slo: Mapping[str, Any]) -> None:
    outcome = linked(40.0, (600.0, 1.0), slo=slo)
    assert {False} == is_bound(outcome)
    assert outcome.answers.completed.all()


def test_behind_a_narrow_path_what_more_traffic_needs_is_still_bought() -> None:
    """Nobody who waits counts, and everybody who comes does: prefill would be too small for them."""
    outcome = linked(0.125, (300.0, 1.0), (300.0, 6.0))
    assert {True} == is_bound(outcome)
    assert max(counts(outcome, PREFILL)) > counts(outcome, PREFILL)[0]
