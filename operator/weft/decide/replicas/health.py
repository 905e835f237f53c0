"""Which replicas are lost, and why: ordered claims about the pods of one assignment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide.replicas.ending import ALLOW_MORE, explain_end
from weft.domain.cluster import PodPhase
from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import agreeing, seconds
from weft.domain.values.made_often import made_often
from weft.schedulers import scheduler_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.decide.replicas.ending import ReadFailure
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.queueing import AdmissionRecord
    from weft.domain.snapshot import PoolObservation
    from weft.domain.status import Assignment

# Released pods that nobody binds within this time are placed anew (architecture: ADR 0004).
SCHEDULING_SECONDS = 60.0
# Where the scheduler preempts pods of others, those may take as long as they have grace: drains of engines do.
PREEMPTING_SECONDS = 600.0
# Counted from when Kubernetes calls the node NotReady (40-50 s into its silence), and no Service routes to it any more.
# A kubelet that restarts is back sooner.
# Of a node whose object is gone it is counted from when that was first seen: 10 to 30 s before Kubernetes would delete
# its pods, which it does 40 s after it saw that itself, in rounds of 20 s.
NODE_LOST_SECONDS = 30.0
# Three rounds of metrics: an engine that answered within them serves, whatever became of its node's object.
ANSWERED_SECONDS = 15.0
# Whoever takes pods away faster than this would be answered by a storm of new ones.
YOUNG_SECONDS = 60.0
# Many times what probes take (three in 30 s), a busy engine is slow for, or a kubelet is away that restarts.
UNRESPONSIVE_SECONDS = 300.0
# A replica that ended sooner after it should have been ready did not start well.
WELL_STARTED_SECONDS = 600.0


@made_often
@dataclass(frozen=True, slots=True)
class AssignedReplica:
    """An assignment with those of its pods that exist, by rank. `reachable` says whether all its nodes answer.

    `admission` is what the scheduler wrote about it, where it is handed over to one that picks nodes. `lost_domain` is
    the name of its ComputeDomain where it had one that is gone, or about to go.
    """

    assignment: Assignment
    pods: tuple[PodRecord, ...]
    reachable: bool = True
    admission: AdmissionRecord | None = None
    lost_domain: str | None = None

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that Weft assigned; the nodes that its pods are on, if another scheduler picks them."""
        if self.assignment.handover is None:
            return self.assignment.nodes
        return tuple(pod.node for pod in self.pods if pod.node is not None)

    @property
    def queues(self) -> bool:
        """Whether another scheduler has yet to admit it: some of its pods are held, or not even there."""
        handed_over = self.assignment.handover is not None
        return handed_over and (not self.whole or any(pod.queued for pod in self.pods))

    @property
    def unscheduled(self) -> tuple[PodRecord, ...]:
        """Pods that were released and are not bound, unless a gate of somebody else holds them, for however long.

        That is another scheduler's queue, or somebody who has to approve, and says nothing of the node.
        """
        return tuple(pod for pod in self.pods if pod.unscheduled and not pod.queued)

    @property
    def preparing(self) -> tuple[PodRecord, ...]:
        """Pods that are on their node, and whose containers do not run yet."""
        return tuple(pod for pod in self.pods if pod.bound and pod.phase is PodPhase.Pending)

    @property
    def hangs(self) -> bool:
        """Whether a pod of it runs that was ready and is not any more."""
        return any(pod.unready is not None for pod in self.pods)

    @property
    def ahead(self) -> tuple[PodRecord, ...]:
        """Pods that were released while others of the replica are still gated."""
        free = tuple(pod for pod in self.pods if not pod.gated)
        return free if len(free) < len(self.pods) else ()

    @property
    def ready(self) -> bool:
        """Whether the replica answers requests, and all its nodes answer."""
        return self.reachable and self.assignment.is_served_by(self.pods)

    @property
    def serves_since(self) -> float:
        """Since when it is ready, if it is, as far as its pods tell (epoch seconds)."""
        told = (released_at(pod) + (pod.startup_seconds or 0.0) for pod in self.pods)
        return max(told, default=self.assignment.since)

    @property
    def bound(self) -> frozenset[int]:
        """Ranks whose nodes have a pod of the replica, so that the fabric counts its devices.

        By nodes, or by label alone where another scheduler picks the nodes.
        """
        if self.assignment.handover is not None:
            return frozenset([pod.identity.rank for pod in self.pods if pod.identity and pod.node is not None])
        return self.assignment.bound(self.pods)

    @property
    def unbound_nodes(self) -> tuple[str, ...]:
        """Nodes that Weft chose for the replica and on which none of its pods is bound yet."""
        bound = self.bound
        return tuple(node for rank, node in enumerate(self.assignment.nodes) if rank not in bound)

    @property
    def released(self) -> bool:
        """Whether any pod lost its gate already."""
        return any(not pod.gated for pod in self.pods)

    @property
    def whole(self) -> bool:
        """Whether every pod exists."""
        return len(self.pods) == self.assignment.pods

    @property
    def may_have_run(self) -> bool:
        """Whether an engine of it runs or may have run in a pod that is gone without a trace."""
        return self.released or (self.assignment.complete and not self.whole)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the claims look at beside the replica. `away_since` are nodes that do not answer or are gone, by name.

    Waits are counted until `heard`, as in `Snapshot`: what ends one may have happened since, and nobody has told yet.
    `start_seconds` is what a start takes, `observation` what the engines of its pool tell, and `start_timeout_seconds`
    how long a pod may be on its node before its containers run; None: for however long.
    """

    heard: float
    nodes: Mapping[str, NodeRecord]
    away_since: Mapping[str, float]
    read_failure: ReadFailure
    start_seconds: float
    observation: PoolObservation | None = None
    start_timeout_seconds: float | None = None

    def away_seconds(self, node: str) -> float:
        """For how long a node has not answered or has been gone, as far as anybody saw."""
        return self.heard - self.away_since.get(node, self.heard)


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of a replica. `counts` says whether it counts as a failure, after which the next attempt waits.

    `suspects` are the nodes to which the scheduler did not bind its pods, or on which the first of them ended that did
    not start well: it may be the node. One that `may_come_back` may still be running, and serves again once its
    node answers.
    """

    assignment: Assignment
    explanation: Explanation
    counts: bool
    suspects: tuple[str, ...] = ()
    may_come_back: bool = False


