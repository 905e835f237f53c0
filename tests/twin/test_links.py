"""A split over TCP, whose links are full long before its engines are: they are what its replicas are counted by."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twin.simulated import INPUT, OUTPUT, WITH_RDMA, Written, duo, trace
from weft.perf import SEVERAL_THROUGH_THE_HOST
from weft.twin.cluster.start_up import StartPhases
from weft.twin.simulation import simulate
from weft.twin.traffic.trace import Trace

QUICK = StartPhases(image_seconds=10.0, weights_seconds=20.0, compile_seconds=5.0, capture_seconds=5.0, spread=0.0)
HALVES = (PREFILL, DECODE) = range(2)
TOGETHER = 8
KV_BYTES = 2 * 32 * 8 * 128 * 2 * INPUT  # of a prompt, on all GPUs


def test_more_traffic_buys_the_links_that_carry_it() -> None:
    """A prompt holds the links of four GPUs for 0.6 seconds; an engine alone would serve all that comes.

    Replicas that a step orders serve all that comes 90 seconds after it; until then too many share the links.
    """
    arrivals = trace((300.0, 1.0), (600.0, 6.0))
    outcome = simulate(duo(arrivals, engine={}, start_up=QUICK, boards=8))
    for half in HALVES:
        counts = {moment.at: moment.pools[half].desired for moment in outcome.timeline}
        assert max(counts.values()) > 2 * counts[270.0]
    assert outcome.answers.part(390.0, 900.0).within(5.0, 0.1).mean() > 0.99


def test_links_that_carry_more_buy_fewer_replicas() -> None:
    arrivals = trace((600.0, 0.9))
    both = (simulate(duo(arrivals, engine=engine, start_up=QUICK)) for engine in (WITH_RDMA, {}))
    wide, narrow = (max(moment.pools[DECODE].gpus for moment in outcome.timeline) for outcome in both)
    assert 0 < wide < narrow


def test_prompts_that_are_sent_together_get_as_much_of_a_link_as_predictions_count_on() -> None:
    """Predicted capacity and what a simulation finds would differ by that."""
    alike = np.ones(TOGETHER, dtype=np.int32)
    arrivals = Trace(np.full(TOGETHER, 100.0), alike * INPUT, alike * OUTPUT)
    outcome = simulate(duo(arrivals, engine={}, start_up=QUICK), Written((0.0, 1)))
    together = 4 * 1.4e9 * SEVERAL_THROUGH_THE_HOST  # of the four GPUs of a replica
    assert np.diff(np.sort(outcome.answers.ttft))[1:] == pytest.approx(KV_BYTES / together, rel=0.01)
