"""What a refusal says about its resource: whether anybody reaches it, starts or stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.control.test_converge_loop import UID, Cluster, running
from tests.converge.test_leaving import one_pod
from tests.converge.world import World
from tests.render.pools import changed
from weft.apply import NameTaken, PodContended
from weft.control.converging import work_queue
from weft.control.converging.carrying_out import FailedPass, Held
from weft.control.converging.one_pass import Before, Converger, reachable, with_problem
from weft.control.converging.view import View
from weft.domain import labels
from weft.domain.action import ApplyObject, UnroutePod
from weft.domain.errors import Blocked
from weft.domain.reasons import Explanation, Reason
from weft.domain.snapshot import ResourceKey
from weft.domain.status import Condition, PoolProgress, SplitProgress

if TYPE_CHECKING:
    from weft.control.context import Context
    from weft.domain.action import Action
    from weft.domain.errors import WeftError

URL = "http://chat.team.svc:8000"
KEY = ResourceKey("InferencePool", "team", "chat", "u1")
SERVES = (Condition("Ready", "True", Explanation(Reason.Serving, "1 of 1 replicas serve")),)
STARTS = (Condition("Ready", "False", Explanation(Reason.ReplicasStarting, "0 of 1 replicas are ready")),)
POOL = PoolProgress(1, 1, 1, "", URL, SERVES)


def taken(kind: str, name: str) -> NameTaken:
    meta: dict[str, Any] = {"namespace": "team", "name": name}
    return NameTaken({"metadata": meta}, {"kind": kind, "metadata": meta})


def ready(progress: PoolProgress | SplitProgress) -> tuple[str, Reason]:
    (found,) = (each for each in progress.conditions if each.kind == "Ready")
    return found.status, found.explanation.reason


def test_no_pool_is_ready_at_an_address_of_somebody_else() -> None:
    told = reachable(POOL, KEY, taken("Service", "chat"))
    assert ("False", Reason.NameTaken) == ready(told)
    assert isinstance(told, PoolProgress)
    assert (None, 1) == (told.url, told.ready_replicas)


def test_no_split_is_either() -> None:
    told = reachable(SplitProgress(1, 1, 1, 1, 1, 1, URL, SERVES), KEY, taken("Service", "chat"))
    assert isinstance(told, SplitProgress)
    assert (("False", Reason.NameTaken), None, None) == (ready(told), told.url, told.serving_generation)


@pytest.mark.parametrize(
    "problem",
    [None, taken("PodDisruptionBudget", "chat"), taken("Pod", "chat-1f3a2-0-0"), taken("Service", "chat-ranks")],
    ids=["nothing", "its budget", "a pod", "names of ranks"],
)
def test_whatever_else_is_taken_requests_arrive(problem: WeftError | None) -> None:
    assert POOL == reachable(POOL, KEY, problem)


def test_nothing_is_said_to_start_of_what_is_refused() -> None:
    """Whoever reads only `Ready` is told, too."""
    starting = PoolProgress(1, 0, 0, "", None, STARTS)
    told = with_problem(starting, Blocked(Reason.PodRefused, "no new pods, says a policy"))
    assert [("Ready", "False"), ("Stalled", "True")] == [(each.kind, each.status) for each in told.conditions]
    assert {Explanation(Reason.PodRefused, "no new pods, says a policy")} == {e.explanation for e in told.conditions}
    assert SERVES == with_problem(POOL, Blocked(Reason.PodRefused, "no new pods")).conditions[:1]


def test_nothing_stays_ready_in_a_namespace_that_is_being_deleted() -> None:
    """Something may hold the namespace for long, and nobody looks at its pools again."""
    told = with_problem(POOL, Blocked(Reason.NamespaceTerminating, "the namespace is being deleted"))
    assert ("False", Reason.NamespaceTerminating) == ready(told)
    assert told.url is None


def test_what_is_not_ready_anyway_says_why_itself() -> None:
    starting = PoolProgress(1, 1, 0, "", None, STARTS)
    assert ("False", Reason.ReplicasStarting) == ready(reachable(starting, KEY, taken("Service", "chat")))


class Occupied(Cluster):
    """A cluster in which somebody has the name of the pool's Service until `free`; it keeps the written statuses."""

    def __init__(self) -> None:
        super().__init__(World())
        self.free = False
        self.stalled: list[bool] = []

    def carry_out(self, action: Action) -> None:
        if isinstance(action, ApplyObject) and action.body["kind"] == "Service" and not self.free:
            raise taken("Service", action.body["metadata"]["name"])
        super().carry_out(action)

    def write_status(self, _key: ResourceKey, status: dict[str, Any], *_: str) -> None:
        self.stalled.append(any(each["type"] == "Stalled" for each in status["conditions"]))

    def context(self, threads: ThreadPoolExecutor) -> Context:
        kept: Any = SimpleNamespace(
            synced=True, body=lambda _: {"metadata": {"resourceVersion": "1"}}, drop=lambda *_: None
        )
        return replace(super().context(threads), resources=kept)


