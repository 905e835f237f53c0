"""The ComputeDomain of a replica: before its pods, behind no gate of theirs, and gone after the last of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.world import DELETED, World, claims
from tests.fabric.cluster import rack
from tests.render.pools import changed, plan, pool, shape, sharing, spec
from weft.converge import Heard, converge_pool
from weft.domain.action import ApplyObject, CreatePod, DeleteObject, ReleasePods
from weft.domain.hardware import Precision

if TYPE_CHECKING:
    from weft.domain.action import Action
    from weft.domain.snapshot import PoolRecord

Json = dict[str, Any]
TRAYS = ("a.1-t0", "a.1-t1")
KIND = "ComputeDomain"
TWO_TRAYS = sharing(
    pool(spec(), plan(shape(8, "GB200", Precision.FP8, gpus_per_pod=4)), TRAYS),
    "a.1",
    "a.1",
)
NAME = "chat-c3a44-3"


def forming() -> World:
    return World(*rack("a.1", 3), driver=True)


def settled(record: PoolRecord = TWO_TRAYS) -> World:
    world = forming()
    world.settle(record)
    assert 1 == world.look(record).progress.ready_replicas
    return world


def domains(world: World) -> list[str]:
    return [name for kind, name in world.objects if kind == KIND]


def about_domains(actions: tuple[Action, ...]) -> list[Action]:
    applied = [each for each in actions if isinstance(each, ApplyObject) and each.body["kind"] == KIND]
    return [*applied, *(each for each in actions if isinstance(each, DeleteObject) and each.kind == KIND)]


def gone(record: PoolRecord = TWO_TRAYS) -> PoolRecord:
    return changed(record, assignments=(), desired_replicas=0)


def test_it_is_there_before_the_first_pod() -> None:
    """A pod that is created first would be told that its claim has no template."""
    actions = forming().look(TWO_TRAYS).actions
    kinds = [type(each) for each in actions if isinstance(each, CreatePod) or each in about_domains(actions)]
    assert [ApplyObject, CreatePod, CreatePod] == kinds


def test_it_is_named_like_the_replica_and_waits_for_no_number_of_nodes() -> None:
    world = settled()
    body = world.objects[KIND, NAME]
    channel = {"resourceClaimTemplate": {"name": NAME}, "allocationMode": "Single"}
    assert {"numNodes": 0, "channel": channel} == body["spec"]
    (owner,) = body["metadata"]["ownerReferences"]
    assert TWO_TRAYS.key.uid == owner["uid"]
    assert [[NAME], [NAME]] == [claims(pod) for pod in world.pods.values()]
    assert all(
        [{"name": "compute-domain"}] == pod["spec"]["containers"][0]["resources"]["claims"]
        for pod in world.pods.values()
    )


def test_two_replicas_have_one_each() -> None:
    record = pool(spec(), plan(shape(8, "GB200", Precision.FP8, gpus_per_pod=4)), TRAYS, ("a.1-t2", "a.1-t3"))
    world = World(*rack("a.1", 4), driver=True)
    world.settle(sharing(record, "a.1", "a.1"))
    assert [NAME, "chat-c3a44-4"] == domains(world)


def test_no_gate_falls_before_it_is_seen() -> None:
    """Pods of a replica that the status notes as complete wait for the ComputeDomain that somebody took."""
    world = forming()
    world.carry_out(*world.look(TWO_TRAYS).actions)
    del world.objects[KIND, NAME]
    seen = world.look(TWO_TRAYS)
    assert [] == [each for each in seen.actions if isinstance(each, ReleasePods)]
    ready = next(each for each in seen.progress.conditions if each.kind == "Ready")
    assert "replica 3 waits for its ComputeDomain" in ready.explanation.message


def test_gates_stay_while_a_node_is_in_another_and_say_so() -> None:
    world = forming()
    theirs = {"metadata": {"namespace": "other", "name": "theirs", "uid": "u-9"}, "kind": KIND, "apiVersion": "x/v1"}
    spec_of_it = {"channel": {"resourceClaimTemplate": {"name": "none"}}}
    world.objects[KIND, "theirs"] = {**theirs, "spec": spec_of_it, "status": {"nodes": [{"name": TRAYS[1]}]}}
    world.settle(TWO_TRAYS)
    seen = world.look(TWO_TRAYS)
    assert 0 == seen.progress.ready_replicas
    ready = next(each for each in seen.progress.conditions if each.kind == "Ready")
    assert "replica 3 waits: node a.1-t1 is in ComputeDomain other/theirs" in ready.explanation.message
    del world.objects[KIND, "theirs"]
    world.settle(TWO_TRAYS)
    assert 1 == world.look(TWO_TRAYS).progress.ready_replicas


def test_at_rest_nothing_is_written() -> None:
    """L3, whatever the driver adds to its status."""
    world = settled()
    world.objects[KIND, NAME]["status"] = {"status": "Ready", "nodes": [{"name": TRAYS[0]}]}
    world.objects[KIND, NAME]["metadata"]["finalizers"] = ["resource.nvidia.com/computeDomain"]
    assert () == world.look(TWO_TRAYS).actions


def test_it_stays_until_the_last_pod_is_gone() -> None:
    """Without it engines that still answer requests would lose each other's memory."""
    world = settled()
    leaving = gone()
    for _ in range(12):
        actions = world.look(leaving).actions
        assert not (world.pods and about_domains(actions))
        world.carry_out(*actions)
        if not actions:
            break
        world.reap()
    assert ({}, []) == (world.pods, domains(world))


