"""The loop per resource: who is looked at again, though nothing happens."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from tests.converge.test_phases import EIGHT, on_its_nodes, one_pod
from weft.control.converge_loop import ConvergeLoop
from weft.control.view import View
from weft.observe.downloads import Downloads


async def test_a_start_is_told_anew_when_a_minute_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pods are as they were, and the next resync is far away."""
    record = one_pod()
    world, uid = on_its_nodes(record), record.key.uid
    pods = {uid: world.pod_records()}
    view = View((0, 0), world.fabric(), {uid: world.noted(record)}, {}, pods, {}, {uid: 1})
    monkeypatch.setattr("weft.control.converge_loop.Viewer", lambda _: SimpleNamespace(view=lambda: view))
    passes: asyncio.Queue[None] = asyncio.Queue()
    for _ in range(2):
        passes.put_nowait(None)
    with ThreadPoolExecutor(2) as threads:
        context = MagicMock(executor=threads, writing=threads, synced=True, observed=False, downloads=Downloads())
        context.options.workers, context.options.writers, context.options.resync_seconds = 1, 1, 1e6
        context.writer.carry_out.return_value = None
        context.resources.body.return_value = None
        context.clock.now.return_value = EIGHT + 59.9
        context.telemetry.passes.inc.side_effect = passes.task_done
        running = asyncio.create_task(ConvergeLoop(context).run())
        await asyncio.wait_for(passes.join(), 30)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert context.telemetry.failures.labels.call_count == 0
