"""The alarm of the loops, and that their end is never missed."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from weft.control.wake import Wake


@pytest.mark.parametrize("steps", range(8))
def test_a_loop_that_is_rung_as_it_is_ended_ends(steps: int) -> None:
    """So many steps of the event loop later: `asyncio.wait_for` of Python 3.11 misses one that comes with the ring."""

    async def looping(wake: Wake) -> None:
        while True:
            await wake.wait(60.0)

    async def ended() -> bool:
        wake = Wake(0.0)
        task = asyncio.create_task(looping(wake))
        await asyncio.sleep(0.01)
        wake.ring()
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0.05)
        found = task.done()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return found

    assert asyncio.run(ended())


def test_it_tells_whether_it_rang() -> None:
    async def rings() -> list[bool]:
        wake = Wake(0.0)
        before = await wake.wait(0.01)
        wake.ring()
        return [before, await wake.wait(1.0), await wake.wait(0.01)]

    assert asyncio.run(rings()) == [False, True, False]
