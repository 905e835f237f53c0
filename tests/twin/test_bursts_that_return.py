"""Bursts from near nothing that return at no fixed distance: engines that stand already answer them in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.twin.simulated import INPUT, Written, chat, setting
from weft.domain.workload import Slo, Workload
from weft.twin.cluster.start_up import StartPhases
from weft.twin.simulation import SimulationSetting, simulate
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

QUIET, BURST = 0.02, 8.0  # requests/s
LASTING_SECONDS, APART_SECONDS, LEAST_SECONDS = 120.0, (360.0, 900.0), 5400.0
MISSED = 3  # bursts, before anybody can know that they return
OUTPUT = 20
# Six replicas are the fewest that answer all bursts in time: five have 96 to 99.8 % of requests within the targets.
ENOUGH = 6


def bursts(seed: int) -> tuple[Trace, float]:
    """Poisson arrivals of an hour and a half at least, and when the bursts that are missed are over, in seconds."""
    random = np.random.default_rng(seed)
    now, arrivals, ends = 0.0, [], []
    while now < LEAST_SECONDS:
        for seconds, rate in ((random.uniform(*APART_SECONDS), QUIET), (LASTING_SECONDS, BURST)):
            arrivals.append(np.sort(random.uniform(now, now + seconds, random.poisson(seconds * rate))))
            now += seconds
        ends.append(now)
    found = np.append(np.concatenate(arrivals), now)
    alike = np.ones(len(found), dtype=np.int32)
    return Trace(found, alike * INPUT, alike * OUTPUT), ends[MISSED - 1]


def asked() -> PoolRecord:
    """A pool of short answers, so that a few thousand requests are simulated in seconds."""
    known = chat(max_replicas=24)
    assert known.spec is not None
    workload, slo = Workload(1.0, INPUT, OUTPUT, INPUT, OUTPUT), Slo(ttft=((95, 6.0),), tpot=((95, 0.2),))
    return replace(known, spec=replace(known.spec, workload=workload, slo=slo))


def after_the_missed(seed: int) -> SimulationSetting:
    """Starts take two minutes, as long as a burst lasts; what is counted begins behind those that are missed."""
    trace, missed = bursts(seed)
    return setting(trace, asked(), start_up=StartPhases().lasting(120.0), warm_up=missed)


@pytest.mark.parametrize("seed", [1, 2])
def test_from_the_fourth_on_they_are_answered_in_time_for_less_than_half_more_than_a_fixed_fleet(seed: int) -> None:
    """Forecasts alone have 1 to 40 % within the SLO, for nearly as many GPU-hours (ADR 0119)."""
    found = after_the_missed(seed)
    scaled, fixed = simulate(found), simulate(found, Written((0.0, ENOUGH)))
    assert fixed.attainment > 0.98
    assert scaled.attainment > 0.95
    assert scaled.gpu_hours < 1.5 * fixed.gpu_hours