async def test_what_is_tried_in_each_pass_is_over_with_the_first_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its resource backs off: it would not be ready for five minutes more."""
    monkeypatch.setattr(work_queue, "FIRST_BACKOFF_SECONDS", 300.0)
    cluster = Occupied()
    async with running(cluster) as loop:
        await cluster.after(1)
        cluster.free = True
        loop.want(UID)
        await cluster.after(2)
    assert [True, False] == cluster.stalled


class Contended(Occupied):
    """Everything that is patched conflicts."""

    def carry_out(self, _: Action) -> None:
        raise PodContended("the object has been modified")


def test_what_is_tried_again_at_once_hides_no_refusal_that_lasts() -> None:
    """Else a stalled resource would look as if it were not, for as long as others write to one of its pods."""
    cluster, quota = Contended(), Blocked(Reason.PodRefused, "exceeded quota")
    with ThreadPoolExecutor(2) as threads:
        converger = Converger(cluster.context(threads))
        converger.converge(cluster.view(), UID, Before(FailedPass(quota, Held(pods=True))))
    assert cluster.stalled == [True]


class Forbidding(Cluster):
    """A cluster whose policy lets nobody edit the labels of pods; the one replica has to leave."""

    def __init__(self) -> None:
        record, world = one_pod(), World()
        world.settle(record)
        self.pod = min(world.pods)
        self.leaving = changed(record, assignments=(), desired_replicas=0)
        meta = {"name": "r", "namespace": "team", "uid": "r", "labels": {labels.FRONT_OF: record.key.uid}}
        world.pods["r"] = {"metadata": meta, "spec": {}, "status": {"phase": "Running"}}
        super().__init__(world)

    def view(self) -> View:
        key = self.leaving.key
        pods, objects = {key.uid: self.world.pod_records()}, {key.namespace: self.world.object_records()}
        return View((0, 0), self.world.fabric(), {key.uid: self.leaving}, {}, pods, objects, {key.uid: 1})

    def carry_out(self, action: Action) -> None:
        if isinstance(action, UnroutePod):
            raise Blocked(Reason.PodRefused, "nobody edits labels of pods")
        super().carry_out(action)

    def is_deleted(self) -> bool:
        return "deletionTimestamp" in self.world.pods[self.pod]["metadata"]


async def test_a_pod_that_a_policy_keeps_in_routing_leaves_in_the_pass_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep its GPUs for ever: while it carries its label, its engine may get requests."""
    monkeypatch.setattr(work_queue, "FIRST_BACKOFF_SECONDS", 0.5)
    cluster = Forbidding()
    async with running(cluster):
        await cluster.after(1)
        assert not cluster.is_deleted()
        await cluster.after(2)
    assert cluster.is_deleted()
