"""A split: two child pools with one engine, and a front that never serves half a pair."""

from __future__ import annotations

import copy
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import Mock

import pytest

from tests.converge.world import World
from tests.forgetting import forget_everything
from tests.render.pools import RELEASE, SGLANG, changed, plan, pool, shape, spec, split
from weft.domain import labels
from weft.domain.action import ApplyObject, DeleteObject
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.shape import EngineName
from weft.domain.snapshot import PoolRecord, ResourceKey, SplitRecord
from weft.domain.spec import RolloutSpec, RouterKind
from weft.domain.status import SplitStatus
from weft.domain.workload import Role
from weft.render import front_image, front_name, front_program, pair_of, surplus

DUO = split()
CHILDREN = ("duo-prefill", "duo-decode")
FRONT = front_name(DUO.key, pair_of(DUO))


def child(role: Role, replicas: int = 1, pair: str = "") -> PoolRecord:
    """The child as the API server shows it once it is planned."""
    nodes = tuple((f"node-{'a' if role is Role.Prefill else 'b'}",) for _ in range(replicas))
    record = pool(spec(role, pair=pair or pair_of(DUO)), plan(shape(1)), *nodes)
    key = ResourceKey("InferencePool", "team", DUO.child_name(role), f"uid-{role.value}")
    return replace(record, key=key, split_uid=DUO.key.uid, decided=record.generation)


PREFILL, DECODE = child(Role.Prefill), child(Role.Decode)


def bodies(world: World, record: SplitRecord, *children: PoolRecord) -> dict[tuple[str, str], dict[str, Any]]:
    found = (action.body for action in world.look_at(record, *children).actions if isinstance(action, ApplyObject))
    return {(body["kind"], body["metadata"]["name"]): body for body in found}


def assert_settles(world: World, record: SplitRecord, *children: PoolRecord) -> None:
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
    assert_settles(world, DUO)
    assert_settles(world, DUO, PREFILL, DECODE)


def test_the_front_selects_by_the_uid_of_both_children() -> None:
    """Pods of a predecessor of the same name may still be draining."""
    front = bodies(World(), DUO, PREFILL, DECODE)["Deployment", FRONT]
    command = front["spec"]["template"]["spec"]["containers"][0]["command"]
    prefill, decode = command.index("--prefill-selector"), command.index("--decode-selector")
    assert f"{labels.POOL_UID}={PREFILL.key.uid}" in command[prefill:decode]
    assert f"{labels.POOL_UID}={DECODE.key.uid}" in command[decode:]
    assert front["spec"]["template"]["spec"]["serviceAccountName"] == "weft-router"


def test_a_front_in_the_engines_image_stays_with_the_release_behind_it() -> None:
    """A newer server asks engines for what older ones do not say."""
    older = replace(RELEASE, name=EngineName.TensorRTLLM, version="1.2.1", image="example.org/engine:1.2.1")
    before = replace(DUO, status=SplitStatus(older))
    world = World()
    halves = [child(role, pair=pair_of(before)) for role in (Role.Prefill, Role.Decode)]
    assert_settles(world, before, *halves)
    serve(world, *halves)
    assert_settles(world, before, *halves)
    after = replace(DUO, status=SplitStatus(replace(older, version="1.3.0", image="example.org/engine:1.3.0")))
    world.carry_out(*world.look_at(after, *halves).actions)
    pairs = (pair_of(before), pair_of(after))
    images = {pair: front_image(world.objects["Deployment", front_name(DUO.key, pair)]) for pair in pairs}
    assert images == {pair_of(before): older.image, pair_of(after): "example.org/engine:1.3.0"}


def test_the_front_of_an_earlier_engine_stays_its_router() -> None:
    """No pair of the new engine answers yet, and the other one has to be asked by somebody who speaks to it."""
    world = World()
    assert_settles(world, DUO, PREFILL, DECODE)
    serve(world, PREFILL, DECODE)
    assert_settles(world, DUO, PREFILL, DECODE)
    before = copy.deepcopy(world.objects["Deployment", FRONT]["spec"])
    after = replace(DUO, status=SplitStatus(SGLANG))
    world.carry_out(*world.look_at(after, PREFILL, DECODE).actions)
    assert world.objects["Deployment", FRONT]["spec"] == before
    assert front_program(world.objects["Deployment", front_name(DUO.key, pair_of(after))])[0] == "python3"