@pytest.mark.parametrize("written", range(1, 5))
def test_a_replica_that_is_given_up_half_way_leaves_none(written: int) -> None:
    """After any of its first writes: the domain, one pod, both."""
    world = forming()
    world.carry_out(*world.look(TWO_TRAYS).actions[:written])
    world.settle(gone())
    assert ({}, []) == (world.pods, domains(world))


@pytest.mark.parametrize("written", range(9))
def test_a_restart_between_any_two_writes_ends_in_the_same_state(written: int) -> None:
    """L5."""
    whole, broken = settled(), forming()
    left = written
    while left > 0 and (actions := broken.look(TWO_TRAYS).actions):
        broken.carry_out(*actions[:left])
        broken.run()
        left -= len(actions)
    broken.settle(TWO_TRAYS)
    assert whole.state() == broken.state()


def test_one_that_is_being_deleted_is_neither_repaired_nor_deleted_again() -> None:
    """S10: the driver's finalizer holds it; deciding ends the replica."""
    world = settled()
    world.objects[KIND, NAME]["metadata"].update(DELETED)
    assert [] == about_domains(world.look(TWO_TRAYS).actions)
    assert [] == about_domains(world.look(gone()).actions)


def test_one_that_is_gone_is_not_made_again_under_a_running_replica() -> None:
    """Claims name the ComputeDomain that they were made for by UID."""
    world = settled()
    del world.objects[KIND, NAME]
    assert [] == about_domains(world.look(TWO_TRAYS).actions)


def test_one_that_goes_before_the_replica_is_complete_is_made_again() -> None:
    world = forming()
    world.carry_out(*world.look(TWO_TRAYS).actions)
    del world.objects[KIND, NAME]
    unnoted = converge_pool(TWO_TRAYS, world.fabric(), world.pod_records(), world.object_records(), Heard(0.0))
    assert [NAME] == [each.body["metadata"]["name"] for each in about_domains(unnoted.actions)]  # type: ignore[union-attr]


@pytest.mark.parametrize("owners", [[], [{"apiVersion": "weft.dev/v1alpha1", "uid": "other", "controller": True}]])
def test_those_of_others_are_left_alone(owners: list[Json]) -> None:
    """S3: by UID of the owner, whatever they are called."""
    world = settled()
    meta = {"namespace": "team", "name": "chat-c3a44-9", "uid": "u-9", "ownerReferences": owners}
    spec_of_it = {"channel": {"resourceClaimTemplate": {"name": "none"}}}
    world.objects[KIND, "chat-c3a44-9"] = {"kind": KIND, "apiVersion": "x/v1", "metadata": meta, "spec": spec_of_it}
    world.settle(gone())
    assert ["chat-c3a44-9"] == domains(world)


def test_a_pool_that_is_deleted_leaves_them_to_garbage_collection() -> None:
    assert () == settled().look(replace(TWO_TRAYS, deleting=True)).actions


def test_a_replica_without_one_asks_for_none() -> None:
    """Placed before the driver came: it stays as it is."""
    plain = pool(spec(), plan(shape(8, "GB200", Precision.FP8, gpus_per_pod=4)), TRAYS)
    world = forming()
    world.settle(plain)
    assert [] == domains(world)
    assert [[], []] == [claims(pod) for pod in world.pods.values()]
    assert 1 == world.look(plain).progress.ready_replicas
