"""Replicas that wait behind their gates for GPUs which leaving pods of their own pool still hold.

That takes a grace period, or for ever where a kubelet cannot end a pod. Whoever has waited as long as a released pod
may takes another place, once there is one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.plans.nvlink_domains import within_its_domain
from weft.decide.replicas.health import SCHEDULING_SECONDS, Loss
from weft.decide.replicas.promises import holder_name, holds_of
from weft.decide.replicas.slots import slot_with
from weft.domain.reasons import Explanation, Reason
from weft.placement import ALONE, Slot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.health import AssignedReplica
    from weft.decide.replicas.survivors import Survivors
    from weft.domain.status import Assignment
    from weft.placement import FreeMap, Hold


def resettled(seen: Survivors, planned: Planned | None, free: FreeMap, now: float) -> Survivors:
    """Say who waits, once all promises are known, and give those up that have waited long enough for what is free.

    They are placed anew under another id, like all that lost their slot.
    """
    if seen.standing is not None:  # nobody is behind a gate
        return seen
    kept, losses, waiting = [], list(seen.losses), []
    for replica in seen.replicas:
        node = None if planned is None else _still_held(replica, planned, free)
        if planned is not None and node is not None and _may_move(replica, planned, free, now):
            losses.append(_given_up(replica, node))
            for hold in _holds(replica, planned, free):
                free.release(hold)
            continue
        kept.append(replica)
        if node is not None:
            waiting.append((replica.assignment, node))
    return replace(seen, replicas=tuple(kept), losses=tuple(losses), waiting=tuple(waiting))


def _still_held(replica: AssignedReplica, planned: Planned, free: FreeMap) -> str | None:
    """The first node of a replica behind its gates on which more is reserved than is free."""
    return None if replica.released else still_held(replica.assignment, planned, free)


def still_held(assignment: Assignment, planned: Planned, free: FreeMap) -> str | None:
    """The first node on which more is reserved than is free, once what everybody was promised is reserved."""
    nodes, me = free.fabric.nodes(), holder_name(planned.pool)
    known = (nodes[name] for name in assignment.nodes if name in nodes)
    return next((node.name for node in known if node.total - node.used < free.reserved(node.name, me)), None)


def tries_again_after_seconds(added: Iterable[Assignment], planned: Planned, free: FreeMap) -> float | None:
    """When the first of those that were assigned just now would have waited long enough."""
    return SCHEDULING_SECONDS if any(still_held(each, planned, free) is not None for each in added) else None


def _may_move(replica: AssignedReplica, planned: Planned, free: FreeMap, now: float) -> bool:
    """Whether it has waited long enough, and finds a place that nobody holds any more."""
    if now - replica.assignment.since < SCHEDULING_SECONDS or replica.assignment.revision != planned.revision:
        return False
    bound, holds = within_its_domain(replica.assignment, planned, free.fabric), _holds(replica, planned, free)
    return isinstance(slot_with(holds, bound, bound.spec.placement, free, ALONE), Slot)


def _holds(replica: AssignedReplica, planned: Planned, free: FreeMap) -> list[Hold]:
    return holds_of(planned.pool, replica.assignment, free.fabric)


def _given_up(replica: AssignedReplica, node: str) -> Loss:
    number = replica.assignment.replica
    told = f"replica {number} is placed anew: pods that leave {node} hold its GPUs too long, and others are free"
    return Loss(replica.assignment, Explanation(Reason.SlotTaken, told), counts=False)
