"""The simulated cluster does what schedulers, kubelets and the node controller do with pods."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tests.fabric.cluster import board
from tests.render.pools import plan, pool, shape, spec
from weft.domain.action import CreatePod, DeletePod, ReleasePods, UnroutePod
from weft.domain.cluster import PodPhase, Taint
from weft.domain.quotas import QuotaRecord
from weft.render import render_pods
from weft.twin.cluster.cluster import SimulatedCluster
from weft.twin.cluster.kubelets import BIND_SECONDS
from weft.twin.cluster.node_faults import EVICT_SECONDS, SILENT_SECONDS
from weft.twin.cluster.pods import EPOCH
from weft.twin.cluster.start_up import Fault, FaultKind, StartPhases

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.shape import Shape
    from weft.twin.cluster.pods import SimulatedPod

EVEN = StartPhases(image_seconds=30.0, weights_seconds=20.0, compile_seconds=5.0, capture_seconds=5.0, spread=0.0)
FIRST, LATER = 60.0, 30.0  # seconds from binding to readiness: with the image, and without
TWO_NODES = shape(8, pipeline_parallel=2, gpus_per_pod=8)
UID = pool(spec(), plan(shape(1))).key.uid


@dataclass
class Heard:
    """What a cluster told, and how many requests each engine has."""

    told: list[tuple[float, str, str]] = field(default_factory=list)
    loads: dict[str, int] = field(default_factory=dict)

    def started(self, pod: SimulatedPod, now: float) -> None:
        self.told.append((now, "started", pod.record.name))

    def unrouted(self, pod: SimulatedPod, now: float) -> None:
        self.told.append((now, "unrouted", pod.record.name))

    def ended(self, pod: SimulatedPod, now: float, *, silently: bool) -> None:
        self.told.append((now, "silent" if silently else "ended", pod.record.name))

    def load(self, pod: SimulatedPod) -> int:
        return self.loads.get(pod.record.name, 0)


class Running:
    """A cluster with replicas of one pool, and its clock."""

    def __init__(self, *nodes: NodeRecord, faults: tuple[Fault, ...] = ()) -> None:
        self.heard = Heard()
        self.cluster = SimulatedCluster(nodes or (board("a"), board("b")), (), lambda _: EVEN, 0, self.heard)
        self.cluster.plan(faults)

    def create(self, *replicas: tuple[str, ...], of: Shape | None = None, now: float = 0.0) -> None:
        """One replica on each of these, all pods gated."""
        record = pool(spec(), plan(of or shape(8)), *replicas)
        for assignment in record.status.assignments:
            for body in render_pods(record, assignment):
                self.cluster.carry_out(CreatePod(body), now)

    def release(self, now: float = 0.0) -> None:
        pods = tuple((pod.name, pod.uid) for pod in self.cluster.pods if pod.gated)
        self.cluster.carry_out(ReleasePods("team", pods), now)

    def run(self, now: float) -> tuple[PodRecord, ...]:
        self.cluster.advance(now)
        return self.cluster.pods

    def delete(self, name: str, now: float, grace_seconds: int | None = None) -> None:
        self.cluster.advance(now)
        pod = self.pod(name)
        self.cluster.carry_out(UnroutePod(pod.namespace, pod.name, pod.uid, EPOCH + now), now)
        self.cluster.carry_out(DeletePod(pod.namespace, pod.name, pod.uid, grace_seconds), now)

    def pod(self, name: str) -> PodRecord:
        return next(pod for pod in self.cluster.pods if pod.name == name)


def two_pods() -> tuple[Running, str, str]:
    """A replica over both nodes that answers, and the names of its first pod and of the one that helps it."""
    world = Running()
    world.create(("a", "b"), of=TWO_NODES)
    world.release()
    first, other = sorted(pod.name for pod in world.run(100.0))
    return world, first, other


@pytest.mark.parametrize(("grace_seconds", "gone_after"), [(10, 11.0), (None, 306.0)])
def test_a_pod_that_is_deleted_with_a_shorter_grace_period_ends_within_it(
    grace_seconds: int | None, gone_after: float
) -> None:
    """However long its own pre-stop hook would sleep: the second pod of a replica is there for its whole drain."""
    world, first, other = two_pods()
    world.delete(first, 100.0)
    world.delete(other, 110.0, grace_seconds)
    assert [other] == [pod.name for pod in world.run(110.0 + gone_after - 0.5)]
    assert () == world.run(110.0 + gone_after + 0.5)


def started(*nodes: NodeRecord, faults: tuple[Fault, ...] = ()) -> Running:
    """One replica on node a, released at second 0."""
    world = Running(*nodes, faults=faults)
    world.create(("a",))
    world.release()
    return world


def test_a_pod_is_gated_then_bound_to_its_node_then_ready() -> None:
    world = Running()
    world.create(("a",))
    (pod,) = world.run(100.0)
    assert pod.gated
    assert (pod.node, pod.created) == (None, EPOCH)
    world.release(100.0)
    assert world.run(100.5)[0].unscheduled
    (pod,) = world.run(100.0 + BIND_SECONDS)
    assert (pod.node, pod.ready, pod.phase) == ("a", False, PodPhase.Pending)
    (pod,) = world.run(100.0 + BIND_SECONDS + FIRST)
    assert (pod.ready, pod.routed, pod.phase) == (True, True, PodPhase.Running)
    assert pod.startup_seconds == pytest.approx(FIRST)
    assert world.cluster.engines(UID) == (pod.name,)
    assert world.heard.told == [(101.0 + FIRST, "started", pod.name)]


def test_a_node_pulls_an_image_once() -> None:
    world = Running()
    world.create(("a",), ("b",), of=shape(2))
    world.release()
    world.run(10.0)
    world.create(("a",), ("b",), ("a",), of=shape(2), now=200.0)
    world.release(200.0)
    world.run(400.0)
    assert sorted(pod.startup_seconds or 0.0 for pod in world.cluster.pods) == pytest.approx([LATER, FIRST, FIRST])


def test_what_has_no_room_waits_with_the_schedulers_words_until_there_is_some() -> None:
    world = started()
    world.create(("a",), ("a",))
    world.release(1.0)
    waiting = next(pod for pod in world.run(100.0) if pod.unscheduled)
    assert waiting.message == "Insufficient nvidia.com/gpu"
    first = next(pod for pod in world.cluster.pods if pod.node == "a")
    world.delete(first.name, 100.0)
    world.run(120.0)
    assert world.pod(waiting.name).node == "a"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"cordoned": True}, "node(s) were unschedulable"),
        ({"ready": False}, "unreachable"),
        ({"taints": (Taint("team", "other", "NoSchedule"),)}, "untolerated taint {team: other}"),
    ],
)
def test_a_node_that_takes_nobody_says_why(what: dict[str, object], words: str) -> None:
    world = started(replace(board("a"), **what))  # type: ignore[arg-type]
    (pod,) = world.run(10.0)
    assert pod.node is None
    assert words in pod.message


def test_all_pods_of_a_replica_get_ready_together_and_one_engine_answers() -> None:
    world = Running()
    world.create(("a", "b"), of=TWO_NODES)
    world.release()
    pods = world.run(BIND_SECONDS + FIRST)
    assert [pod.ready for pod in pods] == [True, True]
    assert [(what, name) for _, what, name in world.heard.told] == [("started", pods[0].name)]
    assert (world.cluster.paid(UID), world.cluster.gpu_seconds(UID, 11.0, 21.0)) == (1, 160.0)


def test_a_replica_that_loses_a_worker_answers_nothing_and_still_holds_the_other_node() -> None:
    world = Running(faults=(Fault("b", 100.0, FaultKind.Fails),))
    world.create(("a", "b"), of=TWO_NODES)
    world.release()
    leader, _ = world.run(100.0)
    assert world.heard.told[-1] == (100.0, "silent", leader.name)
    assert (world.cluster.serving(UID), world.cluster.paid(UID)) == (0, 1)
    assert world.cluster.gpu_seconds(UID, 90.0, 110.0) == 8 * 10.0 + 8 * 20.0


def test_an_engine_that_is_deleted_ends_when_it_is_empty() -> None:
    world = started()
    (pod,) = world.run(100.0)
    world.heard.loads[pod.name] = 3
    world.delete(pod.name, 100.0)
    (pod,) = world.run(150.0)
    assert (pod.terminating, pod.routed) == (True, False)
    assert world.cluster.engines(UID) == ()
    assert world.cluster.paid(UID) == 1
    world.heard.loads[pod.name] = 0
    assert world.run(155.0) == ()
    assert [what for _, what, _ in world.heard.told] == ["started", "unrouted", "ended"]
    assert world.cluster.paid(UID) == 0


def test_an_engine_that_never_gets_empty_ends_with_its_grace() -> None:
    world = started()
    (pod,) = world.run(100.0)
    world.heard.loads[pod.name] = 3
    world.delete(pod.name, 100.0)
    assert world.run(300.0)
    assert world.run(1000.0) == ()
    assert 400.0 <= world.heard.told[-1][0] <= 420.0


def test_what_still_waits_for_a_node_is_gone_at_once() -> None:
    world = Running()
    world.create(("a",))
    world.delete(world.cluster.pods[0].name, 5.0)
    assert world.cluster.pods == ()
    assert world.heard.told == []


def test_gpus_are_held_from_binding_to_the_end() -> None:
    world = started()
    world.run(100.0)
    world.delete(world.cluster.pods[0].name, 100.0)
    world.run(200.0)
    (ended,) = (now for now, what, _ in world.heard.told if what == "ended")
    assert world.cluster.gpu_seconds(UID, 0.0, 1000.0) == pytest.approx(8 * (ended - BIND_SECONDS))
    assert world.cluster.gpu_seconds(UID, 50.0, 80.0) == pytest.approx(8 * 30.0)
    assert world.cluster.gpu_seconds(UID, 500.0, 800.0) == 0.0


def test_a_node_that_fails_takes_its_engines_along_before_anybody_is_told() -> None:
    world = started(faults=(Fault("a", 100.0, FaultKind.Fails),))
    (pod,) = world.run(100.0)
    assert world.heard.told[-1] == (100.0, "silent", pod.name)
    assert pod.ready
    assert world.cluster.serving(UID) == world.cluster.paid(UID) == 0
    (pod,) = world.run(100.0 + SILENT_SECONDS)
    assert not pod.ready
    assert [node.ready for node in world.cluster.nodes] == [False, True]
    assert not pod.terminating
    (pod,) = world.run(100.0 + SILENT_SECONDS + EVICT_SECONDS)
    assert pod.terminating
    assert world.run(5000.0), "nobody ends it while its kubelet is silent"


def test_a_machine_that_comes_back_has_lost_what_ran_on_it() -> None:
    world = started(faults=(Fault("a", 100.0, FaultKind.Fails), Fault("a", 200.0, FaultKind.Recovers)))
    (pod,) = world.run(200.0)
    assert (pod.phase, pod.failure is not None) == (PodPhase.Failed, True)
    assert all(node.ready for node in world.cluster.nodes)


def test_a_short_failure_is_never_called_one() -> None:
    """The machine comes back before Kubernetes has noticed; its pods have ended all the same."""
    world = started(faults=(Fault("a", 100.0, FaultKind.Fails), Fault("a", 110.0, FaultKind.Recovers)))
    world.run(500.0)
    assert all(node.ready for node in world.cluster.nodes)
    assert world.cluster.pods[0].phase is PodPhase.Failed


def test_what_was_deleted_on_a_silent_node_goes_when_it_is_back() -> None:
    world = started(faults=(Fault("a", 100.0, FaultKind.Fails), Fault("a", 800.0, FaultKind.Recovers)))
    assert world.run(799.0)[0].terminating
    assert world.run(800.0) == ()


def test_a_gpu_that_falls_off_ends_the_engine_that_used_it() -> None:
    world = started(faults=(Fault("a", 100.0, FaultKind.GPULost),))
    (pod,) = world.run(100.0)
    assert pod.phase is PodPhase.Failed
    assert world.heard.told[-1] == (100.0, "ended", pod.name)
    assert world.cluster.nodes[0].allocatable == (("nvidia.com/gpu", 7),)
    world.delete(pod.name, 101.0)
    assert world.cluster.pods == ()


def test_a_free_gpu_that_falls_off_ends_nobody() -> None:
    world = Running(faults=(Fault("b", 100.0, FaultKind.GPULost), Fault("nowhere", 100.0, FaultKind.Fails)))
    world.create(("a",))
    world.release()
    assert world.run(200.0)[0].ready
    assert world.cluster.nodes[1].allocatable == (("nvidia.com/gpu", 7),)


def test_writes_to_pods_that_are_gone_change_nothing() -> None:
    world = Running()
    before = world.cluster.revision
    world.cluster.carry_out(DeletePod("team", "x", "uid-x"), 0.0)
    world.cluster.carry_out(UnroutePod("team", "x", "uid-x", EPOCH), 0.0)
    world.cluster.carry_out(ReleasePods("team", (("x", "uid-x"),)), 0.0)
    assert world.cluster.revision == before
    world.create(("a",))
    world.create(("a",))
    assert len(world.cluster.pods) == 1


def test_the_api_server_admits_no_pod_beyond_a_quota() -> None:
    """What others have of it is not left, and one that is gone makes room."""
    gpus, pods = "requests.nvidia.com/gpu", "pods"
    world = Running()
    world.cluster.limit(
        [
            QuotaRecord("team", "gpus", ((pods, 9), (gpus, 6)), ((pods, 4), (gpus, 1))),
            QuotaRecord("elsewhere", "gpus", ((gpus, 0),)),
        ]
    )
    world.create(("a",), ("a",), ("b",), of=shape(2))
    first, second = world.cluster.pods
    used = {quota.namespace: dict(quota.used) for quota in world.cluster.quotas}
    assert used == {"team": {pods: 6, gpus: 5}, "elsewhere": {gpus: 0}}
    world.delete(first.name, 1.0)
    assert dict(world.cluster.quotas[1].used) == {pods: 5, gpus: 3}
    world.create(("a",), ("a",), ("b",), of=shape(2), now=2.0)
    assert len(world.cluster.pods) == 2
    assert second in world.cluster.pods
