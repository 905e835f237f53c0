"""A pod that is deleted and does not end, on a node that answers: it holds its own GPUs, and nobody else's for it.

Rules of docs/rules.md: S2, L1, L4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import boards, rack
from tests.holding.operation import Operation, pool_body
from weft.domain.overdue import OVERDUE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable


def serving() -> Operation:
    """Two replicas of two pods on four trays; the kubelets of those with first pods end none any more."""
    world = Operation.of(rack("a.1", 4), pool_body("wide", "GB200", 8, 2))
    world.rest()
    assert [("a.1-t0", "a.1-t1"), ("a.1-t2", "a.1-t3")] == world.nodes_of("wide")
    world.cluster.wedged |= {"a.1-t0", "a.1-t2"}
    return world


def pods_left(world: Operation) -> int:
    """Of the replica that has no assignment any more."""
    kept = sum(len(world.pods_of("wide", replica)) for replica in world.replicas("wide"))
    return len(world.pods_of("wide")) - kept


def somebody_deletes_it(world: Operation) -> None:
    world.cluster.delete(min(world.cluster.pods))


def nobody_wants_it(world: Operation) -> None:
    world.edit("wide", scaling={"mode": "External", "replicas": 1, "maxReplicas": 9})
    world.turn(2, 1.0)


@pytest.mark.parametrize("delete", [somebody_deletes_it, nobody_wants_it], ids=["by somebody", "by Weft"])
def test_the_others_do_not_wait_for_a_first_pod_that_never_ends(delete: Callable[[Operation], None]) -> None:
    """Until its grace period and a minute are over it may still finish requests, which need them."""
    world = serving()
    delete(world)
    world.turn(2, 20.0)
    assert pods_left(world) == 2
    world.turn(3, OVERDUE_SECONDS / 2)
    assert pods_left(world) == 1


def test_the_end_of_the_wait_comes_by_itself() -> None:
    """Nothing happens meanwhile: the pass that waits says when the next one is due."""
    world = serving()
    nobody_wants_it(world)
    due = world.again["wide"]
    assert due is not None
    assert 0.0 < due <= OVERDUE_SECONDS
    world.cluster.now += due
    world.converge("wide")
    world.cluster.step()
    assert pods_left(world) == 1


def recreated(spare_boards: int = 2) -> Operation:
    """Two replicas on boards that are to be made anew, the first of them on `b-0`."""
    body = pool_body("chat", "H200", 8, 2, rollout={"strategy": "Recreate"})
    world = Operation.of(boards(2 + spare_boards), body)
    world.rest()
    assert [("b-0",), ("b-1",)] == world.nodes_of("chat")
    return world


def its_kubelet_hangs(world: Operation) -> None:
    world.cluster.wedged.add("b-0")


def its_node_is_dead(world: Operation) -> None:
    world.cluster.silence("b-0")


def edit(world: Operation) -> str:
    """The user changes the spec; the name of the pod that will not end."""
    (stuck,) = (pod["metadata"]["name"] for pod in world.pods_of("chat", 0))
    world.edit("chat", engine={"name": "VLLM", "args": ["--max-num-seqs=64"]})
    return str(stuck)


@pytest.mark.parametrize("trouble", [its_kubelet_hangs, its_node_is_dead])
def test_a_recreated_pool_does_not_wait_for_ever_for_a_pod_that_never_ends(
    trouble: Callable[[Operation], None],
) -> None:
    """Nobody gets the GPUs that it holds, and there is room elsewhere."""
    world = recreated()
    trouble(world)
    stuck = edit(world)
    world.turn(12, OVERDUE_SECONDS / 2)
    assert stuck in world.cluster.pods
    assert len(world.serving("chat")) == 2
    assert {("b-0",)}.isdisjoint(world.nodes_of("chat"))


def test_a_recreated_pool_without_other_room_serves_with_what_it_has() -> None:
    world = recreated(spare_boards=0)
    its_kubelet_hangs(world)
    edit(world)
    world.turn(12, OVERDUE_SECONDS / 2)
    assert world.nodes_of("chat") == [("b-1",), ("b-0",)]
    assert len(world.serving("chat")) == 1
    world.cluster.wedged.clear()
    world.turn(6)
    assert len(world.serving("chat")) == 2


def test_a_recreated_pool_names_the_pod_that_it_waits_for_and_knows_until_when() -> None:
    """Two revisions do not run side by side for as long as the pod may still end in time."""
    world = recreated()
    its_kubelet_hangs(world)
    stuck = edit(world)
    world.turn(3, 5.0)
    assert world.assignments("chat") == ()
    told = f"0 of 2 replicas placed; others wait for the end of pod {stuck} on node b-0"
    assert world.condition("chat", "Placed") == ("False", "Draining", told)
    assert world.last is not None
    due = world.last.wake_after_seconds
    assert due is not None
    assert 0.0 < due <= OVERDUE_SECONDS
    world.cluster.now += due
    world.decide()
    assert len(world.assignments("chat")) == 2
