"""Labels are anybody's to edit: a pod is what its name and its controller say, and gets its labels back.

Rules of docs/rules.md: S1, L1, F12.
"""

from __future__ import annotations

import pytest

from tests.holding.cluster import boards, rack
from tests.holding.operation import Operation, pool_body
from weft.converge.relabelling import AGAIN_SECONDS
from weft.domain import labels

EDITS = {
    "no pool": (labels.POOL_UID, None),
    "another pool": (labels.POOL_UID, "uid-other"),
    "no replica": (labels.REPLICA, None),
    "the other replica": (labels.REPLICA, "1"),
    "no number": (labels.REPLICA, "first"),
    "no rank": (labels.RANK, None),
    "another rank": (labels.RANK, "1"),
    "out of its front": (labels.ROUTED, None),
    "no revision": (labels.REVISION, None),
    "another revision": (labels.REVISION, "0123456789"),
    "no component": ("app.kubernetes.io/component", None),
}


def serving() -> Operation:
    """Two replicas on three boards."""
    world = Operation.of(boards(3), pool_body("chat", "H200", 8, 2))
    world.rest()
    assert [0, 1] == world.serving("chat")
    return world


def edit(world: Operation, pod: str, key: str, value: str | None) -> None:
    tags = world.cluster.pods[pod]["metadata"]["labels"]
    tags.pop(key, None)
    if value is not None:
        tags[key] = value
    world.cluster.revision += 1


def tags_of(world: Operation) -> dict[str, dict[str, str]]:
    return {name: dict(pod["metadata"]["labels"]) for name, pod in world.cluster.pods.items()}


@pytest.mark.parametrize(("key", "value"), EDITS.values(), ids=EDITS)
def test_a_label_that_somebody_edits_costs_no_replica_and_is_put_back(key: str, value: str | None) -> None:
    """By one write; the pods are the same ones, all of them in their front."""
    world = serving()
    before, writes = tags_of(world), world.writes
    edit(world, min(before), key, value)
    world.rest()
    assert (before, writes + 1, [0, 1]) == (tags_of(world), world.writes, world.serving("chat"))


def test_the_pods_of_one_replica_keep_their_ranks() -> None:
    """The second one is not taken for a first one, which would get requests."""
    world = Operation.of(rack("a.1", 2), pool_body("wide", "GB200", 8, 1))
    world.rest()
    before = tags_of(world)
    edit(world, max(before), labels.RANK, "0")
    world.rest()
    assert (before, [0]) == (tags_of(world), world.serving("wide"))


def test_who_edits_a_label_again_and_again_is_answered_once_a_minute() -> None:
    """No fight: whatever a controller does every five seconds, and whenever a pass comes."""
    world = serving()
    pod, writes = min(world.cluster.pods), world.writes
    for _ in range(int(10 * AGAIN_SECONDS / 5)):
        edit(world, pod, labels.ROUTED, None)
        world.turn()
    assert world.writes - writes == 10
    assert [0, 1] == world.serving("chat")


def test_what_somebody_edits_of_a_pod_that_leaves_stays_as_it_is() -> None:
    """It is deleted all the same."""
    world = serving()
    world.cluster.wedged.update({"b-0", "b-1"})
    world.edit("chat", scaling={"mode": "External", "replicas": 1, "maxReplicas": 9})
    world.turn(4)
    (leaving,) = (name for name, pod in world.cluster.pods.items() if "deletionTimestamp" in pod["metadata"])
    edit(world, leaving, labels.POOL_UID, None)
    writes = world.writes
    world.turn(4)
    assert world.writes == writes
    world.cluster.wedged.clear()
    world.rest()
    assert leaving not in world.cluster.pods


def test_a_pod_under_a_name_of_its_own_is_told_by_its_labels() -> None:
    """One that somebody made for a pool, under a name that Weft gives to none, is no replica and is drained."""
    world = serving()
    body = {**world.cluster.pods[min(world.cluster.pods)]}
    body["metadata"] = {**body["metadata"], "name": "copy", "uid": "uid-copy"}
    body["metadata"]["labels"] = {**body["metadata"]["labels"], labels.REPLICA: "7"}
    world.cluster.pods["copy"] = body
    world.rest()
    assert ("copy" in world.cluster.pods, [0, 1]) == (False, world.serving("chat"))


def test_no_worker_gets_requests_because_somebody_says_that_it_serves() -> None:
    world = Operation.of(rack("a.1", 2), pool_body("wide", "GB200", 8, 1))
    world.rest()
    worker = max(world.cluster.pods)
    edit(world, worker, labels.SERVERS, "1")
    world.turn(10, 10.0)
    assert labels.ROUTED not in tags_of(world)[worker]


def test_more_servers_than_a_pod_has_ports_for_are_not_believed_and_put_right() -> None:
    """A Gateway would send requests to ports at which nobody listens, and each would be read for metrics."""
    world = serving()
    before, writes = tags_of(world), world.writes
    for pod in before:
        edit(world, pod, labels.SERVERS, "9")
    read = [pod.api_servers for pod in world.cluster.pod_records()]
    world.rest()
    assert ([1, 1], writes + 2) == (read, world.writes)
    assert {name: {**tags, labels.SERVERS: "1"} for name, tags in before.items()} == tags_of(world)
