"""F19 with a real Prometheus: whatever happens to it or to what it scrapes takes no replica away, and it passes.

Each test ends with a load that really falls: the pool shrinks, so that what held it is over without anybody's help.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.prometheus import PrometheusMissingError
from tests.prometheus.engines import Load, page
from tests.prometheus.pool import DECIDED_SECONDS, FULL, REPLICAS, WatchedPool, watched
from tests.prometheus.server import HOUR
from weft.observe.samples.history import Origin

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(400)  # up to 103 where a dozen others used the machine

TEN_MINUTES = round(600 / DECIDED_SECONDS)  # in looks
NOBODY = "none of 4 ready replicas answered: holding 4 replicas"
SOME = "some replicas or metrics are missing: holding 4 replicas"


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[WatchedPool]:
    """Four replicas under a load that needs them."""
    try:
        async with watched(tmp_path) as found:
            yield found
    except PrometheusMissingError as missing:
        pytest.skip(str(missing))


async def shrinks(pool: WatchedPool) -> None:
    """What was seen is believed again: less than half the load needs fewer replicas."""
    pool.offer(1.5)
    await pool.look_until(lambda: pool.counts[-1] < REPLICAS)


async def test_ten_minutes_without_it_are_bridged_by_asking_the_engines(pool: WatchedPool) -> None:
    """Even a load that rises in the meantime is followed."""
    await pool.settle()
    pool.prometheus.stop()
    await pool.look(TEN_MINUTES // 2)
    assert pool.collector.engines_read == {Origin.Prometheus: 0, Origin.Engine: REPLICAS}
    pool.allow(8)
    pool.offer(5.5)
    await pool.look_until(lambda: pool.counts[-1] >= 6)
    assert min(pool.counts) == REPLICAS
    pool.prometheus.start()
    await pool.look_until(lambda: pool.told_by_prometheus)
    assert pool.counts[-1] >= 6


async def test_ten_minutes_without_any_metrics_hold_the_count_and_say_so(pool: WatchedPool) -> None:
    pool.close_ports()
    await pool.settle()
    pool.prometheus.stop()
    pool.offer(1.5)
    await pool.look(TEN_MINUTES)
    assert pool.reason == ("HoldMetricsMissing", NOBODY)
    assert set(pool.counts) == {REPLICAS}
    pool.prometheus.start()
    await pool.look_until(lambda: pool.counts[-1] < REPLICAS)


async def test_one_that_was_restarted_empty_costs_no_look_while_engines_answer(pool: WatchedPool) -> None:
    """Its first samples are too few for a rate; those of the engines are there, also while it starts."""
    await pool.settle()
    restart = asyncio.create_task(asyncio.to_thread(restart_empty, pool))
    whole, looks = [], 15
    while looks > 0:
        looks -= restart.done()
        await pool.look()
        whole.append(pool.seen.complete)
    await restart
    assert all(whole)
    await pool.look_until(lambda: pool.told_by_prometheus)
    assert set(pool.counts) == {REPLICAS}
    await shrinks(pool)


def restart_empty(pool: WatchedPool) -> None:
    """On a busy machine longer than what the operator remembers of engines, which it asks meanwhile."""
    pool.prometheus.stop()
    pool.prometheus.forget()
    pool.prometheus.start()


async def test_one_that_was_restarted_empty_takes_no_replica_away(pool: WatchedPool) -> None:
    pool.close_ports()
    await pool.settle()
    restart_empty(pool)
    await pool.look_until(lambda: pool.seen.complete)
    await pool.look(15)
    assert set(pool.counts) == {REPLICAS}
    await shrinks(pool)


async def test_half_of_the_replicas_are_not_half_of_the_load(pool: WatchedPool) -> None:
    """One shard of two: the other half is scraped by a Prometheus that nobody asks."""
    pool.close_ports()
    await pool.settle()
    pool.scrape(*list(pool.engines)[:2])
    await pool.look_until(lambda: pool.seen.answered == 2)
    await pool.look(TEN_MINUTES)
    await pool.look_until(lambda: pool.reason == ("HoldMetricsMissing", SOME))
    assert set(pool.counts) == {REPLICAS}
    pool.scrape_all()
    await shrinks(pool)


async def test_the_other_half_of_the_replicas_is_asked_itself(pool: WatchedPool) -> None:
    await pool.settle()
    pool.scrape(*list(pool.engines)[:2])
    await pool.look_until(lambda: pool.collector.engines_read == {Origin.Prometheus: 2, Origin.Engine: 2})
    await pool.look(15)
    assert pool.seen.complete
    assert set(pool.counts) == {REPLICAS}
    await shrinks(pool)


@pytest.mark.parametrize("error", [-HOUR, HOUR])
async def test_a_clock_that_has_always_been_an_hour_off_makes_no_difference(pool: WatchedPool, error: float) -> None:
    pool.close_ports()
    pool.clock.error = error
    await pool.settle()
    assert set(pool.counts) == {REPLICAS}
    await shrinks(pool)


async def test_a_clock_that_is_set_back_an_hour_does_not_bring_back_the_load_of_an_hour_ago(
    pool: WatchedPool,
) -> None:
    """It answers for the past until its clock is where it was: a quarter of the load is what was then, not now."""
    pool.close_ports()
    pool.prometheus.stop()
    pool.prometheus.remember(an_hour_ago(pool, Load(5.0, kv_usage=FULL)))
    pool.prometheus.start()
    await pool.settle()
    pool.clock.moved = -HOUR
    await pool.look(TEN_MINUTES // 2)
    assert pool.reason == ("HoldMetricsMissing", NOBODY)
    assert set(pool.counts) == {REPLICAS}
    pool.clock.moved = 0.0
    await shrinks(pool)


def an_hour_ago(pool: WatchedPool, load: Load) -> list[tuple[float, str, str]]:
    """What the engines showed then, over five minutes."""
    then = time.time() - HOUR
    times = [then + second for second in range(-60, 240)]
    return [(at, pod, page(load, load.rate * (at - then + 60.0))) for at in times for pod in pool.engines]


async def test_a_clock_that_is_set_an_hour_ahead_for_a_while_is_believed_again(pool: WatchedPool) -> None:
    pool.close_ports()
    await pool.settle()
    pool.clock.moved = HOUR
    await pool.look(TEN_MINUTES // 2)
    assert pool.reason == ("HoldMetricsMissing", NOBODY)
    pool.clock.moved = 0.0
    await pool.look(8)
    assert set(pool.counts) == {REPLICAS}
    await shrinks(pool)


async def test_latencies_in_milliseconds_are_named_and_not_believed(pool: WatchedPool) -> None:
    """A histogram of seconds that counts milliseconds: nobody was as long inside as it says."""
    pool.close_ports()
    await pool.settle()
    await tell_in(pool, 1000.0)
    await pool.look_until(lambda: len(pool.seen.caveats) == 2)
    await pool.look(TEN_MINUTES)
    await pool.look_until(lambda: len(pool.seen.caveats) == 2)  # late scrapes may leave a look without any rate
    assert pool.seen.ttft_mean is pool.seen.tpot_mean is None
    assert set(pool.counts) == {REPLICAS}
    why = "is too high for so few requests in progress: it is ignored (is it in another unit?)"
    told = [f"TPOT {why}", f"TTFT {why}"]
    assert sorted(caveat.says for caveat in pool.seen.caveats) == told
    assert pool.world.condition("chat", "SLOMet") == ("Unknown", "MetricsMissing", "; ".join(told))
    await tell_in(pool, 1.0)
    await pool.look_until(lambda: pool.world.condition("chat", "SLOMet")[1] == "WithinSLO")
    assert pool.seen.caveats == ()
    await shrinks(pool)


async def tell_in(pool: WatchedPool, seconds_are: float) -> None:
    """Engines of another build, which count from zero: once in a window, of which each start loses a twentieth."""
    await pool.look_for_a_window()
    for engine in pool.engines.values():
        engine.seconds_are = seconds_are
        engine.restart()


async def test_a_replica_that_answers_500_is_no_fall_of_the_load(pool: WatchedPool) -> None:
    """Neither Prometheus nor the operator hears from it, and what it answered is not gone.

    Nobody else may ask: what the operator scraped itself would stand for 45 s more, and those are real ones.
    """
    pool.close_ports()
    await pool.settle()
    dead = next(iter(pool.engines.values()))
    dead.broken = True
    await pool.look_until(lambda: pool.seen.answered == 3)
    await pool.look(TEN_MINUTES)
    await pool.look_until(lambda: pool.reason == ("HoldMetricsMissing", SOME))
    assert set(pool.counts) == {REPLICAS}
    dead.broken = False
    await shrinks(pool)


async def test_counters_that_start_anew_are_no_fall_of_the_load(pool: WatchedPool) -> None:
    """Engines that restart in place, one after the other and then all at once, none twice within a window."""
    await pool.settle()
    for engine in pool.engines.values():
        engine.restart()
        await pool.look(8)
    await pool.look_for_a_window()
    for engine in pool.engines.values():
        engine.restart()
    await pool.look(20)
    assert set(pool.counts) == {REPLICAS}
    assert pool.seen.complete
    await shrinks(pool)
