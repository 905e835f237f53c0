"""A pod that is deleted and does not end, on a node that answers: it holds its own GPUs, and nobody else's for it.

Rules of docs/rules.md: S2, L1, L4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import rack
from tests.holding.operation import Operation, pool_body
from weft.converge.overdue import OVERDUE_SECONDS

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
