"""Kueue: a replica is one pod group that waits in a LocalQueue; Kueue reserves quota and picks the nodes.

Facts are from the source of Kueue 0.19 (`pkg/controller/jobs/pod`, `pkg/controller/tas`, `apis/kueue/v1beta2`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import SchedulerName
from weft.domain.status import Handover
from weft.schedulers.levels import group_of, level_of, product_of
from weft.schedulers.protocol import Eviction, Marks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.domain.cluster import PodRecord
    from weft.domain.queueing import AdmissionRecord, Queueing, Stated
    from weft.domain.spec import Pairs
    from weft.schedulers.protocol import Ask, ReplicaPod

GROUP = "kueue.x-k8s.io"
QUEUE = f"{GROUP}/queue-name"  # label of a pod: its LocalQueue
MANAGER = "kueue"  # field manager of what Kueue patches in pods
TAKEN_AWAY = "TerminationTarget"  # condition of a pod, set just before Kueue deletes it
# Kueue's own gates, set by Weft too: a pod that Kueue's webhook does not see would run outside quota and topology.
GATES = (f"{GROUP}/admission", f"{GROUP}/topology")
# One role for all pods. They ask for the same, and Kueue keeps only pods of one role inside one topology domain; left
# to itself it counts ports, which only the first pod may have.
ROLE = "main"
# Evictions that are no fault of the replica: others came first, a queue was stopped, or the hardware went.
NO_FAULT = frozenset({"Preempted", "ClusterQueueStopped", "LocalQueueStopped", "NodeFailures"})
_EVICTED = "WorkloadEvictedDueTo"  # how reasons on the condition TerminationTarget of a pod begin


class Kueue:
    """The adapter of Kueue: Weft decides shape and count, Kueue decides when and where replicas run."""

    def hand_over(self, ask: Ask) -> Handover | Explanation:
        """The queue, the topology level inside one NVLink domain, and the accelerator; or which of them is missing."""
        queue = ask.placement.queue
        if ask.queueing is None:
            return Explanation(Reason.NothingToPlace, f"Kueue places it, from LocalQueue {queue}; it was not asked")
        if (missing := next(_missing(ask, ask.queueing), None)) is not None:
            return missing
        level = level_of(ask, ask.queueing.topologies)
        if isinstance(level, Explanation):
            return level
        group = group_of(ask.shape, ask.placement.domain)
        return Handover(SchedulerName.Kueue, queue, ask.shape.pods, level, group, product_of(ask.sites))

    def marks(self, member: ReplicaPod) -> Marks:
        """Everything that Kueue's webhook would write, so that nothing depends on whether the webhook is called.

        A suspending parent keeps Kueue from putting its finalizer on the pods: once members of a group have gone, Kueue
        never removes these finalizers unless somebody deletes the Workload. Admission waits for all pods of the group
        (no fast admission): quota for a replica that a ResourceQuota cuts short would serve nobody.
        """
        handover = member.handover
        if handover is None:
            return Marks(gates=GATES)
        return Marks(
            labels=(
                (f"{GROUP}/managed", "true"),
                (QUEUE, handover.queue),
                (f"{GROUP}/pod-group-name", member.group),
                (f"{GROUP}/pod-group-pod-index", str(member.rank)),
            ),
            annotations=(
                (f"{GROUP}/pod-suspending-parent", "weft"),
                (f"{GROUP}/pod-group-total-count", str(handover.pods)),
                (f"{GROUP}/pod-group-serving", "true"),
                (f"{GROUP}/role-hash", ROLE),
                *_topology(handover),
            ),
            gates=GATES,
            node_selector=member.node_selector,
            expressions=() if handover.product is None else (handover.product,),
        )

    def waits_for(self, handover: Handover, admission: AdmissionRecord | None) -> str:
        """The first condition of the Workload on the way to running that does not hold yet, in words."""
        if admission is None:
            return f"LocalQueue {handover.queue} has not taken it up yet"
        for kind, otherwise in (
            ("QuotaReserved", f"LocalQueue {handover.queue} has no quota for it yet"),
            ("Admitted", "quota is reserved, admission checks are not over"),
        ):
            stated = admission.says(kind)
            if stated is None or not stated.holds:
                return _words(stated) or otherwise
        return "admitted, Kueue lets its pods go"

    def taken(self, pods: Sequence[PodRecord], admission: AdmissionRecord | None) -> Eviction | None:
        """Why Kueue took the replica away: it evicted the pods, or the Workload is finished and admits no more pods."""
        said = next((pod.stopped for pod in pods if pod.terminating and pod.stopped is not None), None)
        evicted = _holding(admission, "Evicted")
        if said is None and evicted is not None and not pods:
            said = evicted.reason, evicted.message  # they went faster than anybody looked
        if said is not None:
            reason = said[0].removeprefix(_EVICTED)
            return Eviction(f"Kueue took it away: {reason}: {said[1]}", reason not in NO_FAULT)
        finished = _holding(admission, "Finished")
        return None if finished is None else Eviction(f"Kueue gave it up: {_words(finished)}", fault=True)


def _missing(ask: Ask, queueing: Queueing) -> Iterator[Explanation]:
    namespace, queue = ask.namespace, ask.placement.queue
    if queueing.refused:
        what = ", ".join(queueing.refused)
        yield Explanation(Reason.NotPermitted, f"Weft may not list and watch {what}: grant it the role weft-resources")
    if not queueing.installed:
        yield Explanation(Reason.SchedulerMissing, f"Kueue is not installed: the cluster has no LocalQueues of {GROUP}")
    here = sorted(each.name for each in queueing.queues if each.namespace == namespace)
    if queue not in here:
        others = f"it has {', '.join(here)}" if here else "it has none"
        message = f"there is no LocalQueue {queue} in namespace {namespace}, {others}: create it, or change the pool"
        yield Explanation(Reason.QueueMissing, message)


def _topology(handover: Handover) -> Pairs:
    """Topology annotations: one domain for the whole replica; or for each slice, all as near as there is room."""
    if not handover.level:
        return ()
    if handover.group >= handover.pods:
        return ((f"{GROUP}/podset-required-topology", handover.level),)
    near = (f"{GROUP}/podset-preferred-topology", handover.level)
    if handover.group == 1:
        return (near,)
    return (
        near,
        (f"{GROUP}/podset-slice-required-topology", handover.level),
        (f"{GROUP}/podset-slice-size", str(handover.group)),
    )


def _holding(admission: AdmissionRecord | None, kind: str) -> Stated | None:
    stated = admission.says(kind) if admission is not None else None
    return stated if stated is not None and stated.holds else None


def _words(stated: Stated | None) -> str:
    return "" if stated is None else stated.message or stated.reason
