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
from weft.control import converge_loop, work_queue
from weft.control.converge_loop import ConvergeLoop
from weft.control.view import View
from weft.domain.errors import Blocked
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


KINDS = ("Service", "PodDisruptionBudget", "Pod")  # of what the first pass creates
QUOTA = Blocked(Reason.PodRefused, "exceeded quota")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A back-off that begins at a millisecond."""
    monkeypatch.setattr(work_queue, "FIRST_BACKOFF_SECONDS", 0.001)
    return monkeypatch


async def test_a_webhook_that_is_away_for_a_moment_is_told_to_nobody(hurried: pytest.MonkeyPatch) -> None:
    """It is asked once about each kind, and holds up nothing else: each pass goes on to the end."""
    webhook = Webhook(away(5))
    async with running(hurried, World(), webhook.stand_before):
        await webhook.after(6)
    assert webhook.told == []
    assert [len(KINDS)] * 5 == [webhook.asked.count(number) for number in range(5)]


async def test_one_that_stays_away_is_told_in_its_words(hurried: pytest.MonkeyPatch) -> None:
    hurried.setattr(converge_loop, "QUIET_SECONDS", 0.01)
    webhook = Webhook(away(10))
    async with running(hurried, World(), webhook.stand_before):
        await webhook.after(10)
    first, event = webhook.told[0]
    assert (first > 0, Explanation(Reason.PodRefused, AWAY)) == (True, event)


async def test_one_that_was_away_before_is_told_of_no_sooner(hurried: pytest.MonkeyPatch) -> None:
    """A pass that it answers begins anew."""
    hurried.setattr(converge_loop, "QUIET_SECONDS", 0.01)
    webhook = Webhook([*away(1), None, *away(1)])
    async with running(hurried, World(), webhook.stand_before) as loop:
        await webhook.after(2)
        await asyncio.sleep(0.02)
        loop.want(RECORD.key.uid)
        await webhook.after(3)
    assert webhook.told == []


async def test_where_something_was_refused_already_it_is_told_at_once(hurried: pytest.MonkeyPatch) -> None:
    """Else a resource that is stalled would look as if it were not, for as long as the webhook is away."""
    webhook = Webhook([QUOTA, *away(1)])
    async with running(hurried, World(), webhook.stand_before):
        await webhook.after(2)
    assert [(0, Explanation(QUOTA.reason, str(QUOTA))), (1, Explanation(Reason.PodRefused, AWAY))] == webhook.told