def test_the_routers_of_each_generation_have_a_budget_of_their_own() -> None:
    """Of one budget over both, a drain could take all routers of one; those of the next may never be ready."""
    world, spec = World(), DUO.spec
    assert spec is not None
    before = replace(DUO, spec=replace(spec, router=replace(spec.router, replicas=2)))
    assert_settles(world, before, PREFILL, DECODE)
    serve(world, PREFILL, DECODE)
    after = replace(before, status=SplitStatus(SGLANG))
    world.carry_out(*world.look_at(after, PREFILL, DECODE).actions)
    for pair in (pair_of(before), pair_of(after)):
        budget = world.objects["PodDisruptionBudget", front_name(DUO.key, pair)]["spec"]
        deployment = world.objects["Deployment", front_name(DUO.key, pair)]["spec"]
        assert deployment["replicas"] - 1 == budget["minAvailable"] == 1
        assert budget["selector"]["matchLabels"].items() <= deployment["template"]["metadata"]["labels"].items()
        assert pair == budget["selector"]["matchLabels"][labels.PAIR]


def test_half_a_pair_is_never_routed_to() -> None:
    """S6."""
    world = World()
    assert_settles(world, DUO, PREFILL, DECODE)
    chosen = world.objects["Service", "duo"]["spec"]["selector"]
    front = world.objects["Deployment", FRONT]["spec"]["template"]["metadata"]["labels"]
    assert not chosen.items() <= front.items()
    serve(world, PREFILL)
    assert_settles(world, DUO, PREFILL, DECODE)
    assert not world.objects["Service", "duo"]["spec"]["selector"].items() <= front.items()
    assert ready(world, DUO, PREFILL, DECODE) == ("False", Reason.HalfPair)
    serve(world, DECODE)
    assert_settles(world, DUO, PREFILL, DECODE)
    assert world.objects["Service", "duo"]["spec"]["selector"].items() <= front.items()


def test_a_child_of_a_predecessor_of_the_same_name_is_no_half() -> None:
    """S6, F4: it is there until garbage collection has taken it, and so are its pods."""
    world, theirs = World(), replace(PREFILL, split_uid="predecessor")
    serve(world, theirs, DECODE)
    seen = world.look_at(DUO, theirs, DECODE).progress
    assert (seen.prefill_ready, seen.decode_ready, seen.serving_generation) == (0, 1, None)
    assert ("Deployment", FRONT) not in bodies(world, DUO, theirs, DECODE)


def test_a_pair_is_ready_when_its_front_is() -> None:
    world = World()
    serve(world, PREFILL, DECODE)
    assert_settles(world, DUO, PREFILL, DECODE)
    assert ready(world, DUO, PREFILL, DECODE) == ("False", Reason.FrontStarting)
    world.objects["Deployment", FRONT]["status"] = {"readyReplicas": 1}
    seen = world.look_at(DUO, PREFILL, DECODE).progress
    assert ready(world, DUO, PREFILL, DECODE) == ("True", Reason.Serving)
    assert (seen.prefill_ready, seen.decode_ready, seen.serving_generation) == (1, 1, DUO.generation)
    assert seen.url == "http://duo.team.svc:8000"


def test_a_split_whose_rollout_is_paused_says_so() -> None:
    world = World()
    serve(world, PREFILL, DECODE)
    newer = changed(DECODE, revision="newer")
    assert newer.spec is not None
    paused = replace(newer, spec=replace(newer.spec, rollout=RolloutSpec(paused=True)))
    for decode, reason in ((newer, Reason.RollingOut), (paused, Reason.Paused)):
        found = {c.kind: c.explanation.reason for c in world.look_at(DUO, PREFILL, decode).progress.conditions}
        assert found["Reconciling"] is reason


def test_an_edited_child_is_put_back_with_an_event() -> None:
    world = World()
    assert_settles(world, DUO)
    world.objects["InferencePool", "duo-decode"]["spec"]["scaling"]["maxReplicas"] = 99
    seen = world.look_at(DUO)
    assert [event.reason for event in seen.events] == [Reason.ChildReverted]
    assert list(bodies(world, DUO)) == [("InferencePool", "duo-decode")]
    world.carry_out(*seen.actions)
    assert world.look_at(DUO).events == ()


def test_our_own_change_is_no_edit_of_somebody_else() -> None:
    world = World()
    assert_settles(world, DUO)
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


def applies(world: World, record: SplitRecord, *children: PoolRecord) -> list[ApplyObject]:
    found = (action for action in world.look_at(record, *children).actions if isinstance(action, ApplyObject))
    return [action for action in found if action.body["kind"] == "InferencePool"]


def test_a_count_is_seeded_once_and_never_applied_again() -> None:
    """In External mode `replicas` is the one field of a child that others own."""
    world, external = World(), split(ScalingMode.External)
    seeds = [a.body["spec"]["scaling"] for a in applies(world, external) if a.manager == labels.SEED_MANAGER]
    assert seeds == [{"mode": "External", "replicas": 2}] * 2
    world.carry_out(*world.look_at(external).actions)
    for name in CHILDREN:
        world.objects["InferencePool", name]["spec"]["scaling"]["replicas"] = 7
    later = world.look_at(external)
    assert later.actions == ()
    assert later.events == ()


