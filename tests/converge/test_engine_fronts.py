"""Fronts of a pool whose replicas run two engines: names, labels, images, how replicas leave, and what is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.world import World
from tests.fabric.cluster import taint
from tests.render.pools import NAMESPACE, UID, changed, plan, pool, shape, spec
from weft.domain import labels
from weft.domain.action import ApplyObject, DeleteObject, DeletePod, UnroutePod
from weft.domain.shape import EngineName
from weft.domain.spec import RouterKind, RouterSpec
from weft.render import chooses_front, front_image, front_program

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

Json = dict[str, Any]
ROUTER = RouterSpec(RouterKind.Managed)
TWO = RouterSpec(RouterKind.Managed, replicas=2)
NAMES = ("chat-front", "chat-front-sglang")
VLLM, SGLANG = EngineName.VLLM, EngineName.SGLang


def of(engine: EngineName, *nodes: str, router: RouterSpec = ROUTER) -> PoolRecord:
    """A pool of one engine behind a managed router."""
    return pool(spec(router=router), plan(shape(1, engine=engine)), *((node,) for node in nodes))


def settled(record: PoolRecord) -> World:
    """The pool serves behind its front."""
    world = World()
    world.settle(record)
    for (kind, _), body in world.objects.items():
        if kind == "Deployment":
            body["status"] = {"readyReplicas": 1}
    return world


def moved(before: PoolRecord, engine: EngineName, *, stays: bool = True, router: RouterSpec = ROUTER) -> PoolRecord:
    """The pool with another engine, its first replica as it was, and a second one of the new engine."""
    after = of(engine, "node-a", "node-b", router=router)
    first, second = before.status.assignments[0], after.status.assignments[1]
    return changed(after, assignments=(first, second) if stays else (second,))


def front(world: World, name: str) -> Json:
    found: Json = world.objects["Deployment", name]["spec"]
    return found


def budgets(world: World) -> list[tuple[str, int, dict[str, str]]]:
    """Names of routers' budgets, how many routers each keeps, and which it chooses."""
    found = [(name, body["spec"]) for (kind, name), body in world.objects.items() if kind == "PodDisruptionBudget"]
    return sorted((name, one["minAvailable"], one["selector"]["matchLabels"]) for name, one in found if "front" in name)


def command(deployment: Json) -> list[str]:
    found: list[str] = deployment["template"]["spec"]["containers"][0]["command"]
    return found


def service(world: World) -> Json:
    found: Json = world.objects["Service", "chat"]["spec"]["selector"]
    return found


@pytest.mark.parametrize("engine", EngineName)
def test_a_pool_of_one_engine_has_a_front_as_it_always_had(engine: EngineName) -> None:
    """Nothing of it tells the engine: routers of pools that keep theirs are not restarted by an upgrade."""
    world = settled(of(engine, "node-a"))
    deployment = front(world, "chat-front")
    assert [name for kind, name in world.objects if kind == "Deployment"] == ["chat-front"]
    assert deployment["selector"]["matchLabels"] == service(world) == {labels.FRONT_OF: UID}
    assert labels.ENGINE not in deployment["template"]["metadata"]["labels"]
    assert labels.ENGINE_NAME not in " ".join(command(deployment))
    assert world.look(of(engine, "node-a")).actions == ()


@pytest.mark.parametrize(("before", "after"), [(VLLM, SGLANG), (SGLANG, VLLM)])
def test_each_engine_has_a_front_that_chooses_its_replicas_alone(before: EngineName, after: EngineName) -> None:
    record = of(before, "node-a")
    world = settled(record)
    world.settle(moved(record, after))
    first, second = front(world, "chat-front"), front(world, f"chat-front-{after.lower()}")
    assert f"{labels.ENGINE_NAME}={before.lower()}" in command(first)
    assert f"{labels.ENGINE_NAME}={after.lower()}" in command(second)
    assert command(first)[0] != command(second)[0]
    assert first["selector"]["matchLabels"] == {labels.FRONT_OF: UID}, "a Deployment's cannot change"
    assert second["selector"]["matchLabels"] == {labels.FRONT_OF: UID, labels.ENGINE: after.lower()}


def test_each_front_keeps_all_its_routers_but_one() -> None:
    """Of one budget over both, those that are left may all be of the other front."""
    record = of(VLLM, "node-a", router=TWO)
    world = settled(record)
    assert [("chat-front", 1, {labels.FRONT_OF: UID})] == budgets(world)
    world.settle(moved(record, SGLANG, router=TWO))
    one, other = ({**each["template"]["metadata"]["labels"]} for each in (front(world, name) for name in NAMES))
    (_, first, chooses), (_, second, chooses_beside) = budgets(world)
    assert (1, 1) == (first, second)
    assert [True, False] == [chooses.items() <= pods.items() for pods in (one, other)]
    assert [False, True] == [chooses_beside.items() <= pods.items() for pods in (one, other)]


