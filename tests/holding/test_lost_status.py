"""A status that is wiped, or comes back from an old backup, while replicas serve: they serve on, and stay the pool's.

Rules of docs/rules.md: S1, S2, S4, S5, L1. The ids of replicas tell which of them no decision has given up.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.holding.cluster import boards, rack
from tests.holding.operation import Operation, pool_body
from tests.holding.pairs import HALVES, Pair, split_body
from tests.holding.routed import POOL, Routed, routed_pool
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

ORDERS: dict[str, Callable[[Operation, str], None]] = {
    "deciding comes first": lambda world, _: world.decide(),
    "converging comes first": lambda world, name: world.converge(name),
}
in_any_order = pytest.mark.parametrize("first", ORDERS.values(), ids=ORDERS)


def settled(nodes: list[Json], pool: Json) -> Operation:
    world = Operation.of(nodes, pool)
    world.rest()
    return world


def pods_of(world: Operation, name: str) -> dict[str, tuple[str, bool]]:
    """By name: UID, and whether requests are sent to it and nobody deletes it."""
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            labels.ROUTED in pod["metadata"]["labels"] and "deletionTimestamp" not in pod["metadata"],
        )
        for pod in world.pods_of(name)
    }


@in_any_order
@pytest.mark.parametrize(
    ("nodes", "pool"),
    [
        pytest.param(boards(4), pool_body("chat", "H200", 8, 2), id="of one pod"),
        pytest.param(rack("a.1", 8), pool_body("chat", "GB200", 8, 2), id="of two pods"),
    ],
)
def test_replicas_serve_on_where_they_are(
    nodes: list[Json], pool: Json, first: Callable[[Operation, str], None]
) -> None:
    world = settled(copy.deepcopy(nodes), copy.deepcopy(pool))
    before, pods = world.assignments("chat"), pods_of(world, "chat")
    world.replace_status("chat")
    first(world, "chat")
    assert world.serving("chat") == [0, 1]
    world.rest()
    assert pods_of(world, "chat") == pods
    assert [(each.replica, each.nodes, each.revision) for each in world.assignments("chat")] == [
        (each.replica, each.nodes, each.revision) for each in before
    ]


@in_any_order
def test_the_next_replica_has_an_id_that_nobody_had(first: Callable[[Operation, str], None]) -> None:
    world = settled(boards(4), pool_body("chat", "H200", 8, 2))
    world.cluster.delete(min(pods_of(world, "chat")))
    world.rest()
    assert world.replicas("chat") == [1, 2]
    world.replace_status("chat")
    first(world, "chat")
    world.edit("chat", scaling={"mode": "External", "replicas": 3, "maxReplicas": 9})
    world.rest()
    assert world.replicas("chat") == [1, 2, 3]
    assert set(world.made.values()) == {1}


@in_any_order
def test_an_old_status_brings_back_no_replica_and_drains_none(first: Callable[[Operation, str], None]) -> None:
    world = settled(boards(4), pool_body("chat", "H200", 8, 2))
    last_week = world.bodies["chat"]["status"]
    for name in sorted(pods_of(world, "chat")):
        world.cluster.delete(name)
        world.rest()
    world.cluster.now += 7 * 86_400.0
    world.rest()
    pods, now = pods_of(world, "chat"), world.replicas("chat")
    assert min(now) > 1
    world.replace_status("chat", last_week)
    first(world, "chat")
    world.rest()
    assert (pods_of(world, "chat"), world.replicas("chat")) == (pods, now)


@in_any_order
@pytest.mark.parametrize("replicas", [1, 2])
def test_half_a_replica_is_none(replicas: int, first: Callable[[Operation, str], None]) -> None:
    """Its pods do not tell how many there were, where none of that revision is whole; the plan does."""
    world = settled(rack("a.1", 8), pool_body("chat", "GB200", 8, replicas))
    for name in [name for name in pods_of(world, "chat") if name.endswith("-1")]:
        del world.cluster.pods[name]
    world.replace_status("chat")
    first(world, "chat")
    world.rest()
    assert [2] * replicas == [len(each.nodes) for each in world.assignments("chat")]
    assert len(pods_of(world, "chat")) == 2 * replicas
    assert min(world.replicas("chat")) == replicas


def test_a_count_that_is_lost_with_the_status_is_no_reason_to_shrink() -> None:
    """Without metrics nothing shrinks, and with them not before a window was seen (S5)."""
    automatic = {"mode": "Auto", "minReplicas": 3, "maxReplicas": 9}
    world = settled(boards(4), pool_body("chat", "H200", 8, 3, scaling=automatic))
    world.edit("chat", scaling=automatic | {"minReplicas": 1})
    world.rest()
    pods = pods_of(world, "chat")
    assert len(pods) == 3
    world.replace_status("chat")
    world.restart()
    world.rest()
    assert (world.pool("chat").status.desired_replicas, pods_of(world, "chat")) == (3, pods)


def test_a_replica_that_leaves_is_not_taken_back() -> None:
    """It gets no requests any more, so that to count it would leave a pool one short."""
    world = settled(boards(4), pool_body("chat", "H200", 8, 3))
    world.cluster.wedged.update(world.cluster.nodes)
    world.edit("chat", scaling={"mode": "External", "replicas": 2, "maxReplicas": 9})
    world.turn(2)
    (leaving,) = (name for name, (_, routed) in pods_of(world, "chat").items() if not routed)
    world.replace_status("chat")
    world.cluster.wedged.clear()
    world.rest()
    assert leaving not in pods_of(world, "chat")
    assert len(world.serving("chat")) == 2


def test_a_pod_whose_label_somebody_edited_is_the_replica_that_its_name_says() -> None:
    """No label raises the next id to what no name has room for."""
    world = settled(boards(4), pool_body("chat", "H200", 8, 2))
    name = min(pods_of(world, "chat"))
    world.cluster.pods[name]["metadata"]["labels"][labels.REPLICA] = str(10**18)
    world.rest()
    assert (world.replicas("chat"), world.pool("chat").status.next_replica) == ([0, 1], 2)


def test_the_front_of_a_pool_stays_while_its_status_is_gone() -> None:
    """Without a plan nobody knows which objects are wanted."""
    world = Routed.settled(boards(2), routed_pool(2))
    fronts, serving = world.deployments(), world.serving_now()
    world.replace_status(POOL)
    world.converge(POOL)
    assert (fronts, serving) == (world.deployments(), world.serving_now())
    world.turn(5)
    assert (fronts, serving) == (world.deployments(), world.serving_now())


@pytest.mark.parametrize("half", HALVES)
def test_a_half_that_lost_its_status_is_routed_to(half: str) -> None:
    world = Pair.on(boards(2), split_body(2, 2))
    world.turn(20)
    routers, engines = world.routers(), [pods_of(world, f"duo-{each}") for each in HALVES]
    assert routers
    assert [2, 2] == list(map(len, engines))
    world.replace_status(f"duo-{half}")
    world.converge_the_split()
    for each in HALVES:
        world.converge(f"duo-{each}")
    assert world.routers() == routers
    world.turn(20)
    assert [pods_of(world, f"duo-{each}") for each in HALVES] == engines
    assert world.routers() == routers
