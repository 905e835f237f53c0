"""Look once more at a slot that was promised earlier, just before pods are released into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from weft.domain.fabric import Fabric
    from weft.domain.shape import Shape
    from weft.domain.status import Assignment


def slot_is_still_free(
    assignment: Assignment, fabric: Fabric, reserved: Mapping[str, int], bound: Collection[int] = ()
) -> bool:
    """Whether every pod of a replica that is not bound yet still finds its GPUs; see `slot_lost`."""
    return slot_lost(assignment, fabric, reserved, bound) is None


def slot_lost(
    assignment: Assignment, fabric: Fabric, reserved: Mapping[str, int], bound: Collection[int] = ()
) -> Explanation | None:
    """Why the slot of a replica is not free any more, or None.

    `reserved` are GPUs promised to others by node; `bound` are the ranks that sit on their nodes already and whose
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
                f"replica {assignment.replica} lost its slot: {name} has {max(0, left)} GPUs left, "
                f"not {assignment.gpus_per_pod}",
            )
    return None


def leaves_domain(assignment: Assignment, shape: Shape, fabric: Fabric) -> bool:
    """Whether a group that must share one NVLink domain (the replica, or a pipeline stage) does not do so now."""
    nodes = fabric.nodes()
    group = max(1, shape.domain_group_gpus // shape.gpus_per_pod)
    for start in range(0, len(assignment.nodes), group):
        stage = assignment.nodes[start : start + group]
        if len({nodes[name].domain if name in nodes else name for name in stage}) > 1:
            return True
    return False
