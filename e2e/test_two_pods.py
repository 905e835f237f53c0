"""Replicas of two pods on real kubelets, with real vLLM: one rank each, and the whole lives and dies as one."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from e2e.chaos.eyes import ENGINE_PORT, Counts
from e2e.chaos.traffic import Traffic
from e2e.cluster.node_engines import ONLY_HERE
from e2e.cluster.waiting import eventually
from e2e.operator_process import REPOSITORY
from e2e.team import Endpoint, gates, version
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from e2e.chaos.traffic import Result
    from e2e.cluster.node import RealNode
    from e2e.operator_process import OperatorProcess
    from e2e.team import Json, Team

pytestmark = pytest.mark.timeout(2400)

CLIQUE = "nvidia.com/gpu.clique"
RACK = "e2e-rack.1"
TRAY_LABELS = {
    "nvidia.com/gpu.product": "CPU-TEST",
    "nvidia.com/gpu.count": "1",
    "nvidia.com/gpu.memory": "4096",
    CLIQUE: RACK,
}
# Four ranks start in four times the processor time of one engine, on two cores: 200 to 600 s beside other work.
START_SECONDS = 900.0
STREAMS, TOKENS = 3, 16  # at any time, and of each answer
# The rest of a worker's pod ends within seconds of its rank (vLLM allows its processes 5), the kubelet looks every
# second, and the news wakes the next pass: 7 s, and several times that where other work keeps both cores busy.
UNROUTED_SECONDS = 60.0


@pytest.fixture
def trays(node: RealNode, request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    """As many nodes of one GPU each in one NVLink domain, without the images of engines that others were given."""
    rack, count = f"rack-{uuid.uuid4().hex[:8]}", request.param
    names = tuple(f"{rack}-tray-{number}" for number in range(count))
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(node.another(name, TRAY_LABELS, 1))
        yield names


def two_pods(team: Team, name: str, **spec: Any) -> Json:  # noqa: ANN401 - any part of the spec
    """A pool of TP 2 on the trays; of one replica, unless the spec says more.

    With a divided vocabulary the first prompt has PyTorch compile a function, which takes both ranks most of a minute.
    """
    engine = team.pool(name)["spec"]["engine"] | {"env": [{"name": "TORCHDYNAMO_DISABLE", "value": "1"}]}
    placement = {"nodeSelector": {CLIQUE: RACK}}
    return team.pool(name, **{"engine": engine, "shape": {"tensorParallel": 2}, "placement": placement} | spec)


def rank(pod: Json) -> int:
    return int(pod["metadata"]["labels"][labels.RANK])


def replica(pod: Json) -> str:
    return str(pod["metadata"]["labels"][labels.REPLICA])


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def is_routed(pod: Json) -> bool:
    return bool(pod["metadata"]["labels"].get(labels.ROUTED) == "true")


def replicas_of(team: Team, name: str) -> list[list[Json]]:
    """Pods of each replica, the leader first; the oldest replica first."""
    pods = sorted(team.pods(name), key=rank)
    return [[pod for pod in pods if replica(pod) == number] for number in sorted(set(map(replica, pods)), key=int)]


@pytest.mark.parametrize("trays", [2], indirect=True)
def test_a_worker_that_cannot_start_is_named(
    operator: OperatorProcess, node: RealNode, trays: tuple[str, ...], team: Team
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


@pytest.mark.parametrize("trays", [4], indirect=True)
def test_a_replica_of_two_pods_restarts_whole_while_another_one_serves(
    operator: OperatorProcess, node: RealNode, trays: tuple[str, ...], team: Team
) -> None:
    """Gated and released together; when a rank dies, all of it starts anew, and clients lose what it was answering.

    Where nobody asks, nothing of the leader's tells that the rank is gone, and it leaves routing all the same.
    """
    assert operator.is_ready()
    for name in trays:
        node.import_engines(name)
    team.kubectl("apply", "-k", str(REPOSITORY / "manifests" / "router"))
    since, begun = team.version_now(), time.monotonic()
    two = {"minReplicas": 2, "maxReplicas": 2}
    team.apply(two_pods(team, "duo", scaling=two, router={"type": "Managed", "resources": {"cpu": "100m"}}))
    all_are_ready(team)
    print(f"Ready after {time.monotonic() - begun:.0f} s")
    stays, breaks = replicas_of(team, "duo")
    assert sorted(pod["spec"]["nodeName"] for pod in (*stays, *breaks)) == sorted(trays)
    told = team.changes("pods", since)
    for each in (stays, breaks):
        names = {pod["metadata"]["name"] for pod in each}
        assert_released_together([pod for pod in told if pod["metadata"]["name"] in names])
    breaks_under_load(team, stays, breaks)
    breaks_unasked(team, stays)


def breaks_under_load(team: Team, stays: list[Json], breaks: list[Json]) -> None:
    """The leader misses its rank in the step that it is at; the other replica answers until two serve again."""
    with Traffic(*team.service_address("duo"), streams=STREAMS, lengths=[TOKENS]) as traffic:
        eventually(lambda: is_answering(stays[0]) and is_answering(breaks[0]), "both answer", timeout_seconds=60)
        died = kill_the_rank(team, breaks[1])
        eventually(lambda: is_not_routed(team, breaks[0]), "it is unrouted", timeout_seconds=UNROUTED_SECONDS)
        unrouted = time.monotonic()
        print(f"unrouted {unrouted - died:.1f} s after the death of a rank under load")
        eventually(lambda: is_replaced(team, stays, breaks), "another replica of two pods", timeout_seconds=180)
        all_are_ready(team)
        print(f"restarted {time.monotonic() - died:.0f} s after the death of a rank")
    assert_only_cut(traffic.results, died, unrouted)


def breaks_unasked(team: Team, broken: list[Json]) -> None:
    """Nothing of its leader's tells that the rank is gone."""
    since = team.version_now()
    died = kill_the_rank(team, broken[1])
    eventually(lambda: is_not_routed(team, broken[0]), "it is unrouted", timeout_seconds=UNROUTED_SECONDS)
    print(f"unrouted {time.monotonic() - died:.1f} s after the death of a rank that nobody asks")
    eventually(lambda: is_blamed(team, broken[1]), "the failure is in status")
    eventually(lambda: backs_off(team), "the next attempt waits", interval_seconds=0.2)
    answers(team)
    assert_unrouted_while_ready(team.changes("pods", since), broken[0])


