"""A pool that served without routers gets some by an edit: requests go to its replicas until a router answers.

Rules S1, L1 and L5 of docs/rules.md. An image may have to be pulled first, and a namespace may lack what routers need.
"""

from __future__ import annotations

import pytest

from tests.holding.cluster import boards, node_body
from tests.holding.operation import TEAM
from tests.holding.routed import POOL, PORTS, ROUTERS, Routed, routed_pool
from weft.domain import labels
from weft.render import ENDPOINTS, ROUTE

MANAGED = {"type": "Managed", "replicas": 2}
OF_ROUTERS = {labels.FRONT_OF: f"uid-{POOL}"}
OF_A_GATEWAY = {ENDPOINTS, ROUTE}
TURNS = 40


def asked(world: Routed) -> set[str]:
    """Replicas that get requests: those that the Service chooses, or to which routers that it chooses send them."""
    chosen = world.cluster.object("Service", POOL)["spec"]["selector"].items()
    alike = {name for name, pod in world.cluster.pods.items() if chosen <= pod["metadata"]["labels"].items()}
    return (alike & set(world.serving_now())) | world.within_reach()


def somebody_is_asked(world: Routed) -> None:
    assert asked(world), world.describe()


def without_routers(replicas: int, router: str = "None", engine: str = "VLLM") -> Routed:
    """A pool that serves, with a look at the way to it after every write from then on."""
    every = [*boards(2), node_body(ROUTERS, "NVIDIA-H200", 8)]
    world = Routed.of(every, routed_pool(replicas, engine, router={"type": router}))
    world.cluster.cordon(ROUTERS)
    world.cluster.wedged.add(ROUTERS)
    world.turn(8)
    assert len(asked(world)) == replicas
    world.look = somebody_is_asked
    return world


def at_a_gateway(replicas: int) -> Routed:
    """A pool that serves behind a Gateway."""
    world = without_routers(replicas)
    gateway = {"parentRefs": [{"name": "web"}], "endpointPickerRef": {"name": "picker"}}
    world.edit(POOL, router={"type": "Gateway", "gateway": gateway})
    world.roll()
    assert kinds(world) >= OF_A_GATEWAY
    return world


def kinds(world: Routed) -> set[tuple[str, str]]:
    return {(each.api_version, each.kind) for each in world.cluster.objects_of(TEAM)}


@pytest.mark.parametrize("engine", ["VLLM", "SGLang"])
def test_requests_go_to_replicas_until_a_router_answers_and_then_to_routers(engine: str) -> None:
    world = without_routers(2, engine=engine)
    world.edit(POOL, router=MANAGED)
    world.roll()
    assert world.within_reach() == set(world.serving_now())
    assert len(world.endpoints()) == 2
    assert OF_ROUTERS == world.cluster.object("Service", POOL)["spec"]["selector"]
    assert not {"Stalled", "Reconciling"} & world.conditions_of(POOL).keys()


def test_routers_that_never_get_ready_take_nothing_from_replicas_and_are_told() -> None:
    world = without_routers(2)
    world.stuck.add("chat-front")
    world.edit(POOL, router=MANAGED)
    for _ in range(TURNS):
        world.turn()
        assert len(asked(world)) == 2
    assert world.condition(POOL, "Ready")[0] == "True"
    why = "no pod of Deployment chat-front is ready yet: until then Service chat leads to replicas"
    assert ("True", "FrontStarting", why) == world.condition(POOL, "Reconciling")
    world.stuck.clear()
    world.roll()
    assert len(world.endpoints()) == 2


def test_once_routers_took_over_requests_never_go_past_them() -> None:
    """All of them may be away for a moment, and clients may count on what a router does."""
    world = without_routers(1)
    world.edit(POOL, router=MANAGED)
    world.roll()
    world.look = lambda _: None
    world.stuck.add("chat-front")
    world.turn(3)
    assert OF_ROUTERS == world.cluster.object("Service", POOL)["spec"]["selector"]
    assert ("False", "FrontStarting") == world.condition(POOL, "Ready")[:2]


