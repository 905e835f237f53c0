"""A sidecar that somebody injects and that crashes, in all pods of a pool at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import boards, stamp
from tests.holding.operation import Operation, pool_body

if TYPE_CHECKING:
    from tests.holding.cluster import Json

pytestmark = pytest.mark.timeout(300)


def crash(world: Operation, *, ready: bool) -> None:
    """A bad ConfigMap: the log shipper crash-loops in each pod, and the engines run on."""
    back_off = {"waiting": {"reason": "CrashLoopBackOff"}}
    ended = {"terminated": {"exitCode": 1, "reason": "Error"}}
    began = {"running": {"startedAt": stamp(world.cluster.now - 3600.0)}}
    for pod in world.pods_of("chat"):
        pod["spec"]["initContainers"] = [{"name": "shipper", "restartPolicy": "Always"}]
        status: Json = pod["status"]
        status["initContainerStatuses"] = [{"name": "shipper", "state": back_off, "lastState": ended}]
        status["containerStatuses"] = [{"name": "engine", "ready": True, "started": True, "state": began}]
        if not ready:
            kept = [each for each in status["conditions"] if each["type"] not in {"Ready", "ContainersReady"}]
            since = {"status": "False", "lastTransitionTime": stamp(world.cluster.now)}
            status["conditions"] = [*kept, *({"type": kind, **since} for kind in ("Ready", "ContainersReady"))]
    world.cluster.revision += 1


@pytest.mark.parametrize("ready", [True, False])
def test_engines_that_have_answered_stay(*, ready: bool) -> None:
    """All four were deleted in one pass, and their successors got the same sidecar."""
    world = Operation.of(boards(8), pool_body("chat", "H200", 8, 4))
    world.rest()
    world.cluster.now += 7200.0
    world.turn(2)
    before = world.replicas("chat")
    crash(world, ready=ready)
    world.turn(6, 5.0)
    assert world.replicas("chat") == before
    assert not any("deletionTimestamp" in each["metadata"] for each in world.pods_of("chat"))
