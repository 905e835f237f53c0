"""A rank dies and Kubernetes sees nothing wrong with its leader: requests go to the other replica all the while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import rack
from tests.holding.operation import Operation, pool_body
from weft.decide.rollouts.backoff import FIRST_WAIT_SECONDS
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.holding.cluster import Json

DYING, OTHER, NEXT = 0, 1, 2


def serving() -> Operation:
    """Two replicas of two trays each, in a rack without room for a third."""
    world = Operation.of(rack("a.1", 4), pool_body("pair", "GB200", 8, 2))
    world.rest()
    assert [DYING, OTHER] == world.serving("pair") == chosen(world)
    return world


def chosen(world: Operation) -> list[int]:
    """Replicas to which the pool's Service sends requests."""
    wanted = {labels.RANK: "0", labels.ROUTED: "true"}
    leaders = (pod for pod in world.pods_of("pair") if wanted.items() <= pod["metadata"]["labels"].items())
    return sorted(int(pod["metadata"]["labels"][labels.REPLICA]) for pod in leaders if world.cluster.serves(pod))


def rank_of(world: Operation, replica: int, rank: int) -> Json:
    (pod,) = (pod for pod in world.pods_of("pair", replica) if pod["metadata"]["labels"][labels.RANK] == str(rank))
    return pod


def seconds(world: Operation, most: int) -> Iterator[int]:
    """Let time pass second by second, and stop after every pass of anybody."""
    for second in range(most):
        world.decide()
        yield second
        world.converge("pair")
        yield second
        world.cluster.step()
        yield second
        world.cluster.now += 1.0


def uids(world: Operation, replica: int) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.pods_of("pair", replica)}


@pytest.mark.parametrize("rank", [0, 1], ids=["the leader", "a worker"])
def test_the_pass_that_hears_of_it_sends_every_request_to_the_other(rank: int) -> None:
    """Without a decision in between, and though the leader of the dying one may still be Ready."""
    world = serving()
    world.cluster.crash(rank_of(world, DYING, rank)["metadata"]["name"])
    assert world.cluster.serves(rank_of(world, DYING, 0)) == (rank == 1)
    world.converge("pair")
    assert chosen(world) == [OTHER]


@pytest.mark.parametrize("rank", [0, 1], ids=["the leader", "a worker"])
def test_the_whole_is_replaced_after_a_wait_while_the_other_serves(rank: int) -> None:
    """At every moment a request finds a replica all of whose ranks run, and it is never the one that died."""
    world = serving()
    others = uids(world, OTHER)
    world.cluster.crash(rank_of(world, DYING, rank)["metadata"]["name"])
    world.converge("pair")
    born: list[int] = []
    for second in seconds(world, 60):
        assert_whole_replicas_are_chosen(world)
        assert uids(world, OTHER) == others
        born += [second] if uids(world, NEXT) else []
    assert born[0] >= FIRST_WAIT_SECONDS
    assert uids(world, DYING) == set()
    assert [OTHER, NEXT] == world.serving("pair") == chosen(world)
    assert all(count == 1 for count in world.made.values())


def assert_whole_replicas_are_chosen(world: Operation) -> None:
    """Requests have somewhere to go, and go nowhere else than where all ranks run."""
    found = chosen(world)
    assert found
    assert set(found) <= set(world.serving("pair"))