def test_a_pool_that_is_new_has_routers_or_nobody() -> None:
    world = Routed.of(boards(1), routed_pool(1))
    world.stuck.add("chat-front")
    world.turn(8)
    assert world.serving_now()
    assert OF_ROUTERS == world.cluster.object("Service", POOL)["spec"]["selector"]


@pytest.mark.parametrize("turns", range(5))
def test_the_way_back_is_open_at_any_moment(turns: int) -> None:
    world = without_routers(2)
    world.edit(POOL, router=MANAGED)
    world.turn(turns)
    world.edit(POOL, router={"type": "None"})
    world.roll()
    assert asked(world) == set(world.serving_now())
    assert not world.deployments()


def test_with_another_engine_in_the_same_edit_requests_go_to_both_until_then() -> None:
    world = without_routers(2)
    world.edit(POOL, router=MANAGED, engine={"name": "SGLang"})
    world.roll()
    assert world.within_reach() == set(world.serving_now("sglang"))
    assert len(world.serving_now()) == 2


def test_with_routers_that_never_get_ready_another_engine_takes_over_all_the_same() -> None:
    """The Service leads to its replicas, too: those of the engine before would hold their GPUs for ever."""
    world = without_routers(2)
    world.stuck |= {"chat-front", "chat-front-vllm"}
    world.edit(POOL, router=MANAGED, engine={"name": "SGLang"})
    world.roll()
    assert (len(world.serving_now("sglang")), world.serving_now("vllm")) == (2, [])
    assert world.deployments().keys() == {"chat-front"}
    assert ("True", "FrontStarting") == world.condition(POOL, "Reconciling")[:2]
    world.stuck.clear()
    world.roll()
    assert len(world.endpoints()) == 2


def test_a_route_stays_until_a_router_answers() -> None:
    """Clients of a Gateway are served by it until then; who changed the way may have none at a router yet."""
    world = at_a_gateway(2)
    world.stuck.add("chat-front")
    world.edit(POOL, router=MANAGED)
    world.turn(TURNS)
    assert kinds(world) >= OF_A_GATEWAY
    world.stuck.clear()
    world.roll()
    assert not kinds(world) & OF_A_GATEWAY
    assert len(world.endpoints()) == 2


def picked(world: Routed) -> dict[str, bool]:
    """Replicas that a picker may choose, and whether they listen at the port that it is told."""
    (found,) = (each.body["spec"] for each in world.cluster.objects_of(TEAM) if each.api_version == ENDPOINTS[0])
    wanted, ports = found["selector"]["matchLabels"].items(), [each["number"] for each in found["targetPorts"]]
    tags = {name: world.cluster.pods[name]["metadata"]["labels"] for name in world.serving_now()}
    return {name: ports == [PORTS[each[labels.ENGINE_NAME]]] for name, each in tags.items() if wanted <= each.items()}


def test_a_route_that_stays_leads_to_the_port_of_the_engine_that_serves_by_then() -> None:
    """A picker has one port for all pods, so that those of the other engine are not among them."""
    world = at_a_gateway(2)
    world.stuck |= {"chat-front", "chat-front-vllm"}

    def whoever_is_picked_answers(world: Routed) -> None:
        found = picked(world)
        assert found, world.describe()
        assert all(found.values()), found

    world.look = whoever_is_picked_answers
    world.edit(POOL, router=MANAGED, engine={"name": "SGLang"})
    world.turn(TURNS)
    assert picked(world).keys() == set(world.serving_now("sglang"))
    assert not world.serving_now("vllm")


def test_a_route_goes_at_once_where_nothing_else_is_asked_for() -> None:
    world = at_a_gateway(1)
    world.edit(POOL, router={"type": "None"})
    world.turn()
    assert not kinds(world) & OF_A_GATEWAY


@pytest.mark.parametrize("lives", [1, 2, 4])
def test_an_operator_that_dies_after_any_write_leaves_a_way_too(lives: int) -> None:
    world = without_routers(2)
    world.edit(POOL, router=MANAGED)
    outlived = [world.outlives_a_turn(lives) for _ in range(TURNS)]
    assert not all(outlived)
    assert len(world.endpoints()) == 2
