"""The loop per resource: who is looked at again, though nothing happens, and what is told of a webhook that is away."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.test_phases import EIGHT, on_its_nodes, one_pod
from tests.converge.world import World
from weft.apply import DeletedAgain, ServerError, WebhookAway
from weft.catalog import load
from weft.control.context import Context
from weft.control.converging import converge_loop, work_queue
from weft.control.converging.converge_loop import ConvergeLoop
from weft.control.converging.one_pass import Before, Converger
from weft.control.converging.view import View
from weft.control.health import Pulse
from weft.control.metrics.telemetry import Telemetry
from weft.control.options import RunOptions
from weft.domain.errors import Blocked, WeftError
from weft.domain.reasons import Explanation, Reason
from weft.observe.api_server.clock import ClusterClock
from weft.observe.sources.downloads import Downloads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from weft.domain.action import Action
    from weft.domain.snapshot import ResourceKey

AWAY = 'failed calling webhook "m.io": connection refused'
RECORD = one_pod()
UID = RECORD.key.uid
BUGS = {"loop": "converge", "reason": "Bug"}


class Cluster:
    """A simulated cluster with one pool. The writes of each pass end in turn as `outcomes` say; None does them."""

    def __init__(self, world: World, *outcomes: Exception | None) -> None:
        self.world = world
        self.outcomes = outcomes
        self.passes = 0
        self.asked: list[int] = []
        self.told: list[tuple[int, Explanation]] = []
        self.telemetry = Telemetry()
        self._over: asyncio.Queue[int] = asyncio.Queue()

    def view(self) -> View:
        """What a pass gets to see."""
        pods, objects = {UID: self.world.pod_records()}, {RECORD.key.namespace: self.world.object_records()}
        return View((0, 0), self.world.fabric(), {UID: self.world.noted(RECORD)}, {}, pods, objects, {UID: 1})

    def carry_out(self, action: Action) -> None:
        """Write, or be refused."""
        self.asked.append(self.passes)
        outcome = self.outcomes[self.passes] if self.passes < len(self.outcomes) else None
        if outcome is not None:
            raise outcome
        self.world.carry_out(action)

    def record(self, _: ResourceKey, event: Explanation, *, warns: bool = False) -> None:  # noqa: ARG002
        """Note in which pass something was told."""
        self.told.append((self.passes, event))

    def inc(self) -> None:
        """One pass more is over."""
        self.passes += 1
        self._over.put_nowait(self.passes)

    async def after(self, passes: int) -> None:
        """Return once so many passes are over."""
        while await asyncio.wait_for(self._over.get(), 30) < passes:
            pass

    def context(self, threads: ThreadPoolExecutor) -> Context:
        """Its caches are filled, no engine was asked yet, and it is nearly a minute past eight."""
        ours: Any = self
        filled: Any = SimpleNamespace(synced=True, body=lambda _: None)
        unused: Any = None
        self.telemetry.passes = ours
        return Context(
            options=RunOptions(workers=1, writers=1, resync_seconds=1e6),
            catalog=load(),
            clock=ClusterClock(lambda: EIGHT + 59.9, lambda: 0.0),
            cluster=filled,
            resources=filled,
            sources=unused,
            pickers=unused,
            collector=unused,
            downloads=Downloads(),
            past=unused,
            writer=ours,
            events=ours,
            telemetry=self.telemetry,
            pulse=Pulse(),
            executor=threads,
            writing=threads,
        )


def mistakes_in(cluster: Cluster) -> float | None:
    """Passes that broke."""
    return cluster.telemetry.registry.get_sample_value("weft_pass_failures_total", BUGS)


@asynccontextmanager
async def running(cluster: Cluster) -> AsyncIterator[ConvergeLoop]:
    """The loop over the one pool of a cluster; no pass may break."""
    with ThreadPoolExecutor(2) as threads:
        loop = ConvergeLoop(cluster.context(threads), cluster.view)
        task = asyncio.create_task(loop.run())
        yield loop
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert 0.0 == mistakes_in(cluster)


async def test_a_start_is_told_anew_when_a_minute_is_over() -> None:
    """Its pods are as they were, and the next resync is far away."""
    cluster = Cluster(on_its_nodes(RECORD))
    async with running(cluster):
        await cluster.after(2)


UNASKED, FAILED = WebhookAway(Reason.PodRefused, AWAY), ServerError("etcdserver: request is too large")
either = pytest.mark.parametrize("error", [UNASKED, FAILED], ids=["webhook", "server"])


def away(times: int, error: WeftError = UNASKED) -> list[Exception | None]:
    return [error] * times


KINDS = ("Service", "PodDisruptionBudget", "Pod")  # of what the first pass creates
QUOTA = Blocked(Reason.PodRefused, "exceeded quota")


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A back-off that begins at a millisecond."""
    monkeypatch.setattr(work_queue, "FIRST_BACKOFF_SECONDS", 0.001)
    return monkeypatch


