"""Replicas whose node does not answer: given up where that buys a successor, else waited for (ADR 0085).

Their engines may run on. Pods that are deleted meanwhile end as soon as their node answers again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.decide.replicas.promises import held_by, holder_name
from weft.decide.replicas.slots import have_room, slots_of
from weft.engines.kv.host_memory import pod_memory
from weft.placement import Hold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.health import AssignedReplica, Loss
    from weft.domain.snapshot import PoolRecord
    from weft.placement import FreeMap


@dataclass(frozen=True, slots=True)
class Judging:
    """What the replicas of one pool are judged with: all of them, and the pools that may have to make room.

    `silent` are nodes that do not answer.
    """

    planned: Planned
    replicas: tuple[AssignedReplica, ...]
    pools: tuple[PoolRecord, ...]  # everyone's
    silent: frozenset[str]
    free: FreeMap


def given_up(replica: AssignedReplica, loss: Loss | None, others: int, judging: Judging) -> Loss | None:
    """The loss, unless the replica may come back and nothing has room for its successor beside those of `others`.

    Kubernetes takes its pods away where it deems the node lost, after five minutes by default; not where so many are
    silent that it takes that for a fault of its own.
    """
    planned, free = judging.planned, judging.free
    if loss is None or not loss.may_come_back or loss.assignment.handover is not None:
        return loss
    serving = sum(each.ready for each in judging.replicas)
    has_its_successor = serving >= planned.pool.status.desired_replicas
    if has_its_successor or _may_take_places(judging) or (serving == 0 and _may_change_its_shape(planned, free)):
        return loss
    holds = (*free.vacated(holder_name(planned.pool)), *held_by(planned.pool, replica.pods, free.fabric))
    return loss if have_room(others + 1, planned, holds, free) else None


def promised_to_successors(losses: Sequence[Loss], judging: Judging) -> tuple[Hold, ...]:
    """Where those go that replace what was given up on silent nodes, so that no other pool gives up one for that place.

    The caller reserves them until all pools are judged. There are none where nothing was given up, or nothing lacks.
    """
    planned, free = judging.planned, judging.free
    serving = sum(each.ready for each in judging.replicas)
    given = any(loss.may_come_back and loss.assignment.handover is None for loss in losses)
    if not given or serving >= planned.pool.status.desired_replicas:
        return ()
    shape, holder = planned.plan.shape, holder_name(planned.pool)
    slots = slots_of(len(losses), planned, free.vacated(holder), free)
    joins = int(shape.pods > 1 or bool(planned.spec.placement.nvlink_domain))
    memory = pod_memory(planned.spec, planned.plan)
    return tuple(Hold(node, shape.gpus_per_pod, holder, joins, memory) for slot in slots for node in slot.nodes)


def _may_take_places(judging: Judging) -> bool:
    """Whether pools of lower priority may have to make room, on nodes that answer."""
    mine = judging.planned.pool
    lower = (pool for pool in judging.pools if pool.priority < mine.priority) if mine.preempts else ()
    return any(judging.silent.isdisjoint(each.nodes) for pool in lower for each in pool.status.assignments)


def _may_change_its_shape(planned: Planned, free: FreeMap) -> bool:
    """Whether another shape may have room, which a pool that has nothing else takes."""
    spec = planned.spec
    if spec.shape.tensor_parallel is not None:
        return False
    nodes = (node for node in free.fabric.nodes().values() if node.unusable is None and free.on(node.name) > 0)
    return any(spec.placement.allows(node.accelerator) for node in nodes)
