"""Replicas of which every pod answers requests: routed, ready, drained and listed to a Gateway as a whole."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.converge.test_gateway import AT_A_GATEWAY
from tests.converge.world import World
from tests.fabric.cluster import rack
from tests.render.pools import changed, plan, pool, shape, spec, split
from weft.converge import Heard
from weft.converge.draining import IDLE_GRACE_SECONDS
from weft.converge.generations import answers
from weft.converge.replicas import replicas_of
from weft.domain import labels
from weft.domain.action import ApplyObject, DeletePod, UnroutePod
from weft.domain.snapshot import EngineWord, ResourceKey
from weft.domain.spec import Balancing, EngineSpec, RouterKind, RouterSpec
from weft.domain.workload import Role
from weft.render import front_name, pair_of, routed_selector

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.spec import PoolSpec

START = 2000.0
TRAYS = ("a.1-t0", "a.1-t1")
RANKS = plan(shape(2, "GB200", data_parallel=4, expert_parallel=8, gpus_per_pod=4))


def two_pods(balancing: Balancing = Balancing.Hybrid, router: RouterSpec | None = None) -> PoolRecord:
    return pool(wanted(balancing, router), RANKS, TRAYS)


def wanted(balancing: Balancing, router: RouterSpec | None = None) -> PoolSpec:
    return spec(balancing=balancing, router=router or RouterSpec())


def settled(record: PoolRecord) -> World:
    world = World(*rack("a.1", 4))
    world.settle(record)
    assert all(pod.ready for pod in world.pod_records())
    return world


def selected(world: World, selector: dict[str, str]) -> list[str]:
    return [name for name, body in sorted(world.pods.items()) if selector.items() <= body["metadata"]["labels"].items()]


@pytest.mark.parametrize(("balancing", "serving"), [(Balancing.Internal, 1), (Balancing.Hybrid, 2)])
def test_services_and_fronts_choose_every_pod_that_answers(balancing: Balancing, serving: int) -> None:
    record = two_pods(balancing, RouterSpec(RouterKind.Managed))
    world = settled(record)
    assert len(asked(world)) == serving
    assert len(asked(settled(two_pods(balancing)))) == serving


def asked(world: World) -> list[str]:
    """Pods that the pool's router or endpoint picker may choose, or without one its Service."""
    if ("InferencePool", "chat") in world.objects:
        return selected(world, world.objects["InferencePool", "chat"]["spec"]["selector"]["matchLabels"])
    fronts = [body for (kind, _), body in world.objects.items() if kind == "Deployment"]
    if not fronts:
        return selected(world, world.objects["Service", "chat"]["spec"]["selector"])
    (front,) = fronts
    command = front["spec"]["template"]["spec"]["containers"][0]["command"]
    chosen = [pair for pair in command[command.index("--selector") + 1 :] if pair.startswith(labels.GROUP)]
    return selected(world, dict(pair.split("=") for pair in chosen))


@pytest.mark.parametrize(
    "router", [RouterSpec(), RouterSpec(RouterKind.Managed), AT_A_GATEWAY], ids=["service", "front", "picker"]
)
def test_ranks_of_earlier_replicas_are_asked_until_these_are_gone(router: RouterSpec) -> None:
    """Where the first pod is to answer for all of them from now on: of those before, it knows its own alone."""
    before, after = two_pods(Balancing.Hybrid, router), two_pods(Balancing.Internal, router)
    world = settled(before)
    earlier = sorted(world.pods)
    old, new = before.status.assignments[0], after.status.assignments[0]
    surged = changed(after, assignments=(old, replace(new, replica=4, nodes=("a.1-t2", "a.1-t3"))))
    world.settle(surged)
    first, _ = sorted(set(world.pods) - set(earlier))
    assert asked(world) == [*earlier, first]
    world.settle(changed(surged, assignments=surged.status.assignments[1:]))
    assert asked(world) == [first]


