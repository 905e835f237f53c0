"""Replicas that serve on nodes whose GPUs are out of sight: their shape is kept for a while (ADR 0088).

A device plugin that restarts takes the GPUs of its node out of the capacity, and labels that are written anew are gone
for as long. Engines run on, and nothing new has a place there. Where that is so on all nodes of a kind, a pool that may
use another one would roll there, and back a minute later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.decide.plans.wished_shapes import allows
from weft.domain.pool_memory import ScaleMemory
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.changed import changed
from weft.placement import leaves_domain
from weft.scaling import restored

if TYPE_CHECKING:
    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.health import AssignedReplica
    from weft.decide.replicas.roll import Roll
    from weft.domain.fabric import Fabric
    from weft.domain.shape import Shape
    from weft.domain.snapshot import PoolRecord

# As long as Kubernetes lets pods stay on a node that does not answer. Plugins that restart are back within a minute.
VANISHED_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Vanished:
    """Since when the GPUs under replicas that serve are out of sight, and why no other shape is chosen yet, or None."""

    since: float
    why: Explanation | None


def vanished_under(
    planned: Planned, shape: Shape, roll: Roll, fabric: Fabric, memory: ScaleMemory | None
) -> Vanished | None:
    """The vanished GPUs of a pool that would leave a shape in which it serves and which its spec allows, or None."""
    if planned.plan.shape == shape or not allows(planned.spec, shape):
        return None
    what = next(filter(None, (_not_seen(each, shape, roll, fabric) for each in _in_it(planned.pool, roll))), None)
    if what is None:
        return None
    since = roll.now if memory is None or memory.vanished_since is None else min(roll.now, memory.vanished_since)
    told = Explanation(Reason.NoAccelerator, f"{what}; its shape is kept unless that lasts for {VANISHED_SECONDS:g} s")
    return Vanished(since, told if roll.heard - since < VANISHED_SECONDS else None)


def _in_it(pool: PoolRecord, roll: Roll) -> list[AssignedReplica]:
    """Replicas that serve in the shape of the status: where some have its revision, others may be of another kind."""
    serving = [each for each in roll.replicas(pool) if each.ready]
    return [each for each in serving if each.assignment.revision == pool.status.revision] or serving


def remembered_since(
    pool: PoolRecord, known: ScaleMemory | None, since: float | None, now: float
) -> ScaleMemory | None:
    """What was known of a pool, with since when its GPUs are out of sight; a new process begins with that."""
    if known is None and since is not None:
        known = ScaleMemory(now, forecast=restored(pool.status.forecast, now))
    return known if known is None or known.vanished_since == since else changed(known, vanished_since=since)


def again_seconds(since: float | None, now: float) -> float | None:
    """When another shape is chosen for a pool that is kept in its own."""
    return None if since is None else since + VANISHED_SECONDS - now


def _not_seen(replica: AssignedReplica, shape: Shape, roll: Roll, fabric: Fabric) -> str | None:
    """What nodes do not show of a replica that serves: devices of its kind, or that they share an NVLink domain.

    One of which a node is gone is no matter of sight.
    """
    if roll.machines.gone(replica.nodes):
        return None
    seen, serves = fabric.nodes(), f"replica {replica.assignment.replica} serves, though"
    for name in replica.nodes:
        node = seen.get(name)
        there = 0 if node is None or node.accelerator != shape.accelerator else node.installed
        if there < replica.assignment.gpus_per_pod:
            return f"{serves} node {name} shows no {shape.accelerator} for it any more"
    split = leaves_domain(replica.assignment, shape, fabric)
    return f"{serves} its nodes share no NVLink domain any more" if split else None
