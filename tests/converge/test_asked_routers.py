"""Replicas behind a router that heeds no label: it is asked to forget them, and sees their deletion (ADR 0116)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.world import World
from tests.render.pools import NAMESPACE, UID, changed, plan, pool, shape, spec
from weft.domain import labels
from weft.domain.action import Action, ApplyObject, DeletePod, ForgetWorker, UnroutePod
from weft.domain.shape import EngineName
from weft.domain.spec import RouterKind, RouterSpec

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

MANAGED = RouterSpec(RouterKind.Managed)


def serving(runs: EngineName = EngineName.SGLang, **router: Any) -> tuple[PoolRecord, World]:  # noqa: ANN401
    """A pool of one replica over two pods, and a router before it."""
    record = pool(
        spec(router=MANAGED), plan(shape(8, engine=runs, pipeline_parallel=2, gpus_per_pod=8)), ("node-a", "node-b")
    )
    world = World()
    world.settle(record)
    for number, body in enumerate(world.pods.values()):
        body["status"]["podIP"] = f"10.0.0.{number}"
    world.pods["router"] = front("router", **router)
    return record, world


def front(name: str, *, engine: str = "", ready: str = "True", **meta: Any) -> dict[str, Any]:  # noqa: ANN401
    tags = {labels.FRONT_OF: UID, **({labels.ENGINE: engine} if engine else {})}
    ip = f"10.0.1.{len(name)}"
    status = {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": ready}]}
    named = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": tags, **meta}
    return {"metadata": named, "spec": {}, "status": status}


def without(record: PoolRecord) -> PoolRecord:
    return changed(record, assignments=(), desired_replicas=0)


def leaving(record: PoolRecord, world: World) -> list[Action]:
    return [each for each in world.look(record).actions if not isinstance(each, ApplyObject)]


def leader(world: World) -> str:
    return next(name for name in world.pods if name.endswith("-3-0"))


def test_every_router_is_asked_before_the_pod_is_deleted() -> None:
    """The label stays, by which a router sees the deletion that it did not hear of otherwise."""
    record, world = serving()
    world.pods["router-2"] = front("router-2", engine="sglang")
    first = leader(world)
    asked, deleted = leaving(without(record), world)
    assert asked == ForgetWorker(
        NAMESPACE,
        first,
        world.pods[first]["metadata"]["uid"],
        "10.0.0.0:30000",
        (("uid-router", "10.0.1.6:30000"), ("uid-router-2", "10.0.1.8:30000")),
    )
    assert (type(deleted), deleted.name) == (DeletePod, first)  # type: ignore[union-attr]


def test_a_router_is_asked_until_the_engine_has_ended() -> None:
    """One that did not answer in time may have missed the deletion, and the pod's drain is long."""
    record, world = serving()
    world.carry_out(*leaving(without(record), world))
    (again,) = leaving(without(record), world)
    assert isinstance(again, ForgetWorker)
    world.reap()
    assert not [each for each in leaving(without(record), world) if isinstance(each, ForgetWorker)]


def test_a_broken_replica_gets_no_more_requests_while_its_end_is_looked_at() -> None:
    """Its leader may still look ready. Nothing else tells the router, which probes engines every ten seconds."""
    record, world = serving()
    world.fail(next(name for name in world.pods if name.endswith("-3-1")))
    (asked,) = leaving(record, world)
    assert (type(asked), asked.name) == (ForgetWorker, leader(world))  # type: ignore[union-attr]


def test_a_replica_that_serves_is_left_alone() -> None:
    record, world = serving()
    assert leaving(record, world) == []


@pytest.mark.parametrize(
    "router",
    [{"ready": "False"}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"engine": "vllm"}],
    ids=["not ready", "ends", "of another engine"],
)
def test_routers_that_send_it_no_requests_are_not_asked(router: dict[str, Any]) -> None:
    """Nobody waits for the answer of one that gets no requests, or knows none of these engines."""
    record, world = serving(**router)
    assert [type(each) for each in leaving(without(record), world)] == [DeletePod]


def test_a_router_that_heeds_labels_is_not_asked() -> None:
    record, world = serving(EngineName.VLLM)
    assert [type(each) for each in leaving(without(record), world)] == [UnroutePod, DeletePod]