def half(record: SplitRecord, role: Role, nodes: tuple[str, ...]) -> PoolRecord:
    """A child of the split as it is planned, over two pods."""
    assert record.spec is not None
    asked = record.spec.prefill if role is Role.Prefill else record.spec.decode
    planned = pool(replace(asked, pair=pair_of(record)), RANKS, nodes)
    key = ResourceKey("InferencePool", "team", record.child_name(role), f"uid-{role.value}")
    return replace(planned, key=key, split_uid=record.key.uid, decided=planned.generation)


def balanced(balancing: Balancing, *args: str) -> SplitRecord:
    record = split()
    assert record.spec is not None
    sides = (record.spec.prefill, record.spec.decode)
    prefill, decode = (replace(each, balancing=balancing, engine=EngineSpec(args=args)) for each in sides)
    return replace(record, spec=replace(record.spec, prefill=prefill, decode=decode))


@pytest.mark.parametrize("args", [(), ("--max-num-seqs=64",)], ids=["the same pair", "another pair"])
def test_the_front_of_a_split_asks_for_all_ranks_of_earlier_replicas(args: tuple[str, ...]) -> None:
    """Where first pods are to answer for all from now on; an edit of the balancing alone makes no new pair.

    The front of a new one asks as the spec has it.
    """
    before, after = balanced(Balancing.Hybrid), balanced(Balancing.Internal, *args)
    assert bool(args) == (pair_of(before) != pair_of(after))
    world = World(*rack("a.1", 4))
    halves = [half(before, Role.Prefill, TRAYS), half(before, Role.Decode, ("a.1-t2", "a.1-t3"))]
    for _ in range(4):
        world.carry_out(*world.look_at(before, *halves).actions)
        for each in halves:
            world.settle(each)
    name = front_name(before.key, pair_of(before))
    routers = copy.deepcopy(world.objects["Deployment", name]["spec"])
    world.carry_out(*world.look_at(after, *halves).actions)
    assert world.objects["Deployment", name]["spec"] == routers
    new = world.objects["Deployment", front_name(before.key, pair_of(after))]["spec"]
    commands = [each["template"]["spec"]["containers"][0]["command"] for each in (routers, new)]
    assert [f"{labels.RANK}=0" in each for each in commands] == [False, bool(args)]


@pytest.mark.parametrize("balancing", [Balancing.Internal, Balancing.Hybrid])
def test_no_router_of_a_pool_is_chosen_as_an_engine(balancing: Balancing) -> None:
    """It carries the pool's UID and the label of what may be chosen: its own Service selects by that."""
    record = two_pods(balancing, RouterSpec(RouterKind.Managed))
    (front,) = (body for (kind, _), body in settled(record).objects.items() if kind == "Deployment")
    its_labels = front["spec"]["template"]["metadata"]["labels"]
    for every_pod in (False, True):
        assert not set(routed_selector(record.key, every_pod=every_pod)) <= set(its_labels.items())


def test_the_scale_counts_first_pods_all_the_same() -> None:
    record = two_pods()
    world = settled(record)
    selector = dict(pair.split("=") for pair in world.look(record).progress.selector.split(","))
    assert len(selected(world, selector)) == 1


def test_a_replica_is_ready_when_all_of_its_pods_are() -> None:
    record = two_pods()
    world = settled(record)
    assert world.look(record).progress.ready_replicas == 1
    _, second = sorted(world.pods)
    world.pods[second]["status"]["conditions"] = []
    assert world.look(record).progress.ready_replicas == 0


def test_all_pods_leave_the_front_and_then_go_together() -> None:
    """Each holds requests, and none can take a step without the others: their own time before the end is the drain."""
    record = two_pods()
    world = settled(record)
    first, second = sorted(world.pods)
    gone = changed(record, assignments=(), desired_replicas=0)
    actions = [action for action in world.look(gone).actions if not isinstance(action, ApplyObject)]
    assert [(type(action), getattr(action, "name", "")) for action in actions] == [
        (UnroutePod, first),
        (UnroutePod, second),
        (DeletePod, first),
        (DeletePod, second),
    ]
    world.settle(gone)
    assert world.pods == {}