def loss_of(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """Why a replica cannot stay, or None."""
    for claim in _CLAIMS:
        if (loss := claim(replica, around)) is not None:
            return loss
    return None


def its_node_went_away(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """A node is gone, or does not answer and its pods are already being taken away."""
    leaving = {pod.node for pod in replica.pods if pod.terminating or pod.phase is PodPhase.Failed}
    for name in replica.nodes if replica.may_have_run else ():
        node, in_time = around.nodes.get(name), around.away_seconds(name) < NODE_LOST_SECONDS
        if node is None and not (in_time and _still_serves(replica, around)):
            return _no_fault(replica, Reason.NodeLost, f"node {name} is gone")
        if node is not None and not node.ready and name in leaving:
            return _stopped_answering(replica, name)
    return None


def its_node_stays_silent(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """A node has not answered for a while, though nobody takes its pods away yet."""
    for name in replica.nodes if replica.may_have_run else ():
        node = around.nodes.get(name)
        if node is not None and not node.ready and around.away_seconds(name) >= NODE_LOST_SECONDS:
            return replace(_stopped_answering(replica, name), may_come_back=True)
    return None


def _still_serves(replica: AssignedReplica, around: Surroundings) -> bool:
    """Whether its pods say so though one of their nodes is gone: its object may come back, and they with it.

    Pods that run on stay as ready as they were while no kubelet tells otherwise, so that its engine has to have
    answered. A machine that is gone with its object answers nobody.
    """
    seen = around.observation
    ready = replica.assignment.is_served_by(replica.pods)
    return ready and seen is not None and seen.silent_seconds(replica.pods[0].name) < ANSWERED_SECONDS


def its_scheduler_gave_it_up(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """The scheduler that it was handed over to takes it away, or will never let it go."""
    handover = replica.assignment.handover
    if handover is None:
        return None
    taken = scheduler_for(handover.scheduler).taken(replica.pods, replica.admission)
    if taken is None:
        return None
    began = max([replica.assignment.since, *map(released_at, replica.pods)])
    young = around.heard - began < YOUNG_SECONDS
    what = f"{taken.message}; a new one queues"
    return _loss(replica, Reason.EvictedByScheduler, what, counts=taken.fault or young)


def its_compute_domain_is_gone(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """Somebody deletes the ComputeDomain: its daemons end, and claims that were made for it fit no other."""
    if replica.lost_domain is None:
        return None
    what = f"somebody deleted ComputeDomain {replica.lost_domain}, and its pods share no memory over NVLink any more"
    return _taken_away(replica, around, what, Reason.ComputeDomainDeleted)


def somebody_deletes_it(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """A pod of a replica that should stay is terminating: drained, evicted or deleted by hand."""
    pod = next((pod for pod in replica.pods if pod.terminating), None)
    return None if pod is None else _taken_away(replica, around, f"somebody deletes pod {pod.name}")


def its_kubelet_gave_a_pod_up(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """A kubelet evicted, rejected or shut down a pod: its node lacks something, which is no fault of the engine."""
    pod = next((pod for pod in replica.pods if pod.failure is not None and pod.failure.of_node), None)
    if pod is None or pod.failure is None:
        return None
    said = f"{pod.failure.reason}: {pod.failure.message}".removesuffix(": ")
    loss = _taken_away(replica, around, f"its node gave up pod {pod.name}: {said}", Reason.PodEvicted)
    return loss if pod.node is None else replace(loss, suspects=(pod.node,))


def a_pod_has_ended(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """An engine that ended, or a container that cannot start; engines are never restarted in place."""
    ended = [pod for pod in replica.pods if pod.failure is not None or pod.ended]
    if not ended:
        return None
    first, explanation = explain_end(ended, around.read_failure, of_several=replica.assignment.pods > 1)
    never_answered = explanation.reason is Reason.StartTimedOut
    if never_answered and replica.preparing:  # its other pods waited for this one
        return _does_not_run(replica, replica.preparing[0], around.heard - released_at(replica.preparing[0]))
    loss = _loss(replica, explanation.reason, explanation.message, counts=True)
    is_old = around.heard - replica.assignment.since >= around.start_seconds + WELL_STARTED_SECONDS
    started_well = is_old and not never_answered
    return loss if started_well or first.node is None else replace(loss, suspects=(first.node,))


def a_member_is_missing(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """Pods are released only when all exist, so one that is missing afterwards was deleted.

    Also when nothing is left of it: an id whose engine may have run is never used again.
    """
    if replica.whole or not replica.may_have_run:
        return None
    missing = replica.assignment.pods - len(replica.pods)
    are_gone = agreeing(missing, "is gone", "are gone")
    return _taken_away(replica, around, f"{missing} of its {replica.assignment.pods} pods {are_gone}")


def part_of_it_stays_behind(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """Gates of some pods fell long ago, and those of the others cannot: their slot was taken in between."""
    gated = next((pod for pod in replica.pods if pod.gated), None)
    if gated is None or not replica.ahead:
        return None
    if around.heard - min(map(released_at, replica.ahead)) < SCHEDULING_SECONDS:
        return None
    message = f"{gated.name} could not follow the others within {SCHEDULING_SECONDS:g} s: its slot was taken"
    return _loss(replica, Reason.SlotTaken, message, counts=True)


def nobody_schedules_it(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """A released pod is still not bound after the grace time."""
    for pod in replica.unscheduled:
        patience = scheduled_within(pod)
        if around.heard - released_at(pod) >= patience:
            said = pod.message or "the scheduler gave no reason"
            message = f"{pod.name} was not scheduled in {seconds(patience)}: {said}"
            loss = _loss(replica, Reason.SchedulingTimedOut, message, counts=True)
            nominated = () if pod.node is None else (pod.node,)
            return replace(loss, suspects=tuple(dict.fromkeys((*nominated, *replica.unbound_nodes))))
    return None


def scheduled_within(pod: PodRecord) -> float:
    """Seconds that a released pod may take to be bound: longer for one that is nominated, as others leave for it."""
    return SCHEDULING_SECONDS if pod.node is None else PREEMPTING_SECONDS


def it_does_not_get_to_run(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """Containers of a bound pod do not run in the time that the user allows: its node prepares, or pulls, for too long.

    From when they run it is the kubelet that ends an engine which takes too long to answer.
    """
    limit = around.start_timeout_seconds
    late = (pod for pod in replica.preparing if limit is not None and around.heard - released_at(pod) >= limit)
    pod = next(late, None)
    return None if pod is None or limit is None else _does_not_run(replica, pod, limit)


def its_engine_hangs(replica: AssignedReplica, around: Surroundings) -> Loss | None:
    """An engine that had answered has not been ready for minutes, though its process lives and its node answers.

    No probe ends it, as a kubelet knows neither of other replicas nor of what the engine still does (ADR 0123).
    """
    latest = around.heard - UNRESPONSIVE_SECONDS
    pod = next((pod for pod in replica.pods if pod.unready is not None and pod.unready <= latest), None)
    if pod is None or not replica.reachable:
        return None
    passed = seconds(UNRESPONSIVE_SECONDS)
    what = f"{pod.name} runs, but has not been ready for {passed}: its engine hangs, or nothing reaches it"
    loss = _no_fault(replica, Reason.EngineUnresponsive, what)
    return loss if pod.node is None else replace(loss, suspects=(pod.node,))


def released_at(pod: PodRecord) -> float:
    """When the pod lost its last gate, as far as that is known (epoch seconds)."""
    return pod.released if pod.released is not None else pod.created


def _does_not_run(replica: AssignedReplica, pod: PodRecord, passed: float) -> Loss:
    """The loss of a replica of which one pod is on its node, and its containers do not run after `passed` seconds."""
    lacks = "volumes, devices or network" if pod.unprepared else "images, or weights that are downloaded first"
    hint = f"kubectl get events -n {pod.namespace} --field-selector involvedObject.name={pod.name} says why"
    message = f"{pod.name} still waits for {lacks} on {pod.node} after {seconds(passed)}: {hint}; {ALLOW_MORE}"
    loss = _loss(replica, Reason.StartTimedOut, message, counts=True)
    return loss if pod.node is None else replace(loss, suspects=(pod.node,))


def _stopped_answering(replica: AssignedReplica, node: str) -> Loss:
    return _no_fault(replica, Reason.NodeLost, f"node {node} stopped answering")


def _taken_away(replica: AssignedReplica, around: Surroundings, what: str, reason: Reason = Reason.PodDeleted) -> Loss:
    """The loss of a replica that somebody took away: not its fault, but it counts if the replica is young.

    Otherwise whoever takes replicas away at once would be answered by new ones without end.
    """
    young = around.heard - replica.assignment.since < YOUNG_SECONDS
    return replace(_no_fault(replica, reason, what), counts=young)


def _no_fault(replica: AssignedReplica, reason: Reason, what: str) -> Loss:
    return _loss(replica, reason, f"{what}; it is placed anew", counts=False)


def _loss(replica: AssignedReplica, reason: Reason, what: str, *, counts: bool) -> Loss:
    explanation = Explanation(reason, f"replica {replica.assignment.replica}: {what}")
    return Loss(replica.assignment, explanation, counts)


# What takes a node or a pod away also ends pods, so it is looked for first.
_CLAIMS = (
    its_node_went_away,
    its_scheduler_gave_it_up,
    its_compute_domain_is_gone,
    somebody_deletes_it,
    its_kubelet_gave_a_pod_up,
    a_pod_has_ended,
    a_member_is_missing,
    part_of_it_stays_behind,
    nobody_schedules_it,
    its_node_stays_silent,
    it_does_not_get_to_run,
    its_engine_hangs,
)
