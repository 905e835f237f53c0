"""The loop per resource: who is looked at again, though nothing happens, and what is told of a webhook that is away."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from tests.converge.test_phases import EIGHT, on_its_nodes, one_pod
from tests.converge.world import World
from weft.apply import WebhookAway
from weft.control import work_queue
from weft.control.converge_loop import QUIET_PASSES, ConvergeLoop
from weft.control.view import View
from weft.domain.errors import Retry
from weft.domain.reasons import Explanation, Reason
from weft.observe.downloads import Downloads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

AWAY = 'failed calling webhook "m.io": connection refused'
RECORD = one_pod()


@asynccontextmanager
async def running(
    monkeypatch: pytest.MonkeyPatch, world: World, prepare: Callable[[MagicMock], object]
) -> AsyncIterator[ConvergeLoop]:
    """The loop over the one pool of a world; `prepare` sees what is around it before it starts."""
    uid = RECORD.key.uid
    pods = {uid: world.pod_records()}
    view = View((0, 0), world.fabric(), {uid: world.noted(RECORD)}, {}, pods, {}, {uid: 1})
    monkeypatch.setattr("weft.control.converge_loop.Viewer", lambda _: SimpleNamespace(view=lambda: view))
    with ThreadPoolExecutor(2) as threads:
        context = MagicMock(executor=threads, writing=threads, synced=True, observed=False, downloads=Downloads())
        context.options.workers, context.options.writers, context.options.resync_seconds = 1, 1, 1e6
        context.writer.carry_out.return_value = None
        context.resources.body.return_value = None
        context.clock.now.return_value = EIGHT + 59.9
        prepare(context)
        loop = ConvergeLoop(context)
        task = asyncio.create_task(loop.run())
        yield loop
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert ("converge", "Bug") not in [call.args for call in context.telemetry.failures.labels.call_args_list]


async def test_a_start_is_told_anew_when_a_minute_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pods are as they were, and the next resync is far away."""
    passes: asyncio.Queue[None] = asyncio.Queue()
    for _ in range(2):
        passes.put_nowait(None)

    def counted(context: MagicMock) -> None:
        context.telemetry.passes.inc.side_effect = passes.task_done

    async with running(monkeypatch, on_its_nodes(RECORD), counted):
        await asyncio.wait_for(passes.join(), 30)


class Webhook:
    """What happens to the writes of each pass in turn, and in which passes something was told."""

    def __init__(self, outcomes: list[Exception | None]) -> None:
        self.outcomes = outcomes
        self.passes = 0
        self.asked: list[int] = []
        self.told: list[tuple[int, Explanation]] = []
        self._over: asyncio.Queue[int] = asyncio.Queue()

    def stand_before(self, context: MagicMock) -> None:
        context.writer.carry_out.side_effect = self._write
        context.events.record.side_effect = lambda _, event: self.told.append((self.passes, event))
        context.telemetry.passes.inc.side_effect = self._passed

    def _write(self, _: Any) -> None:  # noqa: ANN401 - any action
        self.asked.append(self.passes)
        outcome = self.outcomes[self.passes] if self.passes < len(self.outcomes) else None
        if outcome is not None:
            raise outcome

    def _passed(self) -> None:
        self.passes += 1
        self._over.put_nowait(self.passes)

    async def after(self, passes: int) -> None:
        """Return once so many passes are over."""
        while await asyncio.wait_for(self._over.get(), 30) < passes:
            pass


def away(times: int) -> list[Exception | None]:
    return [WebhookAway(Reason.PodRefused, AWAY)] * times


async def test_a_webhook_that_stays_away_is_told_in_its_words_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then each pass ends at it; then everything else is done, and it is asked once about each kind."""
    monkeypatch.setattr(work_queue, "FIRST_BACKOFF_SECONDS", 0.001)
    webhook = Webhook(away(QUIET_PASSES + 1))
    async with running(monkeypatch, World(), webhook.stand_before):
        await webhook.after(QUIET_PASSES + 1)
    assert [(QUIET_PASSES, Explanation(Reason.PodRefused, AWAY))] == webhook.told[:1]
    assert [1] * QUIET_PASSES == [webhook.asked.count(number) for number in range(QUIET_PASSES)]
    assert webhook.asked.count(QUIET_PASSES) == len({"Service", "PodDisruptionBudget", "Pod"})


async def test_one_that_is_away_again_and_again_is_told_of_no_more_than_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that it answers begins anew; an outage of the API server in between says nothing."""
    monkeypatch.setattr(work_queue, "FIRST_BACKOFF_SECONDS", 0.001)
    outage = Retry(Reason.ApiUnavailable, "the API server is away")
    outcomes = [*away(QUIET_PASSES), None, *away(QUIET_PASSES - 1), outage, *away(2)]
    webhook = Webhook(outcomes)
    async with running(monkeypatch, World(), webhook.stand_before) as loop:
        await webhook.after(QUIET_PASSES + 1)
        loop.want(RECORD.key.uid)
        await webhook.after(len(outcomes))
    assert [len(outcomes) - 1] == [number for number, _ in webhook.told]