def all_are_ready(team: Team) -> None:
    eventually(
        lambda: team.get("wpool", "duo").get("status", {}).get("readyReplicas") == 2,
        "both replicas are ready",
        timeout_seconds=START_SECONDS,
    )


def is_answering(leader: Json) -> bool:
    """Whether it runs a request at this moment."""
    return Counts.read(Endpoint(leader["status"]["podIP"], ENGINE_PORT).metrics()).running > 0


def is_not_routed(team: Team, leader: Json) -> bool:
    """Whether it is gone, or no longer chosen for requests."""
    name = leader["metadata"]["name"]
    return not any(pod["metadata"]["name"] == name and is_routed(pod) for pod in team.pods("duo"))


def assert_only_cut(results: Sequence[Result], died: float, unrouted: float) -> None:
    """Each stream lost one answer at most, which had begun on the replica; the front tried all others elsewhere."""
    failed = [result for result in results if not result.whole]
    waited = max(result.seconds for result in results if result.whole and result.during(died, unrouted))
    print(f"{len(results)} requests, {len(failed)} cut; the longest other one then took {waited:.1f} s")
    assert not [result for result in failed if result.refused]
    assert len(failed) <= STREAMS, failed
    assert all(result.during(died, unrouted) for result in failed), failed
    assert any(result.whole and result.started > unrouted for result in results)


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
    """Kill the process of the worker's rank inside its container; gives the moment before."""
    before = time.monotonic()
    team.kubectl("exec", worker["metadata"]["name"], "--", "pkill", "-9", "-f", "[V]LLM::Worker")
    return before


def backs_off(team: Team) -> bool:
    return bool(team.condition("wpool", "duo", "Placed").get("reason") == "BackingOff")


def is_blamed(team: Team, pod: Json) -> bool:
    """Whether the last failure in status is that of this pod."""
    return pod["metadata"]["name"] in team.get("wpool", "duo")["status"]["failure"]["message"]


def is_replaced(team: Team, other: list[Json], before: list[Json]) -> bool:
    """Whether a replica of two pods under another id stands beside the other one, in the place of the one before."""
    now = team.pods("duo")
    numbers = set(map(replica, now))
    return len(now) == len(other) + len(before) and replica(before[0]) not in numbers and replica(other[0]) in numbers


def assert_unrouted_while_ready(told: list[Json], leader: Json) -> None:
    """Kubernetes had nothing against the leader when Weft took it out of routing; none of its pods ran again."""
    versions = [pod for pod in told if pod["metadata"]["uid"] == leader["metadata"]["uid"]]
    unrouted = next(pod for pod in versions if not is_routed(pod))
    assert is_ready(unrouted)
    assert not any(status["restartCount"] for pod in told for status in pod["status"].get("containerStatuses") or [])