def heard(world: World, seconds: float, *, idle: bool) -> None:
    """What the replica as a whole told just now, by the name of its first pod."""
    first = min(world.pods)
    world.heard = Heard(START + seconds, {first: EngineWord(idle, age_seconds=0.0)})


def about_pods(world: World, record: PoolRecord) -> list[type]:
    return [type(each) for each in world.look(record).actions if not isinstance(each, ApplyObject)]


def test_a_replica_that_tells_goes_as_a_whole_once_it_is_idle() -> None:
    record = two_pods(router=AT_A_GATEWAY)
    world = settled(record)
    gone = changed(record, assignments=(), desired_replicas=0)
    heard(world, 0, idle=False)
    world.carry_out(*world.look(gone).actions)
    heard(world, 20, idle=False)
    assert world.look(gone).actions == ()
    heard(world, 30, idle=True)
    deleted = [action for action in world.look(gone).actions if isinstance(action, DeletePod)]
    assert [(each.name, each.grace_seconds) for each in deleted] == [
        (name, IDLE_GRACE_SECONDS) for name in sorted(world.pods)
    ]


def test_requests_may_still_come_until_the_last_pod_has_left_the_front() -> None:
    record = two_pods(router=AT_A_GATEWAY)
    world = settled(record)
    gone = changed(record, assignments=(), desired_replicas=0)
    heard(world, 0, idle=True)
    first, second = (each for each in world.look(gone).actions if isinstance(each, UnroutePod))
    world.carry_out(first)  # the other is refused
    heard(world, 30, idle=True)
    assert about_pods(world, gone) == [UnroutePod]
    world.carry_out(replace(second, at=START + 30))
    heard(world, 33, idle=True)
    assert about_pods(world, gone) == []
    heard(world, 35, idle=True)
    assert about_pods(world, gone) == [DeletePod, DeletePod]


def test_a_pod_that_goes_takes_the_others_out_of_routing() -> None:
    record = two_pods()
    world = settled(record)
    first, second = sorted(world.pods)
    world.fail(first)
    actions = world.look(record).actions
    unrouted = {action.name for action in actions if isinstance(action, UnroutePod)}
    assert second in unrouted
    assert not [action for action in actions if isinstance(action, DeletePod)]


def test_a_replica_answers_while_any_of_its_pods_may_be_chosen() -> None:
    record = two_pods()
    world = settled(record)
    first, second = sorted(world.pods)
    world.pods[first]["status"]["conditions"] = []
    (replica,) = replicas_of(record, world.pod_records())
    assert answers(replica)
    del world.pods[second]["metadata"]["labels"][labels.ROUTED]
    (replica,) = replicas_of(record, world.pod_records())
    assert not answers(replica)


def ports(world: World) -> list[int]:
    return [each["number"] for each in world.objects["InferencePool", "chat"]["spec"]["targetPorts"]]


def test_a_gateway_is_told_every_port_that_all_pods_have() -> None:
    record = two_pods(Balancing.MultiPort, AT_A_GATEWAY)
    world = settled(record)
    assert ports(world) == [8000, 8001]
    assert world.look(record).actions == ()


def test_a_gateway_is_told_one_port_while_a_pod_that_serves_has_no_other() -> None:
    """A picker would send requests to ports that nobody listens at."""
    before = two_pods(Balancing.Internal, AT_A_GATEWAY)
    after = two_pods(Balancing.MultiPort, AT_A_GATEWAY)
    world = settled(before)
    assert ports(world) == [8000]
    old, new = before.status.assignments[0], after.status.assignments[0]
    surged = changed(after, assignments=(old, replace(new, replica=4, nodes=("a.1-t2", "a.1-t3"))))
    world.settle(surged)
    assert {pod.api_servers for pod in world.pod_records() if pod.ready and pod.routed} == {1, 2}
    assert ports(world) == [8000]
    for pod in (pod for pod in world.pod_records() if pod.api_servers == 1):
        world.pods[pod.name]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    world.settle(surged)
    assert ports(world) == [8000, 8001], "who does not answer is sent nothing"
    world.settle(changed(surged, assignments=surged.status.assignments[1:]))
    assert ports(world) == [8000, 8001]
