"""Counts that other autoscalers were reported to get wrong. Each case names the thread that tells of it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from bench.fluid import Fluid
from tests.scaling.cases import Pool, seen
from tests.scaling.test_sizing import HOUR, at_random, changes
from tests.scaling.test_split import pair, step
from weft.scaling import RatioGuard


@pytest.mark.parametrize("rate", [8.0, 10.0, 12.0, 18.0, 20.0, 22.0])
def test_around_what_one_replica_can_serve_a_pool_does_not_go_to_and_fro_between_one_and_two(rate: float) -> None:
    """ai-dynamo/dynamo#9294: one of two was removed, and was missed at once. One replica serves 20 requests/s."""
    pool = Fluid(capacity=20.0, declared_rate=rate).run(at_random(rate, 4 * HOUR))
    assert changes(pool.counts[HOUR:]) <= 1
    assert pool.attained > 0.99


def test_the_least_is_enforced_while_nobody_tells_anything() -> None:
    """ai-dynamo/dynamo#14575: an outage was taken for no demand, and the floor was left aside with everything else."""
    pool = Pool()
    pool.current = 2
    pool.run(None, 600)
    pool.configured(min_replicas=4).run(None, 600)
    assert pool.history == [2] * 60 + [4] * 60


def test_an_idle_pool_whose_means_are_no_numbers_shrinks() -> None:
    """ai-dynamo/dynamo#6985: means of no requests at all kept it from shrinking for as long as it was idle."""
    idle = replace(
        seen(0.0, 5),
        ttft=((95, math.nan),),
        tpot=((95, math.nan),),
        ttft_mean=math.nan,
        tpot_mean=math.nan,
        input_tokens=math.nan,
        output_tokens=math.nan,
        prefix_hit=math.nan,
    )
    pool = Pool()
    pool.current = 5
    pool.run(idle, 400)
    assert pool.current == 1


def test_without_load_no_look_adds_a_replica() -> None:
    """llm-d-incubation/workload-variant-autoscaler#380: one more with each loop, on engines that nobody asked."""
    pool = Pool().configured(max_replicas=40)
    pool.run(seen(0.0, 1), 2000, every=1.0)
    assert set(pool.history) == {1}


@pytest.mark.parametrize("every", [1.0, 7.0, 30.0])
def test_a_delay_is_a_time_and_no_number_of_looks(every: float) -> None:
    """ray-project/ray#62004: on a large cluster, whose loop is slow, delays were as much longer."""
    pool = Pool().configured(scale_down_delay_seconds=300.0)
    pool.current = 5
    pool.run(seen(8.5, 5), 600, every)
    fell = pool.now
    while pool.current == 5:
        pool.step(seen(1.0, 5), every)
    assert 300.0 <= pool.now - fell <= 300.0 + 60.0  # the forecast lets go of the last minute's rate


@pytest.mark.parametrize("most", [1, 2])
def test_a_ratio_is_reached_no_faster_than_max_step(most: int) -> None:
    """volcano-sh/kthena, the repair of its ratio: done after the limits, it went beyond them."""
    pools = pair(1, 1)
    for each in pools:
        each.configured(max_step=most, max_replicas=20)
    guard = RatioGuard(least=0.75)
    counts = [(1, 1), *(step(pools, (seen(7.0, 1), seen(7.0, 1)), guard, seconds=60.0) for _ in range(12))]
    steps = [(later[0] - earlier[0], later[1] - earlier[1]) for earlier, later in pairwise(counts)]
    assert max(map(max, steps)) == most
    assert counts[-1][1] >= 8
    assert guard.holds(*counts[-1])
