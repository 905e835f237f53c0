"""A split: two child pools with one engine, and a front that never serves half a pair."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.converge.world import World
from tests.render.pools import RELEASE, changed, plan, pool, shape, spec, split
from weft.domain import labels
from weft.domain.action import ApplyObject, DeleteObject
from weft.domain.reasons import Reason
from weft.domain.snapshot import PoolRecord, ResourceKey, SplitRecord
from weft.domain.spec import RouterKind, ScalingMode
from weft.domain.status import SplitStatus
from weft.domain.workload import Role

DUO = split()


def child(role: Role, replicas: int = 1) -> PoolRecord:
    """The child as the API server shows it once it is planned."""
    nodes = tuple((f"node-{'a' if role is Role.Prefill else 'b'}",) for _ in range(replicas))
    record = pool(spec(role), plan(shape(1)), *nodes)
    key = ResourceKey("InferencePool", "team", DUO.child_name(role), f"uid-{role.value}")
    return replace(record, key=key, split_uid=DUO.key.uid)


PREFILL, DECODE = child(Role.Prefill), child(Role.Decode)


def bodies(world: World, record: SplitRecord, *children: PoolRecord) -> dict[tuple[str, str], dict[str, Any]]:
    found = (action.body for action in world.look_at(record, *children).actions if isinstance(action, ApplyObject))
    return {(body["kind"], body["metadata"]["name"]): body for body in found}


def settle(world: World, record: SplitRecord, *children: PoolRecord) -> None:
    for _ in range(4):
        world.carry_out(*world.look_at(record, *children).actions)
    assert world.look_at(record, *children).actions == ()


def serve(world: World, *children: PoolRecord) -> None:
    """Run the pods of these children."""
    for record in children:
        for _ in range(3):
            made = [a for a in world.look(record).actions if not isinstance(a, ApplyObject | DeleteObject)]
            world.carry_out(*made)
            world.run()


def ready(world: World, record: SplitRecord, *children: PoolRecord) -> tuple[str, Reason]:
    found = {c.kind: c for c in world.look_at(record, *children).progress.conditions}
    return found["Ready"].status, found["Ready"].explanation.reason


def test_both_sides_run_the_same_engine_release() -> None:
    made = bodies(World(), DUO)
    engines = [made["InferencePool", f"duo-{side}"]["spec"]["engine"] for side in ("prefill", "decode")]
    assert engines == [{"name": "VLLM", "version": RELEASE.version, "image": RELEASE.image}] * 2


def test_children_are_controlled_by_the_split_and_carry_their_role() -> None:
    made = bodies(World(), DUO)["InferencePool", "duo-prefill"]
    assert made["spec"]["role"] == "Prefill"
    assert made["spec"]["router"] == {"type": "None"}
    assert made["metadata"]["ownerReferences"][0] | {"controller": True} == made["metadata"]["ownerReferences"][0]
    assert made["metadata"]["ownerReferences"][0]["uid"] == DUO.key.uid


def test_nothing_is_made_before_the_engine_is_resolved() -> None:
    assert World().look_at(replace(DUO, status=SplitStatus())).actions == ()


def test_a_split_that_is_being_deleted_gets_nothing() -> None:
    assert World().look_at(replace(DUO, deleting=True)).actions == ()


def test_a_converged_split_wants_nothing() -> None:
    """L3."""
    world = World()
    settle(world, DUO)
    settle(world, DUO, PREFILL, DECODE)


def test_the_front_selects_by_the_uid_of_both_children() -> None:
    """Pods of a predecessor of the same name may still be draining."""
    front = bodies(World(), DUO, PREFILL, DECODE)["Deployment", "duo-front"]
    command = front["spec"]["template"]["spec"]["containers"][0]["command"]
    prefill, decode = command.index("--prefill-selector"), command.index("--decode-selector")
    assert f"{labels.POOL_UID}={PREFILL.key.uid}" in command[prefill:decode]
    assert f"{labels.POOL_UID}={DECODE.key.uid}" in command[decode:]
    assert front["spec"]["template"]["spec"]["serviceAccountName"] == "weft-router"


def test_half_a_pair_is_never_routed_to() -> None:
    """S6."""
    world = World()
    settle(world, DUO, PREFILL, DECODE)
    chosen = world.objects["Service", "duo"]["spec"]["selector"]
    front = world.objects["Deployment", "duo-front"]["spec"]["template"]["metadata"]["labels"]
    assert not chosen.items() <= front.items()
    serve(world, PREFILL)
    settle(world, DUO, PREFILL, DECODE)
    assert not world.objects["Service", "duo"]["spec"]["selector"].items() <= front.items()
    assert ready(world, DUO, PREFILL, DECODE) == ("False", Reason.HalfPair)
    serve(world, DECODE)
    settle(world, DUO, PREFILL, DECODE)
    assert world.objects["Service", "duo"]["spec"]["selector"].items() <= front.items()


def test_a_pair_is_ready_when_its_front_is() -> None:
    world = World()
    serve(world, PREFILL, DECODE)
    settle(world, DUO, PREFILL, DECODE)
    assert ready(world, DUO, PREFILL, DECODE) == ("False", Reason.FrontStarting)
    world.objects["Deployment", "duo-front"]["status"] = {"readyReplicas": 1}
    seen = world.look_at(DUO, PREFILL, DECODE).progress
    assert ready(world, DUO, PREFILL, DECODE) == ("True", Reason.Serving)
    assert (seen.prefill_ready, seen.decode_ready, seen.serving_generation) == (1, 1, DUO.generation)
    assert seen.url == "http://duo.team.svc:8000"


def test_an_edited_child_is_put_back_with_an_event() -> None:
    world = World()
    settle(world, DUO)
    world.objects["InferencePool", "duo-decode"]["spec"]["scaling"]["maxReplicas"] = 99
    seen = world.look_at(DUO)
    assert [event.reason for event in seen.events] == [Reason.ChildReverted]
    assert list(bodies(world, DUO)) == [("InferencePool", "duo-decode")]
    world.carry_out(*seen.actions)
    assert world.look_at(DUO).events == ()


def test_our_own_change_is_no_edit_of_somebody_else() -> None:
    world = World()
    settle(world, DUO)
    newer = replace(DUO, status=SplitStatus(replace(RELEASE, version="0.33.0")))
    seen = world.look_at(newer)
    assert seen.events == ()
    assert len(seen.actions) == 2


def test_a_pool_of_that_name_that_is_not_ours_is_left_alone() -> None:
    world = World()
    meta = {"name": "duo-prefill", "namespace": "team", "uid": "theirs"}
    world.objects["InferencePool", "duo-prefill"] = {
        "apiVersion": labels.API_VERSION,
        "kind": "InferencePool",
        "metadata": meta,
    }
    assert ("InferencePool", "duo-prefill") not in bodies(world, DUO)
    assert ready(world, DUO) == ("False", Reason.NameTaken)


def test_without_a_managed_router_there_is_no_front() -> None:
    made = bodies(World(), split(router=RouterKind.Nothing), PREFILL, DECODE)
    assert {kind for kind, _ in made} == {"InferencePool"}


def seeds(world: World, record: SplitRecord, *children: PoolRecord) -> list[tuple[dict[str, Any], bool]]:
    found = [
        action
        for action in world.look_at(record, *children).actions
        if isinstance(action, ApplyObject) and action.manager == labels.SEED_MANAGER
    ]
    return [(action.body["spec"]["scaling"], action.force) for action in found]


def test_a_count_is_seeded_once_and_never_applied_again() -> None:
    world, external = World(), split(ScalingMode.External)
    assert seeds(world, external) == [({"mode": "External", "replicas": 2}, False)] * 2
    for body in bodies(world, external).values():
        assert body["kind"] != "InferencePool" or "role" in body["spec"]
    first = world.look_at(external).actions
    world.carry_out(*first)
    for name in ("duo-prefill", "duo-decode"):
        world.objects["InferencePool", name]["spec"]["scaling"]["replicas"] = 7
    later = world.look_at(external)
    assert later.actions == ()
    assert later.events == ()


def test_a_seed_comes_before_what_needs_it() -> None:
    """The API server refuses External without a count."""
    managers = [a.manager for a in World().look_at(split(ScalingMode.External)).actions if isinstance(a, ApplyObject)]
    assert managers[:2] == [labels.SEED_MANAGER] * 2


def test_counts_start_where_weft_left_off() -> None:
    world = World()
    settle(world, DUO)
    running = changed(child(Role.Prefill, 1), desired_replicas=5)
    given = seeds(world, split(ScalingMode.External), running, DECODE)
    assert given == [({"mode": "External", "replicas": 5}, True), ({"mode": "External", "replicas": 2}, True)]


def test_a_count_goes_back_to_weft_in_one_apply() -> None:
    world = World()
    world.carry_out(*world.look_at(split(ScalingMode.External)).actions)
    for name in ("duo-prefill", "duo-decode"):
        world.objects["InferencePool", name]["spec"]["scaling"]["replicas"] = 3
    assert seeds(world, DUO) == [({"mode": "Auto"}, True)] * 2


@pytest.mark.parametrize("mode", ScalingMode)
def test_no_child_carries_a_count_of_ours(mode: ScalingMode) -> None:
    actions = World().look_at(split(mode)).actions
    ours = [a.body for a in actions if isinstance(a, ApplyObject) and a.manager == labels.CONVERGE_MANAGER]
    pools = [body for body in ours if body["kind"] == "InferencePool"]
    assert len(pools) == 2
    assert all("replicas" not in body["spec"]["scaling"] for body in pools)
