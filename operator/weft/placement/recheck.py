"""Check a slot that was assigned earlier once more, just before its pods are released."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import counted
from weft.fabric.membership import clique_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from weft.domain.fabric import Fabric
    from weft.domain.shape import Shape
    from weft.domain.status import Assignment


def slot_is_still_free(
    assignment: Assignment, fabric: Fabric, reserved: Mapping[str, int], bound: Collection[int] = ()
) -> bool:
    """Whether every unbound pod of a replica still finds its GPUs; see `slot_lost`."""
    return slot_lost(assignment, fabric, reserved, bound) is None


def slot_lost(
    assignment: Assignment, fabric: Fabric, reserved: Mapping[str, int], bound: Collection[int] = ()
) -> Explanation | None:
    """Why the slot of a replica is not free any more, or None.

    `reserved` are GPUs reserved for others by node; `bound` are the ranks that sit on their nodes already and whose
    devices the fabric therefore counts as used.
    """
    nodes = fabric.nodes()
    for rank, name in enumerate(assignment.nodes):
        if rank in bound:
            continue
        node = nodes.get(name)
        if node is None:
            return Explanation(Reason.NodeLost, f"replica {assignment.replica} lost its slot: node {name} is gone")
        if node.unusable is not None:
            return node.unusable
        left = node.total - node.used - reserved.get(name, 0)
        if left < assignment.gpus_per_pod:
            return Explanation(
                Reason.SlotTaken,
                f"replica {assignment.replica} lost its slot: {name} has {counted(max(0, left), 'GPU')} left, "
                f"not {assignment.gpus_per_pod}",
            )
    return None


def domain_lost(
    assignment: Assignment, fabric: Fabric, mine: Callable[[str], bool], bound: Collection[int] = ()
) -> Explanation | None:
    """Why a replica's ComputeDomain cannot form on its nodes, or None; nodes of `bound` ranks are in it already.

    `mine` tells, by namespace/name, whether a ComputeDomain that a node is in may be ignored.
    """
    nodes, shared = fabric.nodes(), assignment.compute_domain
    if shared is None:
        return None
    for rank, (name, clique) in enumerate(zip(assignment.nodes, shared.cliques, strict=True)):
        node = nodes.get(name)
        if node is None or rank in bound:
            continue
        if clique not in {"", clique_of(dict(node.labels))}:
            return Explanation(Reason.SlotTaken, f"node {name} has left the NVLink clique {clique}")
        if not node.shares_memory:
            return Explanation(Reason.SlotTaken, f"nothing forms ComputeDomains on node {name} any more")
        if others := [other for other in node.compute_domains if not mine(other)]:
            message = f"node {name} is in ComputeDomain {others[0]}, and can be in one only"
            return Explanation(Reason.NodeInComputeDomain, message)
    return None


def leaves_domain(assignment: Assignment, shape: Shape, fabric: Fabric) -> bool:
    """Whether a group that must share one NVLink domain (the replica, or a pipeline stage) no longer does."""
    nodes = fabric.nodes()
    group = max(1, shape.domain_group_gpus // shape.gpus_per_pod)
    for start in range(0, len(assignment.nodes), group):
        stage = assignment.nodes[start : start + group]
        if len({nodes[name].domain if name in nodes else name for name in stage}) > 1:
            return True
    return False
