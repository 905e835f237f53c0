"""Behind a Gateway: what is applied, when it goes, and what the pool says while nobody routes to it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.world import World
from tests.render.pools import changed, plan, pool, shape, spec
from weft.domain import labels
from weft.domain.action import ApplyObject, DeleteObject, UnroutePod
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName
from weft.domain.spec import GatewayParent, GatewaySpec, RouterKind, RouterSpec

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

EDGE = GatewaySpec((GatewayParent("gateway.networking.k8s.io", "Gateway", "edge"),), "picker", 9002)
AT_A_GATEWAY = RouterSpec(RouterKind.Gateway, gateway=EDGE)
ROUTED = pool(spec(router=AT_A_GATEWAY), plan(), ("node-a",))
PLAIN = replace(ROUTED, spec=spec())
BOTH = [("HTTPRoute", "chat"), ("InferencePool", "chat")]


def settled(record: PoolRecord) -> World:
    world = World()
    world.settle(record)
    return world


def names(world: World, record: PoolRecord, action: type[ApplyObject | DeleteObject]) -> list[tuple[str, str]]:
    found = [each for each in world.look(record).actions if isinstance(each, action)]
    return sorted(
        (each.body["kind"], each.body["metadata"]["name"]) if isinstance(each, ApplyObject) else (each.kind, each.name)
        for each in found
    )


def ready(world: World, record: PoolRecord) -> tuple[str, Reason]:
    (found, *_) = world.look(record).progress.conditions
    assert found.kind == "Ready"
    return found.status, found.explanation.reason


def gateway_says(world: World, *conditions: tuple[str, str, str]) -> None:
    said = [{"type": kind, "status": status, "message": message} for kind, status, message in conditions]
    parents = [{"parentRef": {"name": "edge"}, "conditions": said}]
    world.objects["HTTPRoute", "chat"]["status"] = {"parents": parents}


def test_a_pool_behind_a_gateway_has_endpoints_a_route_and_its_own_service() -> None:
    world = World()
    assert set(BOTH) < set(names(world, ROUTED, ApplyObject))
    world.settle(ROUTED)
    assert world.objects["Service", "chat"]["spec"]["selector"][labels.ROUTED] == "true"
    assert names(world, ROUTED, ApplyObject) == []


def test_both_go_when_the_type_changes_back() -> None:
    world = settled(ROUTED)
    assert names(world, PLAIN, DeleteObject) == BOTH
    world.settle(PLAIN)
    assert {"HTTPRoute", "InferencePool"} & {kind for kind, _ in world.objects} == set()


def test_both_stay_while_the_spec_cannot_be_read() -> None:
    assert names(settled(ROUTED), replace(ROUTED, spec=None), DeleteObject) == []


def test_an_edited_route_is_put_back_and_defaults_of_the_api_server_are_no_difference() -> None:
    world = settled(ROUTED)
    route: dict[str, Any] = world.objects["HTTPRoute", "chat"]
    route["spec"]["rules"][0]["backendRefs"][0]["filters"] = []
    assert names(world, ROUTED, ApplyObject) == []
    route["spec"]["rules"][0]["backendRefs"][0]["name"] = "another"
    assert names(world, ROUTED, ApplyObject) == [("HTTPRoute", "chat")]


def test_a_label_that_somebody_added_to_the_selector_of_endpoints_goes() -> None:
    """Each of its labels has an owner: an apply would leave it there, and be sent in every pass (L3)."""
    world = settled(ROUTED)
    selector = world.objects["InferencePool", "chat"]["spec"]["selector"]
    wanted = dict(selector["matchLabels"])
    selector["matchLabels"]["app"] = "other"
    world.settle(ROUTED)
    assert world.objects["InferencePool", "chat"]["spec"]["selector"] == {"matchLabels": wanted}


def test_what_is_applied_to_endpoints_takes_no_step_before_without_labels_of_others() -> None:
    world = settled(ROUTED)
    world.objects["InferencePool", "chat"]["spec"]["targetPorts"] = [{"number": 1}]
    (put_back,) = world.look(ROUTED).actions
    assert (ApplyObject, ()) == (type(put_back), getattr(put_back, "first", None))


def test_a_pool_of_endpoints_of_somebody_else_is_left_alone_and_named() -> None:
    world = World()
    world.objects["InferencePool", "chat"] = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "chat", "namespace": "team", "uid": "theirs"},
    }
    world.settle(ROUTED)
    assert ready(world, ROUTED) == ("False", Reason.NameTaken)
    assert world.objects["InferencePool", "chat"]["metadata"]["uid"] == "theirs"


def test_a_resource_of_ours_with_that_name_is_another_kind() -> None:
    """A child of a split is an InferencePool too, of another group."""
    world = World()
    world.objects["child", "chat"] = {
        "apiVersion": labels.API_VERSION,
        "kind": "InferencePool",
        "metadata": {"name": "chat", "namespace": "team", "uid": "a-child"},
    }
    assert ("InferencePool", "chat") in names(world, ROUTED, ApplyObject)


def test_a_cluster_without_the_kinds_is_told_by_name_and_asked_for_nothing() -> None:
    missing = Explanation(Reason.GatewayAPIMissing, "the cluster has no httproutes.gateway.networking.k8s.io (v1)")
    without = replace(ROUTED, lacks=missing)
    world = settled(without)
    assert ready(world, without) == ("False", Reason.GatewayAPIMissing)
    assert world.look(without).actions == ()
    assert world.look(without).progress.ready_replicas == 1
    assert world.look(without).progress.url is None
    assert names(world, ROUTED, ApplyObject) == BOTH  # as soon as they are installed


def test_a_route_that_serves_stays_while_its_kind_cannot_be_read() -> None:
    """An API server that fails once, or a role that was taken away for a moment, is no order."""
    world = settled(ROUTED)
    unread = replace(ROUTED, lacks=Explanation(Reason.FrontStarting, "httproutes could not be listed yet"))
    assert world.look(unread).actions == ()
    assert names(world, PLAIN, DeleteObject) == BOTH


def of(engines: list[EngineName]) -> PoolRecord:
    """A replica of each, of which the last one is planned."""
    return pool(spec(router=AT_A_GATEWAY), plan(shape(engine=engines[-1])), *[("node-a",)] * len(engines))


def rolling(engines: list[EngineName]) -> tuple[World, PoolRecord]:
    """Replicas that came one after the other, as their engine was planned."""
    world, record = World(), of(engines[:1])
    world.settle(record)
    for replicas in range(2, len(engines) + 1):
        grown = of(engines[:replicas])
        record = changed(grown, assignments=(*record.status.assignments, grown.status.assignments[-1]))
        world.settle(record)
    return world, record


def endpoints(world: World) -> tuple[list[int], str | None]:
    """Ports that a picker is told, and of which engine alone."""
    found = world.objects["InferencePool", "chat"]["spec"]
    ports = [each["number"] for each in found["targetPorts"]]
    return ports, found["selector"]["matchLabels"].get(labels.ENGINE_NAME)


@pytest.mark.parametrize(
    ("engines", "expected"),
    [
        ("v", ([8000], None)),
        ("vvs", ([8000], "vllm")),
        ("vs", ([30000], "sglang")),
        ("vss", ([30000], "sglang")),
        ("ssv", ([30000], "sglang")),
        ("vvt", ([8000], None)),
    ],
)
def test_of_two_engines_at_two_ports_a_picker_is_shown_the_one_of_which_more_answer(
    engines: str, expected: tuple[list[int], str | None]
) -> None:
    """It takes one port for one of every pod: those of the other would refuse its requests."""
    by_letter = {"v": EngineName.VLLM, "s": EngineName.SGLang, "t": EngineName.TensorRTLLM}
    world, record = rolling([by_letter[each] for each in engines])
    assert endpoints(world) == expected
    assert names(world, record, ApplyObject) == []


def test_once_the_engine_before_is_gone_a_picker_is_told_as_if_it_had_never_been() -> None:
    world, record = rolling([EngineName.VLLM, EngineName.SGLang])
    for _ in range(3):
        world.settle(changed(record, assignments=record.status.assignments[1:]))
    assert endpoints(world) == ([30000], None)


def test_a_picker_is_told_of_those_that_stay_before_it_loses_those_that_leave() -> None:
    """Else it would know nobody between the two writes, or for as long as the first one is refused."""
    world, record = rolling([EngineName.SGLang, EngineName.VLLM])
    world.objects["InferencePool", "chat"]["spec"]["selector"]["matchLabels"][labels.ENGINE_NAME] = "sglang"
    found = [
        type(each) if isinstance(each, UnroutePod) else each.body["kind"]
        for each in world.look(changed(record, assignments=record.status.assignments[1:])).actions
        if isinstance(each, UnroutePod | ApplyObject)
    ]
    assert found.index("InferencePool") < found.index(UnroutePod)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ((), ("False", Reason.FrontStarting)),
        ((("Accepted", "True", ""),), ("True", Reason.Serving)),
        ((("Accepted", "False", "no listener"),), ("False", Reason.RouteRefused)),
        ((("Accepted", "True", ""), ("ResolvedRefs", "False", "no such picker")), ("False", Reason.RouteRefused)),
        ((("Programmed", "False", "later"),), ("False", Reason.FrontStarting)),
    ],
)
def test_the_pool_is_ready_when_a_gateway_takes_its_route(
    conditions: tuple[tuple[str, str, str], ...], expected: tuple[str, Reason]
) -> None:
    world = settled(ROUTED)
    gateway_says(world, *conditions)
    assert ready(world, ROUTED) == expected


def test_what_a_gateway_said_of_an_earlier_route_is_no_news() -> None:
    """It has accepted the one before, and has not looked at this one yet."""
    world = settled(ROUTED)
    gateway_says(world, ("Accepted", "True", ""))
    route = world.objects["HTTPRoute", "chat"]
    (condition,) = route["status"]["parents"][0]["conditions"]
    for generation, expected in ((1, ("True", Reason.Serving)), (2, ("False", Reason.FrontStarting))):
        condition["observedGeneration"], route["metadata"]["generation"] = 1, generation
        assert ready(world, ROUTED) == expected


def test_one_gateway_that_takes_the_route_is_enough_whatever_another_one_says() -> None:
    world = settled(ROUTED)
    gateway_says(world, ("Accepted", "True", ""), ("ResolvedRefs", "True", ""))
    refuses = {"type": "Accepted", "status": "False", "message": "no listener allows it"}
    other = {"parentRef": {"name": "internal"}, "conditions": [refuses]}
    parents = world.objects["HTTPRoute", "chat"]["status"]["parents"]
    for both in ([*parents, other], [other, *parents]):
        world.objects["HTTPRoute", "chat"]["status"] = {"parents": both}
        assert ready(world, ROUTED) == ("True", Reason.Serving)
    world.objects["HTTPRoute", "chat"]["status"] = {"parents": [other]}
    assert ready(world, ROUTED) == ("False", Reason.RouteRefused)


def test_what_the_gateway_says_is_repeated() -> None:
    world = settled(ROUTED)
    gateway_says(world, ("Accepted", "False", "no listener allows it"))
    (found, *_) = world.look(ROUTED).progress.conditions
    assert found.explanation.message == "Gateway edge does not take HTTPRoute chat: no listener allows it"


@pytest.mark.parametrize("engine", [EngineName.VLLM, EngineName.SGLang])
def test_a_replica_leaves_a_picker_by_its_label_whatever_it_runs(engine: EngineName) -> None:
    """sglang-router forgets a pod only when that is deleted; a picker follows the selector."""
    record = pool(spec(router=AT_A_GATEWAY), plan(shape(engine=engine)), ("node-a",))
    world = settled(record)
    leaving = replace(record, status=replace(record.status, assignments=()))
    assert next(type(action) for action in world.look(leaving).actions) is UnroutePod


def test_a_route_whose_endpoints_could_not_be_made_leads_nowhere() -> None:
    """A policy may forbid that kind: the Gateway accepts the route all the same."""
    world = settled(ROUTED)
    gateway_says(world, ("Accepted", "True", ""))
    del world.objects["InferencePool", "chat"]
    assert ready(world, ROUTED) == ("False", Reason.FrontStarting)
