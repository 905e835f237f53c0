"""A replica leaves its front, then finishes what its engine tells of, then goes (ADR 0036)."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest

from tests.converge.world import World
from tests.render.pools import NAMESPACE, UID, changed, plan, pool, shape, spec
from weft.converge import Heard
from weft.converge.draining import IDLE_GRACE_SECONDS, stuck_in_seconds
from weft.converge.replicas import Replica
from weft.domain import labels
from weft.domain.action import Action, ApplyObject, DeletePod, UnroutePod
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.overdue import OVERDUE_SECONDS
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.snapshot import STALE_SECONDS, EngineWord, PoolRecord
from weft.domain.spec import RolloutSpec
from weft.domain.texts.times import instant
from weft.domain.workload import Role

START = 2000.0
DRAIN = 60.0
BUSY, IDLE = False, True


def one_pod(role: Role = Role.Aggregated, engine: EngineName = EngineName.VLLM) -> PoolRecord:
    """A pool of one replica whose requests may take a minute to finish."""
    rollout = RolloutSpec(drain_timeout_seconds=DRAIN)
    return pool(spec(role, rollout=rollout), plan(shape(8, engine=engine)), ("node-a",))


def two_pods() -> PoolRecord:
    """The same over two nodes: the second pod only helps the first one."""
    rollout = RolloutSpec(drain_timeout_seconds=DRAIN)
    return pool(spec(rollout=rollout), plan(shape(8, pipeline_parallel=2, gpus_per_pod=8)), ("node-a", "node-b"))


class Going:
    """The only replica of a pool behind a router, without an assignment, and what its engine tells."""

    def __init__(self, record: PoolRecord, *, idle: bool | None = BUSY, fronted: bool = True) -> None:
        self.world = World()
        self.world.settle(record)
        self.leader = min(self.world.pods)
        if fronted:
            meta = {"name": "router", "namespace": NAMESPACE, "uid": "router", "labels": {labels.FRONT_OF: UID}}
            self.world.pods["router"] = {"metadata": meta, "spec": {}, "status": {"phase": "Running"}}
        self.record = changed(record, assignments=(), desired_replicas=0)
        self.idle = idle

    def after(self, seconds: float, *, idle: bool | None = None, age: float = 0.0) -> list[Action]:
        """What is done so many seconds after the beginning, by a word of that age; it is carried out."""
        self.idle = self.idle if idle is None else idle
        told = {} if self.idle is None else {self.leader: EngineWord(self.idle, age)}
        self.world.heard = Heard(START + seconds, told)
        done: list[Action] = [
            each for each in self.world.look(self.record).actions if not isinstance(each, ApplyObject)
        ]
        self.world.carry_out(*done)
        return done


def deletes(actions: list[Action]) -> list[int | None]:
    """Grace seconds of every deletion."""
    return [each.grace_seconds for each in actions if isinstance(each, DeletePod)]


def test_a_busy_replica_leaves_the_front_and_goes_once_its_engine_is_idle() -> None:
    going = Going(one_pod())
    (unrouted,) = going.after(0)
    assert (type(unrouted), unrouted.name) == (UnroutePod, going.leader)  # type: ignore[union-attr]
    assert going.after(10) == []
    assert going.after(50) == []
    assert deletes(going.after(55, idle=IDLE)) == [IDLE_GRACE_SECONDS]


def test_an_idle_engine_may_still_be_asked_for_a_while() -> None:
    """Endpoints and routers hear of the label a few seconds late."""
    going = Going(one_pod(), idle=IDLE)
    assert deletes(going.after(0)) == []
    assert going.after(4) == []
    assert deletes(going.after(5)) == [IDLE_GRACE_SECONDS]


def test_a_decode_engine_may_be_asked_for_as_long_as_prompts_take() -> None:
    """ADR 0034: it was chosen when its prompt was sent to prefill."""
    going = Going(one_pod(Role.Decode), idle=IDLE)
    assert len(going.after(0)) == 1
    assert going.after(29) == []
    assert deletes(going.after(30)) == [IDLE_GRACE_SECONDS]


def test_a_word_from_before_the_last_request_may_have_come_says_nothing() -> None:
    going = Going(one_pod(), idle=IDLE)
    going.after(0)
    assert going.after(12, age=8) == []
    assert deletes(going.after(12, age=7)) == [IDLE_GRACE_SECONDS]


def test_one_that_may_not_be_taken_out_of_its_front_goes_all_the_same() -> None:
    """A policy forbids edits of its labels: it would wait for ever to be out of its front, and then to be idle."""
    going = Going(one_pod())
    for chosen, gone in ((frozenset[str](), []), (frozenset({going.leader}), [None])):
        going.world.heard = Heard(START + 10 * DRAIN, {going.leader: EngineWord(BUSY, 0.0)}, chosen)
        every = going.world.look(going.record).actions
        found: list[Action] = [each for each in every if not isinstance(each, ApplyObject)]
        assert [type(each) for each in found[:1]] == [UnroutePod]
        assert deletes(found) == gone


def test_no_engine_is_waited_for_longer_than_requests_may_take() -> None:
    going = Going(one_pod())
    going.after(0)
    assert going.after(DRAIN + 4) == []
    assert deletes(going.after(DRAIN + 5)) == [IDLE_GRACE_SECONDS]


@pytest.mark.parametrize(
    "word", [{"idle": BUSY, "age": STALE_SECONDS + 1}, {"idle": None}], ids=["fell silent", "does not tell"]
)
def test_an_engine_that_does_not_tell_goes_at_once_and_drains_itself(word: dict[str, Any]) -> None:
    going = Going(one_pod(), idle=None)
    first, second = going.after(0, **word)
    assert isinstance(first, UnroutePod)
    assert deletes([second]) == [None]


def test_an_engine_that_falls_silent_while_it_finishes_goes_with_its_own_grace() -> None:
    going = Going(one_pod())
    going.after(0)
    assert deletes(going.after(20, age=STALE_SECONDS + 1)) == [None]


def test_nobody_is_taken_for_silent_before_anybody_was_asked() -> None:
    """After a restart of the operator converging begins before the first collection."""
    going = Going(one_pod())
    going.after(0)
    going.world.heard = Heard(START + 20, None)
    assert going.world.look(going.record).actions == ()
    assert deletes(going.after(21, idle=IDLE)) == [IDLE_GRACE_SECONDS]


def test_a_front_that_heeds_deletion_alone_has_to_see_it() -> None:
    going = Going(one_pod(engine=EngineName.SGLang))
    assert deletes(going.after(0)) == [None]


def test_a_replica_that_lost_a_pod_is_not_waited_for() -> None:
    """Its engine counts requests for ever that nobody computes."""
    record = pool(spec(), plan(shape(8, pipeline_parallel=2, gpus_per_pod=8)), ("node-a", "node-b"))
    going = Going(record)
    going.world.fail(max(going.world.pods.keys() - {"router"}))
    assert deletes(going.after(0)) == [None]


def test_an_engine_that_is_not_ready_any_more_is_not_waited_for() -> None:
    """What it told last is of requests that may have ended with it."""
    going = Going(one_pod())
    going.world.pods[going.leader]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert [None] == deletes(going.after(0.0))


def test_nobody_looks_again_for_a_first_pod_that_has_ended() -> None:
    """The others go with it: they do not wait until its grace period is over."""
    first, second = (
        PodRecord(
            NAMESPACE,
            f"chat-0-{rank}",
            f"uid-{rank}",
            PodPhase.Running,
            f"b-{rank}",
            (),
            PodIdentity(UID, 0, rank, "r"),
        )
        for rank in range(2)
    )
    first = replace(first, gone_by=START + 30.0, terminating=True)
    assert stuck_in_seconds(Replica(0, None, (first, second)), START) == 30.0 + OVERDUE_SECONDS
    ended = replace(first, phase=PodPhase.Failed)
    assert stuck_in_seconds(Replica(0, None, (ended, second)), START) == inf


def test_who_reads_the_status_sees_what_is_waited_for() -> None:
    going = Going(one_pod())
    going.after(0)
    conditions = going.world.look(going.record).progress.conditions
    (moving,) = (each.explanation for each in conditions if each.kind == "Reconciling")
    assert (moving.reason, moving.message) == (
        Reason.Draining,
        "1 replica is leaving, and finishes its requests",
    )


def test_nobody_waits_by_a_spec_that_cannot_be_read() -> None:
    going = Going(one_pod())
    going.record = replace(going.record, spec=None)
    assert deletes(going.after(0)) == [None]


@pytest.mark.parametrize("fronted", [False, True], ids=["no router", "one that ended"])
def test_clients_that_hold_on_to_connections_find_an_engine_that_drains(*, fronted: bool) -> None:
    """No front is known: requests come on open connections for as long as there is an engine."""
    going = Going(one_pod(), idle=IDLE, fronted=fronted)
    if fronted:
        going.world.fail("router")
    first, second = going.after(0)
    assert isinstance(first, UnroutePod)
    assert deletes([second]) == [None]


def test_a_pod_that_somebody_evicted_is_left_to_its_kubelet() -> None:
    """A kubelet goes by the first deletion: a second one, with a shorter grace period, ends nothing sooner."""
    going = Going(two_pods())
    pods = going.world.pods
    worker = max(name for name in pods if name != "router")
    going.world.carry_out(DeletePod(NAMESPACE, worker, pods[worker]["metadata"]["uid"]))
    assert deletes(going.after(0)) == [None]
    assert deletes(going.after(1)) == []
    del pods[going.leader]
    assert deletes(going.after(2)) == []


def test_whoever_puts_the_label_back_holds_nobody_up() -> None:
    going = Going(one_pod())
    going.after(0)
    for seconds in (20, 40, DRAIN + 4):
        going.world.pods[going.leader]["metadata"]["labels"][labels.ROUTED] = "true"
        assert [type(each) for each in going.after(seconds)] == [UnroutePod]
    assert deletes(going.after(DRAIN + 5)) == [IDLE_GRACE_SECONDS]


def waiting(world: World, name: str) -> None:
    """A pod on its node whose image cannot be pulled for the moment."""
    state = {"waiting": {"reason": "ErrImagePull", "message": "timeout"}}
    world.pods[name]["status"] = {"phase": "Pending", "containerStatuses": [{"name": "engine", "state": state}]}


def test_a_replica_that_recovers_by_itself_is_chosen_as_before() -> None:
    """The kubelet pulls the image once more, while nobody decides: the operator is being restarted."""
    world = World()
    world.settle(one_pod())
    (name,) = world.pods
    ready = dict(world.pods[name]["status"])
    waiting(world, name)
    assert world.look(one_pod()).actions == ()
    world.pods[name]["status"] = ready
    world.settle(one_pod())
    assert world.pods[name]["metadata"]["labels"][labels.ROUTED] == "true"


def test_a_replica_whose_engine_ended_leaves_its_front_though_its_pod_goes_on() -> None:
    """A container that somebody injects runs beside it; a router may see no more than the label."""
    world = World()
    world.settle(one_pod())
    (name,) = world.pods
    ended = {"name": "engine", "state": {"terminated": {"reason": "Error", "exitCode": 1}}}
    world.pods[name]["status"] = {"phase": "Running", "containerStatuses": [ended]}
    assert [name] == [each.name for each in world.look(one_pod()).actions if isinstance(each, UnroutePod)]


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "ErrImagePull"])
def test_a_replica_whose_sidecar_fails_is_chosen_as_before_once_that_runs(reason: str) -> None:
    """Its engines never ended, and nobody would put the label back if deciding saw nothing of it."""
    record, world = two_pods(), World()
    world.settle(record)
    leader, worker = sorted(world.pods)
    proxy = {"name": "proxy", "state": {"waiting": {"reason": reason}}, "lastState": {"terminated": {"exitCode": 1}}}
    ready = dict(world.pods[worker]["status"])
    world.pods[worker]["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}]
    world.pods[worker]["status"] = {**ready, "initContainerStatuses": [proxy]}
    assert () == world.look(record).actions
    engine = {"name": "engine", "state": {"terminated": {"exitCode": 1}}}
    world.pods[worker]["status"] = {**ready, "initContainerStatuses": [proxy], "containerStatuses": [engine]}
    assert [leader] == [each.name for each in world.look(record).actions if isinstance(each, UnroutePod)]


def test_a_replica_whose_first_pod_looks_ready_is_not_chosen_while_it_lacks_another() -> None:
    world = World()
    world.settle(two_pods())
    leader, worker = sorted(world.pods)
    waiting(world, worker)
    assert [leader] == [each.name for each in world.look(two_pods()).actions if isinstance(each, UnroutePod)]


@pytest.mark.parametrize("idle", [BUSY, IDLE], ids=["busy", "idle"])
def test_a_clock_that_was_set_back_holds_nobody_up_and_cuts_nothing_off(*, idle: bool) -> None:
    """For how long no front has chosen it nobody knows then: requests finish within the grace period of its pod."""
    going = Going(one_pod(), idle=idle)
    going.after(0)
    assert deletes(going.after(-3600)) == [None]


def test_what_a_router_on_a_dead_node_keeps_is_looked_at_when_its_time_is_over() -> None:
    """A minute after its grace period, though nothing happens in the cluster then."""
    old = replace(pool(spec(Role.Decode, pair="old"), plan(), ("node-a",), ("node-b",)), split_uid="5f00")
    world = World()
    world.settle(old)
    for pod, pair in zip(world.pods.values(), ("old", "new"), strict=True):
        pod["metadata"]["labels"][labels.PAIR] = pair
    tags = {labels.FRONT_OF: "5f00", labels.PAIR: "old"}
    meta = {"name": "router", "namespace": NAMESPACE, "uid": "r", "labels": tags, "deletionTimestamp": instant(START)}
    world.pods["router"] = {"metadata": meta, "spec": {}, "status": {"phase": "Running"}}
    current = replace(old, spec=spec(Role.Decode, pair="new"), status=replace(old.status, desired_replicas=1))
    going = changed(current, assignments=old.status.assignments[1:])
    world.heard = Heard(START + 59)
    kept = world.look(going)
    assert (1.0, []) == (kept.again_seconds, [each for each in kept.actions if isinstance(each, UnroutePod)])
    world.heard = Heard(START + 60)
    assert [min(world.pods)] == [each.name for each in world.look(going).actions if isinstance(each, UnroutePod)]
