"""Many replicas behind one front need less spare room each; held against a line of servers, prompt by prompt."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.cases import Pool, seen
from weft.domain.spec import carrying
from weft.domain.workload import Role
from weft.perf.pooling import BUSIEST, among, as_busy_as
from weft.perf.queueing import Moments, Wait, in_line
from weft.scaling import scale_pool
from weft.scaling.pooling import fewest, of_each

RATES, CAPACITIES, BUSY = st.floats(0.01, 1e4), st.floats(0.01, 100.0), st.floats(0.01, 0.96)
PROMPTS = 60_000
SCATTER = 1.2  # standard deviation of the logarithm of a prompt's seconds


def waits(servers: int, busy: float) -> list[float]:
    """Seconds that prompts of a second on average wait, each sent to the server with the fewest prompts."""
    rng = random.Random(servers)
    now, free, counts, ends = 0.0, [0.0] * servers, [0] * servers, list[tuple[float, int]]()
    found = []
    for _ in range(PROMPTS):
        now += rng.expovariate(servers * busy)
        while ends and ends[0][0] <= now:
            counts[heapq.heappop(ends)[1]] -= 1
        chosen = min(range(servers), key=lambda each: (counts[each], rng.random()))
        begun = max(now, free[chosen])
        free[chosen] = begun + rng.lognormvariate(-SCATTER * SCATTER / 2.0, SCATTER)
        counts[chosen] += 1
        heapq.heappush(ends, (free[chosen], chosen))
        found.append(begun - now)
    return found


@pytest.mark.parametrize(("servers", "busy"), [(2, 0.6), (4, 0.75), (8, 0.8)])
def test_the_wait_before_several_is_about_that_of_a_front_that_picks_the_fewest(servers: int, busy: float) -> None:
    """Far nearer to it than to what one of them has that gets its share at random."""
    square, cube = (2.718281828 ** (power * (power - 1) * SCATTER**2 / 2.0) for power in (2, 3))
    alone = in_line(busy, Moments(1.0, square, cube), 0.0)
    seen, expected = fmean(waits(servers, busy)), among(alone, busy, servers).mean
    assert 0.5 < expected / seen < 1.5
    assert seen < 0.6 * alone.mean


@given(mean=st.floats(0.0, 100.0), deviation=st.floats(0.0, 100.0), busy=BUSY, servers=st.integers(1, 50))
def test_nobody_waits_longer_for_there_being_more_servers(
    mean: float, deviation: float, busy: float, servers: int
) -> None:
    wait = Wait(mean, deviation * deviation)
    one, more = among(wait, busy, servers), among(wait, busy, servers + 1)
    assert more.mean <= one.mean <= mean
    assert more.variance >= 0.0
    assert among(wait, busy, 1) == wait


@given(busy=BUSY, servers=st.integers(2, 60))
def test_as_busy_as_that_the_wait_is_the_same_as_before_one(busy: float, servers: int) -> None:
    found = as_busy_as(busy, servers)
    assert busy <= found <= BUSIEST
    if found < BUSIEST - 1e-6:
        alone, wait = busy / (1.0 - busy), Wait(found / (1.0 - found), 0.0)
        assert among(wait, found, servers).mean == pytest.approx(alone, rel=1e-4)


@given(rates=st.lists(RATES, min_size=2, max_size=8), capacity=CAPACITIES, busy=BUSY)
def test_more_demand_never_needs_fewer_and_pooling_never_more(rates: list[float], capacity: float, busy: float) -> None:
    counts = [fewest(rate, capacity, busy) for rate in sorted(rates)]
    assert all(before <= after for before, after in pairwise(counts))
    assert all(count <= carrying(rate, capacity) for count, rate in zip(counts, sorted(rates), strict=True))


@given(rate=RATES, capacity=CAPACITIES, busy=BUSY)
def test_the_fewest_that_carry_a_rate_do_and_one_fewer_do_not(rate: float, capacity: float, busy: float) -> None:
    count = fewest(rate, capacity, busy)
    assert count * of_each(capacity, busy, count) >= rate * (1.0 - 1e-6)
    assert count == 1 or (count - 1) * of_each(capacity, busy, count - 1) < rate


def test_who_gets_a_share_at_random_serves_as_much_beside_others_as_alone() -> None:
    assert of_each(3.0, 0.0, 40) == 3.0
    assert fewest(100.0, 3.0, 0.0) == carrying(100.0, 3.0)


def test_a_count_that_is_pooled_says_what_each_of_so_many_serves() -> None:
    """A lone replica that may be half busy serves 2; each of the five that 18 requests/s need serves 3.6 or more."""
    pool = Pool(capacity=2.0, role=Role.Prefill, current=1).configured(headroom=0.0, max_replicas=20)
    request = pool.request(seen(18.0, 1))
    alone, pooled = scale_pool(request), scale_pool(replace(request, busy=0.5))
    assert alone.desired == 9
    assert pooled.desired == fewest(18.0, 2.0, 0.5) < 7
    assert "one replica serves 2" in str(alone.changed)
    assert "one replica serves 3" in str(pooled.changed)
