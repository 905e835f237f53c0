"""Services, budgets and fronts: ours are kept as rendered, others' are never touched."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.world import World
from tests.render.pools import changed, plan, pool, shape, spec
from weft.converge.census import Census
from weft.converge.conditions import pool_conditions
from weft.domain import labels
from weft.domain.action import ApplyObject, CreatePod, DeleteObject
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import ModelSpec, RolloutSpec, RouterKind, RouterSpec
from weft.domain.status import Condition, Failure
from weft.render import has_all_of, render_disruption_budget

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

Json = dict[str, Any]

ONE = pool(spec(), plan(), ("node-a",))
FRONTED = pool(spec(router=RouterSpec(RouterKind.Managed, resources=(("memory", "1Gi"),))), plan(), ("node-a",))


def applied(world: World, record: PoolRecord) -> list[tuple[str, str]]:
    found = (action.body for action in world.look(record).actions if isinstance(action, ApplyObject))
    return [(body["kind"], body["metadata"]["name"]) for body in found]


def conditions(world: World, record: PoolRecord) -> dict[str, tuple[str, Reason]]:
    return {c.kind: (c.status, c.explanation.reason) for c in world.look(record).progress.conditions}


def settled(record: PoolRecord) -> World:
    world = World()
    world.settle(record)
    return world


def test_a_pool_has_a_service_and_a_budget() -> None:
    assert applied(World(), ONE) == [("Service", "chat"), ("PodDisruptionBudget", "chat")]


def test_only_replicas_of_several_pods_get_names_for_their_ranks() -> None:
    wide = pool(spec(), plan(shape(8, pipeline_parallel=2, gpus_per_pod=8)), ("node-a", "node-b"))
    assert ("Service", "chat-ranks") in applied(World(), wide)
    assert ("Service", "chat-ranks") not in applied(World(), ONE)


def test_an_edited_object_is_put_back() -> None:
    world = settled(ONE)
    world.objects["Service", "chat"]["spec"]["selector"] = {"app": "other"}
    assert applied(world, ONE) == [("Service", "chat")]


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget"])
def test_a_selector_to_which_somebody_added_a_label_is_put_back(kind: str) -> None:
    """It is one value: with a label more it chooses nobody, while all that we render is there."""
    world = settled(ONE)
    selector = world.objects[kind, "chat"]["spec"]["selector"]
    selector.get("matchLabels", selector)["app"] = "other"
    assert applied(world, ONE) == [(kind, "chat")]
    world.settle(ONE)
    assert applied(world, ONE) == []


def test_defaults_of_the_api_server_and_other_spellings_are_no_difference() -> None:
    world = settled(FRONTED)
    service = world.objects["Service", "chat"]
    service["spec"] |= {"clusterIP": "10.0.0.1", "sessionAffinity": "None"}
    service["metadata"]["labels"]["added-by"] = "somebody"
    container = world.objects["Deployment", "chat-front"]["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"]["memory"] = "1024Mi"
    container["imagePullPolicy"] = "IfNotPresent"
    assert applied(world, FRONTED) == []


def test_a_field_that_is_no_longer_wanted_is_seen() -> None:
    """F6: comparing what we render with what is there would miss it."""
    world = settled(FRONTED)
    plain = replace(FRONTED, spec=spec(router=RouterSpec(RouterKind.Managed)))
    assert applied(world, plain) == [("Deployment", "chat-front")]


def with_its_service(world: World, record: PoolRecord) -> World:
    """The world once the API server has taken the change of the Service, and nothing else."""
    applies = [action for action in world.look(record).actions if isinstance(action, ApplyObject)]
    world.carry_out(*(each for each in applies if each.body["kind"] == "Service"))
    return world


def test_a_front_stays_until_the_service_leads_elsewhere() -> None:
    """The API server may refuse that change, and requests would go to routers that are gone."""
    world = settled(FRONTED)
    assert applied(world, ONE) == [("Service", "chat")]
    assert not any(isinstance(action, DeleteObject) for action in world.look(ONE).actions)


def test_a_front_that_is_no_longer_wanted_is_deleted() -> None:
    world = with_its_service(settled(FRONTED), ONE)
    deletes = [action for action in world.look(ONE).actions if isinstance(action, DeleteObject)]
    gone = [("Deployment", "chat-front"), ("PodDisruptionBudget", "chat-front")]
    assert gone == [(action.kind, action.name) for action in deletes]


def test_nothing_of_others_is_deleted_whatever_kind_it_is_of() -> None:
    """S3: what a pool does not ask for and does not own is of somebody else in its namespace."""
    world = settled(FRONTED)
    for kind, name in [("Deployment", "chat-front"), ("PodDisruptionBudget", "chat-front")]:
        meta = {"name": f"their-{name}", "namespace": "team", "uid": f"their-{kind}"}
        ours = world.objects[kind, name]
        world.objects[kind, meta["name"]] = {**ours, "metadata": meta}
    with_its_service(world, ONE)
    deletes = [action for action in world.look(ONE).actions if isinstance(action, DeleteObject)]
    assert ["chat-front", "chat-front"] == [action.name for action in deletes]


def test_a_pool_whose_service_is_missing_is_not_reached() -> None:
    """A quota that allows no Service, a webhook, or somebody who deletes it: clients find no such name."""
    world = World()
    world.settle(ONE)
    world.run()
    assert conditions(world, ONE)["Ready"] == ("True", Reason.Serving)
    service = world.objects.pop(("Service", "chat"))
    assert conditions(world, ONE)["Ready"] == ("False", Reason.ServiceMissing)
    assert world.look(ONE).progress.url is None
    world.objects["Service", "chat"] = service
    assert world.look(ONE).progress.url is not None


def test_somebody_elses_object_is_left_alone_and_named() -> None:
    world = World()
    world.objects["Service", "chat"] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "chat", "namespace": "team", "uid": "theirs"},
    }
    assert ("Service", "chat") not in applied(world, ONE)
    world.settle(ONE)
    assert conditions(world, ONE)["Ready"] == ("False", Reason.NameTaken)
    assert world.look(ONE).progress.url is None


OF_ITS_PREDECESSOR = [{"kind": "InferencePool", "name": "chat", "uid": "earlier", "controller": True}]
OF_A_SPLIT = [{"kind": "PDSplit", "name": "chat", "uid": "split", "controller": True}]


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ({}, "does not belong to InferencePool/chat, so Weft leaves it alone: delete it, or give InferencePool/chat"),
        (
            {"ownerReferences": OF_A_SPLIT, "labels": {labels.MANAGED_BY: labels.MANAGED_BY_WEFT}},
            "belongs to PDSplit/chat, so Weft leaves it alone: give InferencePool/chat another name",
        ),
        ({"ownerReferences": OF_ITS_PREDECESSOR}, "belongs to an earlier InferencePool/chat"),
        ({"labels": {labels.MANAGED_BY: labels.MANAGED_BY_WEFT}}, "has lost its owner reference"),
    ],
    ids=["a stranger's", "another resource's", "its predecessor's", "its own without owner"],
)
def test_whoever_has_the_name_the_user_reads_what_ends_that(theirs: Json, words: str) -> None:
    """Nobody has to rename anything for what Kubernetes is about to delete."""
    world = World()
    meta = {"name": "chat", "namespace": "team", "uid": "theirs", **theirs}
    world.objects["Service", "chat"] = {"apiVersion": "v1", "kind": "Service", "metadata": meta}
    world.settle(ONE)
    (ready,) = (each for each in world.look(ONE).progress.conditions if each.kind == "Ready")
    assert ready.explanation.message.startswith("Service team/chat ")
    assert words in ready.explanation.message
    assert meta == world.objects["Service", "chat"]["metadata"]


def test_an_object_that_is_being_deleted_is_not_repaired() -> None:
    world = settled(ONE)
    service = world.objects["Service", "chat"]
    service["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    service["spec"]["selector"] = {}
    assert applied(world, ONE) == []


def test_a_front_without_its_account_says_the_command() -> None:
    world = settled(FRONTED)
    refused = 'pods "x" is forbidden: error looking up service account: serviceaccount "weft-router" not found'
    world.objects["Deployment", "chat-front"]["status"] = {
        "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": refused}]
    }
    (ready, *_) = world.look(FRONTED).progress.conditions
    assert ready.explanation.reason is Reason.FrontNotAuthorized
    assert "kubectl apply -n team -k manifests/router" in ready.explanation.message


def test_a_pool_behind_a_front_is_ready_when_the_front_is() -> None:
    world = settled(FRONTED)
    assert conditions(world, FRONTED)["Ready"] == ("False", Reason.FrontStarting)
    world.objects["Deployment", "chat-front"]["status"] = {"readyReplicas": 1}
    assert conditions(world, FRONTED) == {"Ready": ("True", Reason.Serving)}
    assert world.look(FRONTED).progress.url == "http://chat.team.svc:8000"


def test_while_the_plan_in_the_status_cannot_be_read_nothing_is_taken_from_replicas_that_serve() -> None:
    """Another version of the operator wrote it: what the pool wants is known once deciding has planned anew."""
    world = settled(FRONTED)
    there = set(world.objects)
    assert ("Deployment", "chat-front") in there
    world.settle(changed(FRONTED, plan=None))
    assert there == set(world.objects)


@pytest.mark.parametrize(
    ("tensor", "per_pod", "desired", "rollout", "kept"),
    [
        (1, 1, 0, RolloutSpec(), 0),
        (1, 1, 1, RolloutSpec(), 0),
        (1, 1, 4, RolloutSpec(), 3),
        (1, 1, 10, RolloutSpec(max_unavailable=3), 7),
        (1, 1, 10, RolloutSpec(max_unavailable=0.25), 8),
        (1, 1, 50, RolloutSpec(max_unavailable=0.58), 21),
        (16, 8, 3, RolloutSpec(max_unavailable=2), 5),
    ],
)
def test_a_budget_keeps_all_but_what_may_be_unavailable(
    tensor: int, per_pod: int, desired: int, rollout: RolloutSpec, kept: int
) -> None:
    record = pool(spec(rollout=rollout), plan(shape(tensor, gpus_per_pod=per_pod)))
    budget = render_disruption_budget(changed(record, desired_replicas=desired))["spec"]
    assert budget["minAvailable"] == kept
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.parametrize(
    ("tensor", "per_pod", "placed", "rollout", "kept"),
    [
        (1, 1, 4, RolloutSpec(), 3),
        (1, 1, 2, RolloutSpec(), 1),
        (1, 1, 1, RolloutSpec(), 1),
        (1, 1, 0, RolloutSpec(), 1),
        (1, 1, 4, RolloutSpec(max_unavailable=3), 3),
        (1, 1, 9, RolloutSpec(max_unavailable=3), 7),
        (1, 1, 4, RolloutSpec(max_unavailable=0.5), 3),
        (16, 8, 3, RolloutSpec(max_unavailable=2), 5),
        (16, 8, 1, RolloutSpec(), 3),
    ],
)
def test_where_fewer_have_a_place_a_budget_lets_one_of_those_go_and_never_the_last(
    tensor: int, per_pod: int, placed: int, rollout: RolloutSpec, kept: int
) -> None:
    """Of ten replicas that are desired; and never more than while all had a place."""
    record = pool(spec(rollout=rollout), plan(shape(tensor, gpus_per_pod=per_pod)))
    budget = render_disruption_budget(changed(record, desired_replicas=10, placed_replicas=placed))["spec"]
    assert budget["minAvailable"] == kept


def test_while_some_replicas_are_wider_than_planned_all_count_as_wide() -> None:
    """Two pods each are ready of the old ones: three of them would let four pods go."""
    wide = pool(spec(), plan(shape(16, gpus_per_pod=8)), ("node-a", "node-b"))
    narrow = changed(wide, desired_replicas=3, plan=plan(shape(8, gpus_per_pod=8)))
    assert render_disruption_budget(narrow)["spec"]["minAvailable"] == 5
    assert render_disruption_budget(changed(narrow, assignments=()))["spec"]["minAvailable"] == 2


@pytest.mark.parametrize(("tensor", "placed", "kept"), [(16, None, 4), (8, None, 4), (8, 2, 3)])
def test_a_rollout_to_another_width_that_stands_still_blocks_no_node_drain(
    tensor: int, placed: int | None, kept: int
) -> None:
    """Paused, or without room: two replicas of two pods and one of one, as they are, whichever is planned."""
    wide = pool(spec(), plan(shape(tensor, gpus_per_pod=8)), ("node-a", "node-b"), ("node-c", "node-d"), ("node-e",))
    mixed = changed(wide, desired_replicas=3, placed_replicas=placed)
    assert render_disruption_budget(mixed)["spec"]["minAvailable"] == kept


def test_a_serving_pool_is_ready_and_nothing_moves() -> None:
    world = settled(ONE)
    assert conditions(world, ONE) == {"Ready": ("True", Reason.Serving)}


@pytest.mark.parametrize(("ready", "words"), [(1, "1 of 1 replicas serve"), (2, "2 replicas serve, 1 wanted")])
def test_more_that_serve_than_are_wanted_are_no_part_of_these(ready: int, words: str) -> None:
    """While eight of one GPU make way for two of four."""
    census = Census(1, ready, 0, ready, ready, 0, undecided=False, paused=False, finishing=0, waiting=None)
    told, *_ = pool_conditions(ONE, census, None, None)
    assert words == told.explanation.message


def test_a_starting_pool_says_so() -> None:
    world = World()
    assert conditions(world, ONE) == {
        "Ready": ("False", Reason.ReplicasStarting),
        "Reconciling": ("True", Reason.Scaling),
    }


def test_a_failure_of_this_revision_is_told_before_anything_else() -> None:
    failure = Failure(ONE.status.revision, 2, 5.0, Explanation(Reason.EngineFailed, "ValueError: no"))
    (ready, *_) = World().look(changed(ONE, failure=failure)).progress.conditions
    assert ready.explanation == failure.explanation
    old = changed(ONE, failure=replace(failure, revision="earlier"))
    assert conditions(World(), old)["Ready"] == ("False", Reason.ReplicasStarting)


def test_what_only_an_edit_can_mend_stalls() -> None:
    unknown = Condition("Planned", "False", Explanation(Reason.ModelUnknown, "add its config"))
    assert conditions(World(), replace(ONE, conditions=(unknown,))) == {
        "Ready": ("False", Reason.ModelUnknown),
        "Stalled": ("True", Reason.ModelUnknown),
    }


def test_what_waits_for_the_world_does_not_stall() -> None:
    waiting = Condition("Placed", "False", Explanation(Reason.NoSlot, "no node has 1 free GPU"))
    record = replace(changed(ONE, assignments=()), conditions=(waiting,))
    assert conditions(World(), record) == {"Ready": ("False", Reason.NoSlot), "Reconciling": ("True", Reason.Scaling)}


def test_a_rollout_that_gets_nowhere_says_why_while_the_earlier_replicas_serve() -> None:
    """As with a wrong image: the pool is Ready, and its `Stalled` is for what only an edit can mend."""
    world = settled(ONE)
    pulls = Explanation(Reason.ImageUnavailable, "replica 1: ImagePullBackOff")
    (only,) = ONE.status.assignments
    rolls = changed(ONE, assignments=(replace(only, revision="before"),))

    def told(revision: str) -> dict[str, Explanation]:
        seen = world.look(changed(rolls, failure=Failure(revision, 1, 5.0, pulls)))
        return {each.kind: each.explanation for each in seen.progress.conditions}

    earlier = "1 of 1 replicas are of an earlier revision"
    found = told(ONE.status.revision)
    assert found["Ready"].reason is Reason.Serving
    assert found["Reconciling"] == Explanation(
        Reason.RollingOut, f"{earlier}; the last one failed: ImageUnavailable: replica 1: ImagePullBackOff"
    )
    assert told("before")["Reconciling"] == Explanation(Reason.RollingOut, earlier)


def test_a_changed_spec_under_a_paused_rollout_says_that_it_waits_for_the_user() -> None:
    world = settled(ONE)
    newer = changed(ONE, revision="newer")
    assert conditions(world, newer)["Reconciling"] == ("True", Reason.RollingOut)
    assert newer.spec is not None
    paused = replace(newer, spec=replace(newer.spec, rollout=RolloutSpec(paused=True)))
    found = {each.kind: each.explanation for each in world.look(paused).progress.conditions}
    assert found["Ready"].reason is Reason.Serving
    assert found["Reconciling"] == Explanation(
        Reason.Paused, "1 of 1 replicas are of an earlier revision, and spec.rollout.paused keeps them: unset it"
    )


def test_a_config_map_that_is_missing_creates_no_pod_and_does_not_stall() -> None:
    """Without it nobody knows how the weights are stored; Weft looks again by itself."""
    assert ONE.spec is not None
    model = ModelSpec(ONE.spec.model.model_id, config_map=("secret", "config.json"))
    missing = Condition("Planned", "False", Explanation(Reason.ModelConfigMissing, "create it"))
    record = replace(ONE, spec=replace(ONE.spec, model=model), conditions=(missing,))
    answer = World().look(record)
    assert not [action for action in answer.actions if isinstance(action, CreatePod)]
    found = {each.kind: each.explanation.reason for each in answer.progress.conditions}
    assert found == {"Ready": Reason.ModelConfigMissing, "Reconciling": Reason.Scaling}


def test_a_wrong_edit_of_a_serving_pool_stalls_it_and_keeps_it_serving() -> None:
    world = settled(ONE)
    broken = replace(ONE, spec=None, problem=Explanation(Reason.SpecInvalid, "maxReplicas must be a number"))
    assert conditions(world, broken) == {"Ready": ("True", Reason.Serving), "Stalled": ("True", Reason.SpecInvalid)}
    assert world.look(broken).actions == ()


@pytest.mark.parametrize(
    ("observed", "wanted", "same"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([{"name": "x", "v": 1}, {"name": "y"}], [{"name": "x", "v": 1}], True),
        ([{"name": "x", "v": 2}], [{"name": "x", "v": 1}], False),
        (["a", "b"], ["a"], False),
        ([{"name": "x"}], [], False),
        ({"selector": {"a": "1", "b": "2"}}, {"selector": {"a": "1"}}, False),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}, True),
        ({"value": "1Gi"}, {"value": "1024Mi"}, False),
        ([{"name": "x", "v": 1}, {"name": "x", "v": 2}], [{"name": "x", "v": 1}, {"name": "x", "v": 2}], True),
        ([{"name": "x", "v": 1}, {"name": "x", "v": 3}], [{"name": "x", "v": 1}, {"name": "x", "v": 2}], False),
        ([{"name": "x", "v": 2}, {"name": "x", "v": 1}], [{"name": "x", "v": 1}], False),
        (None, {"a": 1}, False),
    ],
)
def test_the_subset_rule(observed: Any, wanted: Any, same: bool) -> None:  # noqa: ANN401, FBT001 - cases of any JSON
    before = copy.deepcopy(observed)
    assert has_all_of(observed, wanted) is same
    assert observed == before