def test_a_seed_comes_before_what_needs_it() -> None:
    """The API server refuses External without a count."""
    managers = [action.manager for action in applies(World(), split(ScalingMode.External))]
    assert managers == [labels.SEED_MANAGER, labels.CONVERGE_MANAGER] * 2


def test_counts_start_where_weft_left_off() -> None:
    world, external = World(), split(ScalingMode.External)
    assert_settles(world, DUO)
    running = changed(child(Role.Prefill, 1), desired_replicas=5)
    first = [action.first for action in applies(world, external, running, DECODE)]
    mode = {"op": "add", "path": "/spec/scaling/mode", "value": "External"}
    assert first == [(mode, {"op": "add", "path": "/spec/scaling/replicas", "value": count}) for count in (5, 2)]
    assert_settles(world, external, running, DECODE)
    assert world.objects["InferencePool", "duo-prefill"]["spec"]["scaling"]["replicas"] == 5


def test_a_count_goes_back_to_weft_whoever_owned_it() -> None:
    world = World()
    world.carry_out(*world.look_at(split(ScalingMode.External)).actions)
    assert [event.reason for event in world.look_at(DUO).events] == []
    assert_settles(world, DUO)
    for name in CHILDREN:
        scaling = world.objects["InferencePool", name]["spec"]["scaling"]
        assert scaling["mode"] == "Auto"
        assert "replicas" not in scaling


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("shape",), {"tensorParallel": 8}),
        (("engine", "args"), ["--enforce-eager"]),
        (("scaling", "maxReplicas"), 99),
        (("scaling", "freezeUntil"), "2030-01-01T00:00:00Z"),
        (("router", "type"), "Managed"),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_any_other_edit_of_a_child_is_put_back_in_one_pass(path: tuple[str, ...], value: object) -> None:
    """Changed or added: an apply alone would leave a field that somebody added."""
    world = World()
    assert_settles(world, DUO)
    before = copy.deepcopy(world.objects["InferencePool", "duo-decode"])
    parent = world.objects["InferencePool", "duo-decode"]["spec"]
    for part in path[:-1]:
        parent = parent[part]
    parent[path[-1]] = value
    seen = world.look_at(DUO)
    assert [event.reason for event in seen.events] == [Reason.ChildReverted]
    world.carry_out(*seen.actions)
    assert world.objects["InferencePool", "duo-decode"] == before
    assert world.look_at(DUO).actions == ()


@pytest.mark.parametrize("mode", ScalingMode)
def test_no_child_carries_a_count_of_ours(mode: ScalingMode) -> None:
    ours = [a.body["spec"]["scaling"] for a in applies(World(), split(mode)) if a.manager == labels.CONVERGE_MANAGER]
    assert len(ours) == 2
    assert all("replicas" not in scaling for scaling in ours)


@pytest.mark.parametrize(
    ("observed", "wanted", "pointers"),
    [
        ({"a": 1, "b": {"c": 1, "d/e": 2}}, {"a": 2, "b": {"c": 1}}, ("/b/d~1e",)),
        ({"env": [{"name": "x"}, {"name": "y"}, {"name": "z"}]}, {"env": [{"name": "y"}]}, ("/env/2", "/env/0")),
        ({"env": [{"name": "x", "value": "1"}]}, {"env": [{"name": "x"}]}, ("/env/0/value",)),
        ({"args": ["a", "b"]}, {"args": ["a"]}, ("/args/1",)),
        ({"names": ["a"]}, {"names": []}, ("/names/0",)),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": []}, ()),
        ({"refs": [{"name": "x", "port": 1}, {"name": "x"}]}, {"refs": [{"name": "x"}, {"name": "x", "port": 1}]}, ()),
        ({"a": 1}, {"a": 1, "b": 2}, ()),
    ],
)
def test_what_is_surplus(observed: Any, wanted: Any, pointers: tuple[str, ...]) -> None:  # noqa: ANN401 - any JSON
    assert surplus(observed, wanted) == pointers


def test_what_halves_share_is_hashed_once_while_they_do_not_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass over a split asks for it several times."""
    forget_everything()
    module = import_module("weft.render.revision")
    hashed = Mock(wraps=module._hash)
    monkeypatch.setattr(module, "_hash", hashed)
    for _ in range(3):
        World().look_at(DUO, PREFILL, DECODE)
    assert 3 >= hashed.call_count > 0  # of the pair, and of each half