@either
@pytest.mark.usefixtures("hurried")
async def test_who_does_not_answer_for_a_moment_is_told_to_nobody(error: WeftError) -> None:
    """A webhook that is away, or a server that fails, is asked once about each kind, and holds up nothing else."""
    cluster = Cluster(World(), *away(5, error))
    async with running(cluster):
        await cluster.after(6)
    assert cluster.told == []
    assert [len(KINDS)] * 5 == [cluster.asked.count(number) for number in range(5)]


@either
async def test_who_goes_on_like_that_is_told_in_its_words(hurried: pytest.MonkeyPatch, error: WeftError) -> None:
    hurried.setattr(converge_loop, "QUIET_SECONDS", 0.01)
    cluster = Cluster(World(), *away(10, error))
    async with running(cluster):
        await cluster.after(10)
    first, event = cluster.told[0]
    assert (first > 0, Explanation(error.reason, str(error))) == (True, event)


async def test_one_that_was_away_before_is_told_of_no_sooner(hurried: pytest.MonkeyPatch) -> None:
    """A pass that it answers begins anew."""
    hurried.setattr(converge_loop, "QUIET_SECONDS", 0.01)
    cluster = Cluster(World(), *away(1), None, *away(1))
    async with running(cluster) as loop:
        await cluster.after(2)
        await asyncio.sleep(0.02)
        loop.want(UID)
        await cluster.after(3)
    assert ([], True) == (cluster.told, 2 in cluster.asked)


@pytest.mark.usefixtures("hurried")
async def test_where_something_was_refused_already_it_is_told_at_once() -> None:
    """Else a resource that is stalled would look as if it were not, for as long as the webhook is away."""
    cluster = Cluster(World(), QUOTA, *away(1))
    async with running(cluster):
        await cluster.after(2)
    assert [(0, Explanation(QUOTA.reason, str(QUOTA))), (1, Explanation(Reason.PodRefused, AWAY))] == cluster.told


async def test_a_look_that_ends_with_a_mistake_ends_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended the process, which began anew with the same look."""
    monkeypatch.setattr(converge_loop, "UNTOLD_SECONDS", 0.0)
    cluster, looks = Cluster(World()), list[int]()

    def view() -> View:
        looks.append(len(looks))
        if len(looks) == 1:
            raise KeyError("of ours")
        return Cluster.view(cluster)

    monkeypatch.setattr(cluster, "view", view)
    with ThreadPoolExecutor(2) as threads:
        task = asyncio.create_task(ConvergeLoop(cluster.context(threads), cluster.view).run())
        await cluster.after(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert 1.0 == mistakes_in(cluster)


async def test_a_change_that_nobody_could_be_told_of_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not twice a second as long as each look ends with the same mistake."""
    monkeypatch.setattr(converge_loop, "STIR_SECONDS", 0.001)
    monkeypatch.setattr(converge_loop, "UNTOLD_SECONDS", 0.1)
    cluster, mistakes, looks = Cluster(World()), [KeyError("of ours")] * 2, asyncio.Queue[float]()
    here = asyncio.get_running_loop()

    def view() -> View:
        if cluster.passes:  # after the first pass nobody looks but for the change
            here.call_soon_threadsafe(looks.put_nowait, here.time())
            if mistakes:
                raise mistakes.pop()
        return Cluster.view(cluster)

    with ThreadPoolExecutor(2) as threads:
        loop = ConvergeLoop(cluster.context(threads), view)
        task = asyncio.create_task(loop.run())
        await cluster.after(1)
        loop.want(None)
        times = [await asyncio.wait_for(looks.get(), 10) for _ in range(3)]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert times[2] - times[0] >= 0.2


async def test_a_mistake_about_one_resource_backs_off_whatever_else_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change of the cluster asked for another pass, and each pass left a traceback in the log."""
    monkeypatch.setattr(work_queue, "FIRST_BACKOFF_SECONDS", 300.0)
    cluster = Cluster(World(), *[KeyError("of ours")] * 1000)
    with ThreadPoolExecutor(2) as threads:
        loop = ConvergeLoop(cluster.context(threads), cluster.view)
        task = asyncio.create_task(loop.run())
        while not mistakes_in(cluster):  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
        for _ in range(40):
            await asyncio.sleep(0.01)
            loop.want(UID)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert 1.0 == mistakes_in(cluster)


async def test_what_is_deleted_each_time_is_made_again_once_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its resource backs off: nothing answers in the place of a Service that is not there."""
    monkeypatch.setattr(work_queue, "FIRST_BACKOFF_SECONDS", 300.0)
    again = DeletedAgain(Reason.ChildReverted, "Service team/chat is deleted each time that Weft creates it", 0.01)
    cluster = Cluster(World(), again)
    async with running(cluster):
        await cluster.after(2)
    assert 1 in cluster.asked
    assert (0, Explanation(again.reason, again.message)) in cluster.told


def test_a_mistake_of_ours_is_told_in_an_event() -> None:
    """Else the log alone would tell why nothing comes of what was decided."""
    cluster = Cluster(World(), KeyError("of ours"))
    with ThreadPoolExecutor(1) as threads, pytest.raises(KeyError):
        Converger(cluster.context(threads)).converge(cluster.view(), UID, Before())
    ((_, event),) = cluster.told
    assert event.reason is Reason.HoldNotPlanned
    assert "KeyError: 'of ours'" in event.message
