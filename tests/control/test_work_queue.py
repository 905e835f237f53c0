"""One pass per resource at a time, none forgotten, and patience that grows with failures."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.control.converging import work_queue
from weft.control.converging.work_queue import WorkQueue, backoff_seconds

PATIENCE_SECONDS = 20.0  # for what comes at once: a busy machine stalls for seconds


async def test_wishes_for_a_waiting_resource_are_one_wish() -> None:
    queue = WorkQueue()
    queue.add("a")
    queue.add("a")
    assert await queue.take() == "a"
    queue.done("a")
    assert queue.idle


async def test_a_wish_during_the_pass_brings_another_pass_and_not_a_second_worker() -> None:
    queue = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.add("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 0.01)
    queue.done("a")
    assert await asyncio.wait_for(queue.take(), PATIENCE_SECONDS) == "a"


async def test_a_failure_waits_and_only_for_its_own_generation() -> None:
    queue = WorkQueue()
    queue.add("a")
    await queue.take()
    assert 0.8 <= queue.failed("a", generation=1) <= 1.2
    assert queue.is_backing_off("a", 1)
    assert not queue.is_backing_off("a", 2)


async def test_failures_in_a_row_wait_longer_and_a_success_forgets_them() -> None:
    queue = WorkQueue()

    async def fail() -> float:
        queue.add("a")
        await queue.take()
        return queue.failed("a", 1)

    assert [round(await fail()) for _ in range(3)] == pytest.approx([1, 2, 4], abs=1)
    queue.add("a")
    await queue.take()
    queue.done("a")
    assert await fail() <= 1.2


async def test_a_delay_named_by_the_server_is_the_least() -> None:
    queue = WorkQueue()
    queue.add("a")
    await queue.take()
    assert queue.failed("a", 1, at_least_seconds=30) == 30


async def test_a_pass_that_is_wanted_sooner_does_not_end_a_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict over the status, say, while a used up quota backs off; the end of the back-off still rings."""
    monkeypatch.setattr(work_queue, "FIRST_BACKOFF_SECONDS", 3 * PATIENCE_SECONDS)
    queue, loop = WorkQueue(), asyncio.get_running_loop()
    queue.add("a")
    queue.failed(await queue.take(), 1)
    queue.add_after("a", 0.01)
    assert await asyncio.wait_for(queue.take(), PATIENCE_SECONDS) == "a"
    assert queue.is_backing_off("a", 1)
    queue.release("a")
    assert queue.idle
    monkeypatch.setattr(loop, "time", lambda: time.monotonic() + 6 * PATIENCE_SECONDS)
    assert await asyncio.wait_for(queue.take(), PATIENCE_SECONDS) == "a"
    assert not queue.is_backing_off("a", 1)


async def test_a_wish_during_a_pass_that_fails_waits_for_the_end_of_its_back_off() -> None:
    """F13: the events of an outage would else make a pass each."""
    queue = WorkQueue()
    queue.add("a")
    await queue.take()
    queue.add("a")
    queue.failed("a", 1)
    assert queue.idle


async def test_of_several_delays_the_soonest_counts() -> None:
    queue = WorkQueue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.01)
    queue.add_after("a", 60)
    assert await asyncio.wait_for(queue.take(), PATIENCE_SECONDS) == "a"


async def test_what_is_forgotten_does_not_come_back() -> None:
    queue = WorkQueue()
    queue.add_after("a", 0.01)
    queue.forget("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.take(), 0.05)


@given(st.integers(1, 10_000))
def test_the_longest_wait_is_five_minutes(failures: int) -> None:
    assert 1 <= backoff_seconds(failures) <= 300


async def test_a_pass_that_wants_another_one_later_gets_it() -> None:
    """And no back-off: it succeeded."""
    queue = WorkQueue()
    queue.add("a")
    queue.done(await queue.take(), 0.01)
    assert queue.idle
    assert await asyncio.wait_for(queue.take(), PATIENCE_SECONDS) == "a"
    assert not queue.is_backing_off("a", 1)
