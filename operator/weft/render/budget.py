"""How many pods of a pool may be evicted at once."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from weft.domain import labels
from weft.domain.rollout_limits import rounded_down
from weft.render.metadata import child_metadata, pool_labels, signed
from weft.render.pod import COMPONENT, ENGINE_CONTAINER

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord
    from weft.render.metadata import Json

_LEAST_COUNTED = 2  # replicas, if more are desired: one of these stays


def render_disruption_budget(pool: PoolRecord) -> Json:
    """A PodDisruptionBudget with an integer, the only form that works without a `/scale` that counts pods.

    One replica may be evicted, more if `maxUnavailable` allows: a budget that allows nothing would block node drains
    for ever. Of replicas with several pods one pod goes at a time, as it takes its replica along. If there is no room
    for all replicas, one of those that had a place within the last hour may go, but never the last one.
    """
    spec = {
        "minAvailable": pods_kept(pool),
        "unhealthyPodEvictionPolicy": "AlwaysAllow",  # a broken engine must not hold up a node drain
        "selector": {"matchLabels": {labels.POOL_UID: pool.key.uid, COMPONENT: ENGINE_CONTAINER}},
    }
    meta = child_metadata(pool.key.name, pool.key, pool_labels(pool))
    return signed({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": spec})


def pods_kept(pool: PoolRecord) -> int:
    """`minAvailable`, in pods."""
    status, widths = pool.status, _widths(pool)
    spared = 1 if widths[0] > 1 else max(1, replicas_spared(pool))
    kept = max(0, _pods_of(_as_many_as_serve(pool), widths) - spared)
    if status.placed_replicas is None:
        return kept
    return min(kept, _pods_of(max(_LEAST_COUNTED, status.placed_replicas), widths) - 1)


def _as_many_as_serve(pool: PoolRecord) -> int:
    """How many existing replicas equal the desired ones; of smaller ones, as many as have the same GPUs (ADR 0071).

    The smallest are counted first, as nobody knows which are evicted. Missing replicas are not counted, so that one may
    go however long a rollout takes.
    """
    status = pool.status
    if status.plan is None:
        return status.desired_replicas
    one = status.plan.shape.gpus
    sums = accumulate(sorted(min(one, each.gpus_per_pod * each.pods) for each in status.assignments))
    too_few = sum(gpus < status.desired_replicas * one for gpus in sums)
    return max(status.desired_replicas, min(too_few + 1, len(status.assignments)))


def _widths(pool: PoolRecord) -> list[int]:
    """Pods per replica: first of one yet to be assigned, then of the assigned ones, the widest first.

    While some have another shape than planned, missing ones count as the widest, which may still be draining.
    """
    planned = pool.status.plan.shape.pods if pool.status.plan is not None else 1
    assigned = sorted((assignment.pods for assignment in pool.status.assignments), reverse=True)
    return [max([planned, *assigned]), *assigned]


def _pods_of(replicas: int, widths: list[int]) -> int:
    """The pods of this many replicas, the widest first."""
    next_one, *assigned = widths
    return sum(assigned[:replicas]) + max(0, replicas - len(assigned)) * next_one


def replicas_spared(pool: PoolRecord) -> int:
    """`rollout.maxUnavailable` in replicas, rounded as for rollouts."""
    return 0 if pool.spec is None else rounded_down(pool.spec.rollout.max_unavailable, pool.status.desired_replicas)
