"""A changed spec replaces serving replicas under everybody's eyes: no version of the cluster has too few of them."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from tests.scenarios.history import History, check_assigned_first, version_now
from tests.scenarios.tenants import engines
from weft.domain import labels

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place
    from tests.scenarios.history import World

pytestmark = pytest.mark.timeout(120)

ANOTHER_REVISION = {"spec": {"engine": {"env": [{"name": "VERSION", "value": "2"}]}}}


def test_a_changed_spec_replaces_serving_replicas_one_by_one(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """S1: with a surge of one, each old replica stays until a new one, under an id of its own, is ready."""
    place = weft.place("rolling-out", h200_boards(1))
    history = History.begin(place)
    place.create_pool(
        "chat",
        scaling={"mode": "External", "replicas": 2, "maxReplicas": 2},
        rollout={"maxSurge": 1, "maxUnavailable": 0, "minReadySeconds": 3},
    )
    place.wait_ready("chat", 2)
    history.look()
    before, changed = place.status("chat")["revision"], version_now(place)
    place.change_pool("chat", ANOTHER_REVISION)
    eventually(lambda: is_through(place, before), "only replicas of the new revision serve", timeout_seconds=60)
    after = place.status("chat")["revision"]
    assert [each["revision"] for each in place.status("chat")["assignments"]] == [after, after]

    history.look()
    rollout = []
    for world in history.worlds():
        check_assigned_first(world)
        check_ids(world)
        if world.version > changed:
            assert assigned(world) <= 3, f"more than the surge at version {world.version}"
            rollout.append((serving(world, before), serving(world, after)))
    assert [counts for counts, _ in groupby(rollout)] == [(2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]


def is_through(place: Place, before: str) -> bool:
    """Whether the pool rests, with pods of its one revision, which is not the earlier one."""
    revisions = {pod["metadata"]["labels"][labels.REVISION] for pod in engines(place, "chat")}
    return place.is_ready("chat", 2) and revisions == {place.status("chat")["revision"]} != {before}


def check_ids(world: World) -> None:
    """No two pods are the same replica, so what is new can be told from what it replaces."""
    ids = [pod["metadata"]["labels"][labels.REPLICA] for pod in world.pods.values()]
    assert len(set(ids)) == len(ids), f"an id is given twice at version {world.version}: {ids}"


def assigned(world: World) -> int:
    """Replicas of the pool that have their nodes by its status."""
    return len((world.pools["chat"].get("status") or {}).get("assignments") or ())


def serving(world: World, revision: str) -> int:
    """Replicas of one revision that are ready and to which requests are sent."""
    return world.ready("chat", {labels.REVISION: revision, labels.ROUTED: "true"})
