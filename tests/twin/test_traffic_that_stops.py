"""Traffic that stops leaves long answers behind: they are served by what stands, and buy nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.twin.simulated import chat, setting
from weft.domain.workload import Slo, Workload
from weft.twin.cluster.start_up import StartPhases
from weft.twin.simulation import simulate
from weft.twin.traffic.trace import Trace

RATE, STOPS, INPUT, SHORT, LONG = 40.0, 600.0, 800, 100, 6000
LONG_ONES = 0.03  # of the answers


def stopping(seed: int = 5) -> Trace:
    """Poisson arrivals of ten minutes, and one request five minutes later."""
    random = np.random.default_rng(seed)
    count = random.poisson(RATE * STOPS)
    arrivals = np.append(np.sort(random.uniform(0.0, STOPS, count)), STOPS + 300.0)
    answers = np.where(random.random(count + 1) < LONG_ONES, LONG, SHORT).astype(np.int32)
    answers[-1] = SHORT
    return Trace(arrivals, np.full(count + 1, INPUT, dtype=np.int32), answers)


def test_long_answers_that_are_left_over_once_traffic_stops_buy_nothing() -> None:
    """Six replicas grew to eighteen within a minute, for 1 request/s that was over, and all of the answers long."""
    known = chat(max_replicas=24)
    assert known.spec is not None
    workload, slo = Workload(RATE, INPUT, 280, INPUT, 280), Slo(ttft=((95, 1.0),), tpot=((95, 0.011),))
    pool = replace(known, spec=replace(known.spec, workload=workload, slo=slo))
    outcome = simulate(setting(stopping(), pool, start_up=StartPhases().lasting(120.0)))
    counts = [(moment.at, moment.pools[0].desired) for moment in outcome.timeline]
    before = [count for at, count in counts if at <= STOPS][-1]
    assert 1 < before < known.spec.scaling.max_replicas
    assert max(count for at, count in counts if at > STOPS) == before
