"""Pools whose nodes another scheduler picks: what each of their replicas asks for, and what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import SchedulerName
from weft.fabric.devices import PRODUCT_LABELS, label_that_names
from weft.schedulers import Ask, Site, scheduler_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.health import AssignedReplica
    from weft.domain.fabric import Fabric
    from weft.domain.queueing import Queueing
    from weft.domain.shape import Shape
    from weft.domain.status import Assignment, Handover


def handed_over(planned: Planned, fabric: Fabric, queueing: Queueing | None) -> Handover | Explanation | None:
    """What a new replica asks of the pool's scheduler, or why it cannot; None where Weft picks the nodes.

    Whether there is room does not matter here: what does not fit now waits in the queue.
    """
    placement, shape = planned.spec.placement, planned.plan.shape
    if placement.scheduler is SchedulerName.Default:
        return None
    sites = tuple(_sites(shape, planned, fabric))
    ask = Ask(planned.pool.key.namespace, shape, placement, sites, queueing)
    answer = scheduler_for(placement.scheduler).hand_over(ask)
    return answer if sites or isinstance(answer, Explanation) else _nameless(shape.accelerator)


def _nameless(accelerator: str) -> Explanation:
    """Why a replica is not handed over where no node label names its accelerator.

    Nothing would keep its pods off nodes with another one.
    """
    fix = f"kubectl label node NAME {PRODUCT_LABELS[0]}={accelerator}"
    message = f"no node label names {accelerator}, by which another scheduler could choose its nodes: run {fix}"
    return Explanation(Reason.AcceleratorUnknown, message)


def queue_of(replicas: Sequence[AssignedReplica], added: Sequence[Assignment]) -> tuple[int, str]:
    """How many replicas wait to be admitted, and what the first of them waits for."""
    waiting = [(each.assignment, each.admission) for each in replicas if each.queues]
    waiting += [(each, None) for each in added if each.handover is not None]
    words = (
        scheduler_for(assignment.handover.scheduler).waits_for(assignment.handover, admission)
        for assignment, admission in waiting
        if assignment.handover is not None
    )
    return len(waiting), next(words, "")


def waiting_in_queue(
    replicas: Sequence[AssignedReplica], added: Sequence[Assignment], desired: int
) -> Explanation | None:
    """Why not every replica has nodes although each is handed over, or None."""
    waiting, words = queue_of(replicas, added)
    if not waiting:
        return None
    return Explanation(Reason.WaitingForQuota, f"{waiting} of {desired} replicas wait to be admitted; {words}")


def _sites(shape: Shape, planned: Planned, fabric: Fabric) -> Iterator[Site]:
    """Nodes with the shape's accelerator that the pool selects; parts of GPUs only where there is nothing whole."""
    nodes = [node for domain in fabric.domains if domain.accelerator == shape.accelerator for node in domain.nodes]
    whole = [node for node in nodes if not node.shared]
    for node in whole or nodes:
        labels = dict(node.labels)
        product = label_that_names(labels)
        if product is not None and all(labels.get(key) == value for key, value in planned.spec.placement.node_selector):
            yield Site(node.domain, labels, product)
