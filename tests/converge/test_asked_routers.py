"""Replicas behind a router that heeds no label: it is asked to forget them, and sees their deletion (ADR 0116)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.world import World
from tests.fabric.cluster import taint
from tests.render.pools import NAMESPACE, UID, changed, plan, pool, shape, spec
from weft.domain import labels
from weft.domain.action import Action, ApplyObject, DeletePod, ForgetWorker, UnroutePod
from weft.domain.shape import EngineName
from weft.domain.spec import RolloutSpec, RouterKind, RouterSpec

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


def front(name: str, *, engine: str = "", pair: str = "", ready: str = "True", **meta: Any) -> dict[str, Any]:  # noqa: ANN401
    tags = {
        labels.FRONT_OF: UID,
        **({labels.ENGINE: engine} if engine else {}),
        **({labels.PAIR: pair} if pair else {}),
    }
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


def test_routers_of_another_generation_know_nothing_of_it_and_are_not_asked() -> None:
    """They may run another engine, which answers nobody at this port."""
    record, world = serving()
    world.pods["router-2"] = front("router-2", pair="newer")
    asked, _ = leaving(without(record), world)
    assert isinstance(asked, ForgetWorker)
    assert asked.routers == (("uid-router", "10.0.1.6:30000"),)


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


def draining(record: PoolRecord, seconds: float) -> PoolRecord:
    assert record.spec is not None
    return replace(record, spec=replace(record.spec, rollout=RolloutSpec(drain_timeout_seconds=seconds)))


def reclaimed(world: World, *names: str) -> None:
    """Nodes get the notice of AWS that they go in two minutes."""
    spot = (taint("aws-node-termination-handler/spot-itn"),)
    world.nodes = tuple(replace(each, taints=spot) if each.name in names else each for each in world.nodes)


@pytest.mark.parametrize(("drain_seconds", "waits"), [(300.0, False), (91.0, False), (90.0, True)])
def test_what_a_notice_leaves_goes_to_requests_first_and_then_to_routers(drain_seconds: float, *, waits: bool) -> None:
    """Of two minutes ten seconds are for the engine to be told and to end, and twenty for routers that do not answer.

    The deletion then tells the router, and the pod is asked for all the same: it serves on for five seconds.
    """
    record, world = serving()
    reclaimed(world, "node-b")
    actions = leaving(draining(without(record), drain_seconds), world)
    assert [type(each) for each in actions] == ([ForgetWorker, DeletePod] if waits else [DeletePod, ForgetWorker])
    assert [each.hurries for each in actions if isinstance(each, ForgetWorker)] == [not waits]


def two_leaving(*gone: str) -> tuple[list[Action], list[str]]:
    """What is done as two replicas leave while these nodes are reclaimed, and the nodes that it is about."""
    record = pool(spec(router=MANAGED), plan(shape(8, engine=EngineName.SGLang)), ("node-a",), ("node-b",))
    world = World()
    world.settle(record)
    for number, body in enumerate(world.pods.values()):
        body["status"]["podIP"] = f"10.0.0.{number}"
    world.pods["router"] = front("router")
    reclaimed(world, *gone)
    actions = leaving(without(record), world)
    return actions, [world.pods[each.name]["spec"]["nodeName"] for each in actions]  # type: ignore[union-attr]


def test_who_has_no_time_for_routers_is_deleted_before_they_are_asked_about_others() -> None:
    """A router that is slow to answer may take ten seconds of a pass."""
    actions, nodes = two_leaving("node-b")
    assert [type(each) for each in actions] == [DeletePod, ForgetWorker, ForgetWorker, DeletePod]
    assert nodes == ["node-b", "node-b", "node-a", "node-a"]


def test_all_who_have_no_time_for_routers_are_deleted_before_any_is_asked() -> None:
    """A machine of eight replicas would have to wait eight times for a router that is slow to answer."""
    actions, nodes = two_leaving("node-a", "node-b")
    assert [type(each) for each in actions] == [DeletePod, DeletePod, ForgetWorker, ForgetWorker]
    assert nodes == ["node-a", "node-b", "node-a", "node-b"]


def test_a_replica_whose_sidecar_fails_is_not_forgotten() -> None:
    """Its engine serves on, and the kubelet starts the sidecar again."""
    record, world = serving()
    body = world.pods[leader(world)]
    proxy = {"name": "proxy", "state": {"waiting": {"reason": "ErrImagePull"}}}
    body["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    body["status"] = {**body["status"], "initContainerStatuses": [proxy]}
    assert leaving(record, world) == []


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