def test_the_service_chooses_by_what_pods_carry_that_were_there_before() -> None:
    """Routers that earlier versions made, and that roll while the Service changes."""
    record = of(VLLM, "node-a")
    world = settled(record)
    earlier = front(world, "chat-front")["template"]["metadata"]["labels"]
    world.settle(moved(record, SGLANG))
    later = front(world, "chat-front")["template"]["metadata"]["labels"]
    other = front(world, "chat-front-sglang")["template"]["metadata"]["labels"]
    only = service(world).items()
    assert only <= earlier.items()
    assert only <= later.items()
    assert not only <= other.items()


def test_the_service_chooses_both_once_the_second_one_answers() -> None:
    record = of(VLLM, "node-a")
    world, after = settled(record), moved(record, SGLANG)
    world.settle(after)
    assert not chooses_front(world.objects["Service", "chat"], SGLANG, beside=True)
    world.objects["Deployment", "chat-front-sglang"]["status"] = {"readyReplicas": 1}
    world.settle(after)
    assert service(world) == {labels.FRONT_OF: UID}
    assert chooses_front(world.objects["Service", "chat"], SGLANG, beside=True)


def test_the_service_moves_before_there_is_a_second_front() -> None:
    """Whatever is written last may lack: a router that nobody has told apart yet would be chosen, too."""
    record = of(VLLM, "node-a")
    world = settled(record)
    found = [action.body for action in world.look(moved(record, SGLANG)).actions if isinstance(action, ApplyObject)]
    names = [body["metadata"]["name"] for body in found if body["kind"] in {"Service", "Deployment"}]
    assert names == ["chat", "chat-front-sglang", "chat-front"]


def test_an_earlier_front_keeps_the_image_that_it_runs() -> None:
    """`router.image` of the user is a router of the engine that the spec names."""
    record = of(VLLM, "node-a", router=replace(ROUTER, image="example.org/vllm-router:1"))
    world = settled(record)
    world.settle(moved(record, SGLANG, router=replace(ROUTER, image="example.org/sglang-router:1")))
    images = [front_image(world.objects["Deployment", name]) for name in ("chat-front", "chat-front-sglang")]
    assert images == ["example.org/vllm-router:1", "example.org/sglang-router:1"]


def test_a_container_that_a_webhook_puts_first_is_not_taken_for_the_router() -> None:
    """The earlier front would be applied with the proxy's image, before replicas that still need it."""
    record = of(VLLM, "node-a", router=replace(ROUTER, image="example.org/vllm-router:1"))
    world = settled(record)
    mesh = {"name": "istio-proxy", "image": "example.org/mesh:1", "command": ["pilot-agent"]}
    front(world, "chat-front")["template"]["spec"]["containers"].insert(0, mesh)
    assert front_program(world.objects["Deployment", "chat-front"]) == ("vllm-router",)
    world.settle(moved(record, SGLANG, router=replace(ROUTER, image="example.org/sglang-router:1")))
    images = {each["name"]: each["image"] for each in front(world, "chat-front")["template"]["spec"]["containers"]}
    assert images["router"] == "example.org/vllm-router:1"


