"""A replica of two pods on two real kubelets, with real vLLM: one rank each, and the whole lives and dies as one."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.node_engines import ONLY_HERE
from e2e.cluster.waiting import eventually
from e2e.team import Endpoint, gates, version
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.node import RealNode
    from e2e.operator_process import OperatorProcess
    from e2e.team import Json, Team

pytestmark = pytest.mark.timeout(1500)

CLIQUE = "nvidia.com/gpu.clique"
RACK = "e2e-rack.1"
TRAY_LABELS = {
    "nvidia.com/gpu.product": "CPU-TEST",
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.memory": "4096",
    CLIQUE: RACK,
}
# Two ranks start in twice the processor time of one engine, on the same two cores.
START_SECONDS = 600.0
# The rest of a worker's pod ends within seconds of its rank (vLLM allows its processes 5), the kubelet looks every
# second, and the news wakes the next pass: 7 s, and several times that where other work keeps both cores busy.
UNROUTED_SECONDS = 60.0


@pytest.fixture
def trays(node: RealNode) -> Iterator[tuple[str, str]]:
    """Two nodes of one GPU each in one NVLink domain, without the images of engines that others were given."""
    rack = f"rack-{uuid.uuid4().hex[:8]}"
    names = f"{rack}-tray-0", f"{rack}-tray-1"
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(node.another(name, TRAY_LABELS, 1))
        yield names


def two_pods(team: Team, name: str) -> Json:
    """A pool of one replica, TP 2, on the trays.

    With a divided vocabulary the first prompt has PyTorch compile a function, which takes both ranks most of a minute.
    """
    engine = team.pool(name)["spec"]["engine"] | {"env": [{"name": "TORCHDYNAMO_DISABLE", "value": "1"}]}
    return team.pool(name, engine=engine, shape={"tensorParallel": 2}, placement={"nodeSelector": {CLIQUE: RACK}})


def rank(pod: Json) -> int:
    return int(pod["metadata"]["labels"][labels.RANK])


def replica(pod: Json) -> str:
    return str(pod["metadata"]["labels"][labels.REPLICA])


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_routed(pod: Json) -> bool:
    return bool(pod["metadata"]["labels"].get(labels.ROUTED) == "true")


def ranks_of(team: Team, name: str) -> list[Json]:
    """Both pods of the only replica, the leader first."""
    leader, worker = sorted(team.pods(name), key=rank)
    return [leader, worker]


def test_a_worker_that_cannot_start_is_named(
    operator: OperatorProcess, node: RealNode, trays: tuple[str, str], team: Team
) -> None:
    """The image is missing on the worker's node alone: the pool tells of that, and not of a leader that waits."""
    assert operator.is_ready()
    node.import_engines(trays[0])
    pool = two_pods(team, "halved")
    pool["spec"]["engine"]["image"] = ONLY_HERE
    pool["spec"]["rollout"]["drainTimeout"] = "5s"  # the leader, which nobody joins, does not end by itself
    team.apply(pool)

    def told() -> Json:
        ready = team.condition("wpool", "halved", "Ready")
        assert ready.get("reason") == "ImageUnavailable", json.dumps(ready)
        return ready

    message = eventually(told, "the worker's image is what is missing", timeout_seconds=120)["message"]
    (named,) = {word.strip(":") for word in message.split() if word.startswith("halved-")}
    assert named.endswith("-1"), message


def test_a_replica_of_two_pods_serves_and_restarts_whole(
    operator: OperatorProcess, node: RealNode, trays: tuple[str, str], team: Team
) -> None:
    """Gated and released together; a rank that dies unseen ends its routing, and all of it starts anew."""
    assert operator.is_ready()
    for name in trays:
        node.import_engines(name)
    since = team.version_now()
    begun = time.monotonic()
    team.apply(two_pods(team, "duo"))
    team.wait_for("wpool", "duo", "Ready", seconds=START_SECONDS)
    print(f"Ready after {time.monotonic() - begun:.0f} s")
    first = ranks_of(team, "duo")
    assert [pod["spec"]["nodeName"] for pod in first] == list(trays)
    assert_released_together(team.changes("pods", since))
    answers(team)

    since = team.version_now()
    died = kill_the_rank(team, first[1])
    eventually(lambda: not is_routed(ranks_of(team, "duo")[0]), "it is unrouted", timeout_seconds=UNROUTED_SECONDS)
    print(f"unrouted {time.monotonic() - died:.1f} s after the death of a rank")
    failure = eventually(lambda: team.get("wpool", "duo")["status"].get("failure"), "the failure is in status")
    assert first[1]["metadata"]["name"] in failure["message"]
    eventually(lambda: backs_off(team), "the next attempt waits", interval_seconds=0.2)
    eventually(lambda: is_new(team, first), "another replica of two pods", timeout_seconds=180)
    assert_unrouted_while_ready(team.changes("pods", since), first[0])
    team.wait_for("wpool", "duo", "Ready", seconds=START_SECONDS)
    answers(team)
    print(f"answers {time.monotonic() - died:.0f} s after the death of a rank")


def assert_released_together(told: list[Json]) -> None:
    """No gate fell before both pods were there."""
    born = {rank(pod): version(pod) for pod in reversed(told)}
    assert sorted(born) == [0, 1]
    released = min(version(pod) for pod in told if not gates(pod))
    assert max(born.values()) < released
    assert not any(pod["spec"].get("nodeName") for pod in told if gates(pod))


def answers(team: Team) -> None:
    """A completion through the pool's Service; both ranks have a part in each token."""
    front = Endpoint(*team.service_address("duo"), timeout_seconds=300)
    assert front.complete(max_tokens=2)["usage"]["completion_tokens"] == 2


def kill_the_rank(team: Team, worker: Json) -> float:
    """Kill the process of the worker's rank inside its container; gives the moment."""
    team.kubectl("exec", worker["metadata"]["name"], "--", "pkill", "-9", "-f", "[V]LLM::Worker")
    return time.monotonic()


def backs_off(team: Team) -> bool:
    return bool(team.condition("wpool", "duo", "Placed").get("reason") == "BackingOff")


def is_new(team: Team, before: list[Json]) -> bool:
    """Whether a replica of two pods under another id has taken the place of the one before."""
    now = team.pods("duo")
    return len(now) == len(before) and {replica(before[0])}.isdisjoint(map(replica, now))


def assert_unrouted_while_ready(told: list[Json], leader: Json) -> None:
    """Kubernetes had nothing against the leader when Weft took it out of routing; none of its pods ran again."""
    versions = [pod for pod in told if pod["metadata"]["uid"] == leader["metadata"]["uid"]]
    unrouted = next(pod for pod in versions if not is_routed(pod))
    assert is_ready(unrouted)
    assert not any(status["restartCount"] for pod in told for status in pod["status"].get("containerStatuses") or [])
