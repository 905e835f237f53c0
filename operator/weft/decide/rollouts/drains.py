"""Nodes that go away or do not answer: their replicas are replaced first and drained after, if there is time for it."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.domain.workload import Role
from weft.engines import MARGIN_SECONDS, still_chosen_seconds
from weft.scaling import is_sane

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.decide.course import Turn
    from weft.decide.replicas.health import AssignedReplica
    from weft.domain.fabric import Fabric, FabricNode, Notice
    from weft.domain.reasons import Explanation

# No engine of a size worth scaling starts within this time: AWS' notice, the longest of a cloud for spot capacity.
NO_START_SECONDS = 120.0


def displacement(replica: AssignedReplica, fabric: Fabric, *, waits_for_a_node: bool = False) -> Explanation | None:
    """Why a replica has to move though nothing ended: the reason of the first of its nodes that goes or is not ready.

    For a replica that serves and `waits_for_a_node` that was gone, nodes that are not ready do not count.
    """
    nodes, silence = fabric.nodes(), _nothing if waits_for_a_node else _silence
    found = (nodes[name].leaving or silence(nodes[name]) for name in replica.nodes if name in nodes)
    return next((why for why in found if why is not None), None)


def is_urgent(replica: AssignedReplica, fabric: Fabric, drain_seconds: float, now: float) -> bool:
    """Whether one of its nodes goes before a successor could serve, or so soon that requests need the time to finish.

    A notice that does not say when it began counts with its full length.
    """
    enough = max(drain_seconds, NO_START_SECONDS)
    return any(notice.left(now) <= enough for notice in _notices(replica, fabric))


def serves_seconds(replica: AssignedReplica, fabric: Fabric, needed_seconds: float, now: float) -> float:
    """Seconds for which a replica may still take requests that need `needed_seconds` to finish.

    0 where no node has a notice, or a notice does not say when it began: the time may be over already.
    """
    left = (0.0 if each.began is None else each.left(now) for each in _notices(replica, fabric))
    return max(0.0, min(left, default=0.0) - needed_seconds)


def noticed_at(replicas: Iterable[AssignedReplica], fabric: Fabric) -> float:
    """Epoch seconds of the earliest known notice on a node of these replicas; infinite where none is dated."""
    notices = (each for replica in replicas for each in _notices(replica, fabric))
    return min((each.began for each in notices if each.began is not None), default=inf)


def over_seconds(turn: Turn) -> float:
    """Seconds from a replica leaving its front until its requests are usually over and its engine has ended.

    A request takes its measured mean, or else the predicted one, and at most the drain timeout.
    """
    planned, seen, outputs = turn.planned, turn.observation, 0.0
    expected, workload = planned.plan.prediction, turn.memory.workload or planned.spec.workload
    first = seen.ttft_mean if seen is not None and is_sane(seen.ttft_mean) else expected.ttft.mean
    token = seen.tpot_mean if seen is not None and is_sane(seen.tpot_mean) else expected.tpot.mean
    if planned.spec.role is not Role.Prefill:
        outputs = workload.output_tokens
    usual = min(first + outputs * token, planned.spec.rollout.drain_timeout_seconds)
    return still_chosen_seconds(planned.spec.role) + usual + MARGIN_SECONDS


def _notices(replica: AssignedReplica, fabric: Fabric) -> Iterator[Notice]:
    nodes = fabric.nodes()
    found = (nodes[name].notice for name in replica.nodes if name in nodes)
    return (notice for notice in found if notice is not None)


def _nothing(_: FabricNode) -> None:
    """No reason to leave a node that is waited for."""


def _silence(node: FabricNode) -> Explanation | None:
    """Why to leave a node that is not ready, as it may not come back; other reasons only keep new pods away."""
    silent = node.unusable is not None and node.unusable.reason is Reason.NodeNotReady
    return node.unusable if silent else None