def test_a_front_stays_while_replicas_of_its_engine_do_though_none_answers() -> None:
    """A probe that fails for a moment would cost it a start."""
    record = of(VLLM, "node-a")
    world, after = settled(record), moved(record, SGLANG)
    world.settle(after)
    (old,) = (body for name, body in world.pods.items() if name.endswith("-3-0"))
    old["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    world.carry_out(*world.look(after).actions)
    assert ("Deployment", "chat-front") in world.objects


def test_a_front_that_was_made_for_another_engine_is_known_by_what_it_runs() -> None:
    """That of an operator from before fronts said so; its replicas are all gone."""
    world = settled(of(SGLANG, "node-a"))
    world.pods.clear()
    world.settle(of(VLLM, "node-a"))
    (name,) = (name for kind, name in world.objects if kind == "Deployment")
    assert (name, front_program(world.objects["Deployment", name])) == ("chat-front-vllm", ("vllm-router",))


@pytest.mark.parametrize("edited", [None, ["my-router", "--port", "8000"]])
def test_a_front_whose_command_somebody_edited_is_put_right_in_place(edited: list[str] | None) -> None:
    """Another one beside it would start while the Deployment that routes goes."""
    record = of(VLLM, "node-a")
    world = settled(record)
    container = front(world, "chat-front")["template"]["spec"]["containers"][0]
    ours = container.pop("command")
    if edited is not None:
        container["command"] = edited
    (action,) = world.look(record).actions
    assert isinstance(action, ApplyObject)
    assert (action.body["metadata"]["name"], command(action.body["spec"])) == ("chat-front", ours)


@pytest.mark.parametrize("edited", [None, {"app": "mine"}])
def test_a_service_whose_selector_somebody_edited_is_put_right(edited: dict[str, str] | None) -> None:
    record = of(VLLM, "node-a")
    world = settled(record)
    spec_now = world.objects["Service", "chat"]["spec"]
    del spec_now["selector"]
    if edited is not None:
        spec_now["selector"] = edited
    assert not chooses_front(world.objects["Service", "chat"], VLLM, beside=False)
    (action,) = world.look(record).actions
    assert isinstance(action, ApplyObject)
    assert action.body["spec"]["selector"] == {labels.FRONT_OF: UID}


@pytest.mark.parametrize(
    ("before", "after", "done"), [(VLLM, SGLANG, [UnroutePod, DeletePod]), (SGLANG, VLLM, [DeletePod])]
)
def test_a_replica_leaves_as_the_front_of_its_own_engine_heeds(
    before: EngineName, after: EngineName, done: list[type]
) -> None:
    """ADR 0029: `sglang-router` forgets a pod that lost its label, and would miss its deletion."""
    record = of(before, "node-a")
    world = settled(record)
    world.settle(moved(record, after))
    world.objects["Deployment", f"chat-front-{after.lower()}"]["status"] = {"readyReplicas": 1}
    world.settle(moved(record, after))
    gone = moved(record, after, stays=False)
    actions = [each for each in world.look(gone).actions if isinstance(each, UnroutePod | DeletePod)]
    assert [type(each) for each in actions] == done


def test_nobody_leaves_before_requests_find_the_new_engine_and_that_is_told() -> None:
    record = of(VLLM, "node-a")
    world = settled(record)
    world.settle(moved(record, SGLANG))
    convergence = world.look(moved(record, SGLANG, stays=False))
    assert not [each for each in convergence.actions if isinstance(each, UnroutePod | DeletePod)]
    said = {each.kind: each for each in convergence.progress.conditions}
    assert said["Ready"].status == "True"
    assert "no pod of Deployment chat-front-sglang is ready yet" in said["Reconciling"].explanation.message


def test_a_replica_whose_node_goes_leaves_while_its_requests_have_time_to_be_over() -> None:
    """Nobody else takes over yet, and what it would take on would be cut off with its node."""
    record = of(VLLM, "node-a")
    world = settled(record)
    world.settle(moved(record, SGLANG))
    gone = moved(record, SGLANG, stays=False)
    world.nodes = tuple(
        replace(node, taints=(taint("ToBeDeletedByClusterAutoscaler", "2000"),)) if node.name == "node-a" else node
        for node in world.nodes
    )
    convergence = world.look(gone)
    assert not [each for each in convergence.actions if isinstance(each, UnroutePod | DeletePod)]
    assert convergence.again_seconds is not None
    world.heard = replace(world.heard, now=world.heard.now + convergence.again_seconds)
    assert [each for each in world.look(gone).actions if isinstance(each, UnroutePod)]


def test_a_replica_that_lost_a_pod_is_kept_for_nobody() -> None:
    """Its first pod still says that it is ready, and nobody computes what it takes."""
    record = pool(spec(router=ROUTER), plan(shape(2, gpus_per_pod=1)), ("node-a", "node-b"))
    world = settled(record)
    world.settle(moved(record, SGLANG))
    gone = moved(record, SGLANG, stays=False)
    assert not [each for each in world.look(gone).actions if isinstance(each, UnroutePod | DeletePod)]
    world.fail(next(name for name in world.pods if name.endswith("-3-1")))
    assert [each for each in world.look(gone).actions if isinstance(each, UnroutePod | DeletePod)]


@pytest.mark.parametrize("terminating", [False, True])
def test_the_last_replica_waits_for_routers_before_it_that_still_end(*, terminating: bool) -> None:
    record = of(VLLM, "node-a")
    world = settled(record)
    world.settle(moved(record, SGLANG))
    world.objects["Deployment", "chat-front-sglang"]["status"] = {"readyReplicas": 1}
    world.settle(moved(record, SGLANG))
    tags = {labels.FRONT_OF: UID, labels.ENGINE: "vllm"}
    meta = {"name": "router", "namespace": NAMESPACE, "uid": "router", "labels": tags}
    end = {"deletionTimestamp": "1970-01-01T00:33:30Z"} if terminating else {}
    world.pods["router"] = {"metadata": meta | end, "spec": {}, "status": {"phase": "Running"}}
    gone = moved(record, SGLANG, stays=False)
    convergence = world.look(gone)
    assert not [each for each in convergence.actions if isinstance(each, UnroutePod | DeletePod)]
    gone_with_it = [(each.kind, each.name) for each in convergence.actions if isinstance(each, DeleteObject)]
    assert gone_with_it == [("Deployment", "chat-front"), ("PodDisruptionBudget", "chat-front")]
    if terminating:  # a kubelet that does not answer keeps nobody for ever
        assert convergence.again_seconds == 70.0
        world.heard = replace(world.heard, now=world.heard.now + 70.0)
    else:
        del world.pods["router"]
    assert [each for each in world.look(gone).actions if isinstance(each, UnroutePod | DeletePod)]
