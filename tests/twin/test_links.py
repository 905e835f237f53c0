"""A split over TCP, whose links are full long before its engines are: they are what its replicas are counted by."""

from __future__ import annotations

from tests.twin.simulated import WITH_RDMA, duo, trace
from weft.twin.cluster.start_up import StartPhases
from weft.twin.simulation import simulate

QUICK = StartPhases(image_seconds=10.0, weights_seconds=20.0, compile_seconds=5.0, capture_seconds=5.0, spread=0.0)
HALVES = (PREFILL, DECODE) = range(2)


def test_more_traffic_buys_the_links_that_carry_it() -> None:
    """A prompt holds the links of four GPUs for 0.6 seconds; an engine alone would serve all that comes."""
    arrivals = trace((300.0, 1.0), (600.0, 6.0))
    outcome = simulate(duo(arrivals, engine={}, start_up=QUICK, boards=8))
    for half in HALVES:
        counts = {moment.at: moment.pools[half].desired for moment in outcome.timeline}
        assert max(counts.values()) > 2 * counts[270.0]
    assert outcome.answers.within(5.0, 0.1).mean() > 0.9


def test_links_that_carry_more_buy_fewer_replicas() -> None:
    arrivals = trace((600.0, 0.9))
    both = (simulate(duo(arrivals, engine=engine, start_up=QUICK)) for engine in (WITH_RDMA, {}))
    wide, narrow = (max(moment.pools[DECODE].gpus for moment in outcome.timeline) for outcome in both)
    assert 0 < wide < narrow
