"""The ComputeDomain of a split: made by the split, before any pod that claims it, and gone after the last of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.converge.world import DELETED, World, claims
from tests.fabric.cluster import rack
from tests.render.pools import changed, plan, pool, shape, spec, split
from weft.domain import labels
from weft.domain.action import Action, ApplyObject, CreatePod, DeleteObject
from weft.domain.hardware import Precision
from weft.domain.snapshot import PoolRecord, ResourceKey
from weft.domain.spec import KVSpec
from weft.domain.status import ComputeDomain
from weft.domain.workload import Role
from weft.render import pair_of, shared_domain_name

KIND = "ComputeDomain"
DUO = split()
PAIR = pair_of(DUO)
NAME = shared_domain_name("duo", DUO.key.uid, PAIR)
EARLIER = "0a1b2c3d4e"


def child(role: Role, *nodes: str, pair: str = PAIR) -> PoolRecord:
    """A half whose replicas are a tray each."""
    wanted = spec(role, pair=pair, kv=KVSpec(transport="NVLink"))
    record = pool(wanted, plan(shape(4, "GB200", Precision.FP8)), *((node,) for node in nodes))
    key = ResourceKey("InferencePool", "team", DUO.child_name(role), f"uid-{role.value}")
    name = shared_domain_name("duo", DUO.key.uid, pair)
    assigned = tuple(replace(each, compute_domain=ComputeDomain(("a.1",), name)) for each in record.status.assignments)
    return changed(replace(record, key=key, split_uid=DUO.key.uid), assignments=assigned)


PREFILL, DECODE = child(Role.Prefill, "a.1-t0"), child(Role.Decode, "a.1-t1", "a.1-t2")


def about_domains(actions: tuple[Action, ...]) -> list[Action]:
    applied = [each for each in actions if isinstance(each, ApplyObject) and each.body["kind"] == KIND]
    return [*applied, *(each for each in actions if isinstance(each, DeleteObject) and each.kind == KIND)]


def of_split(world: World, *children: PoolRecord) -> list[Action]:
    """What the split does about ComputeDomains, with what deciding noted of its halves."""
    return about_domains(world.look_at(DUO, *map(world.noted, children)).actions)


def made(world: World, *children: PoolRecord) -> World:
    world.carry_out(*of_split(world, *children))
    return world


def settled(*children: PoolRecord) -> World:
    world = made(World(*rack("a.1", 4), driver=True), *children)
    for record in children:
        world.settle(record)
    return world


def domains(world: World) -> list[str]:
    return [name for kind, name in world.objects if kind == KIND]


def test_pods_wait_until_their_split_has_made_it() -> None:
    world = World(*rack("a.1", 4), driver=True)
    actions = world.look(PREFILL).actions
    assert not any(isinstance(each, CreatePod) for each in actions)
    assert [] == about_domains(actions)
    made(world, PREFILL, DECODE)
    assert any(isinstance(each, CreatePod) for each in world.look(PREFILL).actions)


def test_one_is_of_both_halves_and_waits_for_no_number_of_nodes() -> None:
    world = settled(PREFILL, DECODE)
    assert [NAME] == domains(world)
    body: dict[str, Any] = world.objects[KIND, NAME]
    channel = {"resourceClaimTemplate": {"name": NAME}, "allocationMode": "Single"}
    assert {"numNodes": 0, "channel": channel} == body["spec"]
    (owner,) = body["metadata"]["ownerReferences"]
    assert ("PDSplit", DUO.key.uid) == (owner["kind"], owner["uid"])
    assert ("duo", PAIR) == (body["metadata"]["labels"][labels.SPLIT], body["metadata"]["labels"][labels.PAIR])
    assert [[NAME]] * 3 == [claims(pod) for pod in world.pods.values()]


def test_all_of_both_halves_serve_and_nothing_is_left_to_do() -> None:
    world = settled(PREFILL, DECODE)
    assert (1, 2) == tuple(world.look(each).progress.ready_replicas for each in (PREFILL, DECODE))
    assert [] == of_split(world, PREFILL, DECODE)


def test_a_half_that_grows_or_shrinks_leaves_it_as_it_is() -> None:
    world = settled(PREFILL, DECODE)
    before = world.objects[KIND, NAME]
    for half in (child(Role.Decode, "a.1-t1", "a.1-t2", "a.1-t3"), child(Role.Decode, "a.1-t1")):
        assert [] == of_split(world, PREFILL, half)
        world.settle(half)
    assert before is world.objects[KIND, NAME]


def test_it_stays_while_a_pod_of_either_half_is_there() -> None:
    world = settled(PREFILL, DECODE)
    gone = [changed(each, assignments=()) for each in (PREFILL, DECODE)]
    world.settle(gone[0])
    assert [] == of_split(world, *gone)
    world.settle(gone[1])
    (deletion,) = of_split(world, *gone)
    assert isinstance(deletion, DeleteObject)
    assert (NAME, world.objects[KIND, NAME]["metadata"]["uid"]) == (deletion.name, deletion.uid)


def test_one_that_somebody_deleted_is_not_made_anew_under_its_pods() -> None:
    """Their claims name the one that is gone: deciding ends them first."""
    world = settled(PREFILL, DECODE)
    world.forget(KIND, NAME)
    assert [] == of_split(world, PREFILL, DECODE)
    world.settle(changed(PREFILL, assignments=()))
    world.settle(changed(DECODE, assignments=()))
    again = [replace(each, replica=each.replica + 9) for each in PREFILL.status.assignments]
    (applied,) = of_split(world, changed(PREFILL, assignments=tuple(again)), changed(DECODE, assignments=()))
    assert isinstance(applied, ApplyObject)


def test_one_that_is_gone_is_not_made_anew_under_pods_that_were_not_complete_yet() -> None:
    """Their claims are there already: they are made for pods behind gates, too."""
    world = made(World(*rack("a.1", 4), driver=True), PREFILL, DECODE)
    world.carry_out(*world.look(PREFILL).actions)
    world.forget(KIND, NAME)
    assert [] == about_domains(world.look_at(DUO, PREFILL, DECODE).actions)
    world.pods.clear()
    assert 1 == len(about_domains(world.look_at(DUO, PREFILL, DECODE).actions))


def test_pods_wait_until_one_that_is_about_to_go_is_gone() -> None:
    """A pair that comes back may find its earlier one, whose template is of no use for the next of that name."""
    world = made(World(*rack("a.1", 4), driver=True), PREFILL, DECODE)
    world.objects[KIND, NAME]["metadata"].update(DELETED)
    assert not any(isinstance(each, CreatePod) for each in world.look(PREFILL).actions)
    assert [] == of_split(world, PREFILL, DECODE)
    world.forget(KIND, NAME)
    made(world, PREFILL, DECODE)
    assert any(isinstance(each, CreatePod) for each in world.look(PREFILL).actions)


def test_one_that_is_about_to_go_releases_nobody() -> None:
    world = made(World(*rack("a.1", 4), driver=True), PREFILL, DECODE)
    world.carry_out(*world.look(PREFILL).actions)
    world.objects[KIND, NAME]["metadata"].update(DELETED)
    world.carry_out(*world.look(PREFILL).actions)
    assert all(pod["spec"]["schedulingGates"] for pod in world.pods.values())
    reasons = [each.explanation.message for each in world.look(PREFILL).progress.conditions]
    assert any("replica 3 waits for its ComputeDomain" in message for message in reasons)


def test_generations_have_one_each() -> None:
    earlier = child(Role.Decode, "a.1-t3", pair=EARLIER)
    world = settled(PREFILL, earlier)
    assert {NAME, shared_domain_name("duo", DUO.key.uid, EARLIER)} == set(domains(world))
    world.settle(changed(earlier, assignments=()))
    (deletion,) = of_split(world, PREFILL, changed(earlier, assignments=()))
    assert isinstance(deletion, DeleteObject)
    assert shared_domain_name("duo", DUO.key.uid, EARLIER) == deletion.name


def test_while_a_child_cannot_be_seen_none_is_deleted() -> None:
    """Its pods may be there."""
    world = settled(PREFILL, DECODE)
    assert [] == of_split(world)


def test_one_of_somebody_else_by_that_name_is_left_alone() -> None:
    world = World(*rack("a.1", 4), driver=True)
    made(world, PREFILL, DECODE)
    world.objects[KIND, NAME]["metadata"]["ownerReferences"][0]["uid"] = "somebody"
    assert not any(isinstance(each, CreatePod) for each in world.look(PREFILL).actions)
    assert not any(isinstance(each, DeleteObject) for each in of_split(world, PREFILL, DECODE))
