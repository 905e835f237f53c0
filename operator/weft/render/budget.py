"""How many pods of a pool others may evict at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.domain import labels
from weft.render.metadata import child_metadata, pool_labels, signed
from weft.render.pod import COMPONENT, ENGINE_CONTAINER

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord
    from weft.render.metadata import Json

_LEAST_COUNTED = 2  # replicas where more are desired: of these one stays


def render_disruption_budget(pool: PoolRecord) -> Json:
    """A PodDisruptionBudget with an integer, the only form that works without a `/scale` that counts pods.

    One replica may be evicted, more where `maxUnavailable` says so: a budget that allows nothing would block every node
    drain for ever. Of replicas with several pods one pod goes at a time: it takes its whole replica along. Where there
    is no room for all replicas, one of those that had a place within the last hour may go, but never the last one.
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
    status, each = pool.status, _pods_each(pool)
    spared = 1 if each > 1 else max(1, replicas_spared(pool))
    kept = max(0, status.desired_replicas * each - spared)
    if status.placed_replicas is None:
        return kept
    return min(kept, max(_LEAST_COUNTED, status.placed_replicas) * each - 1)


def _pods_each(pool: PoolRecord) -> int:
    """Pods of a replica, as planned; of the widest one while some are of another shape."""
    planned = pool.status.plan.shape.pods if pool.status.plan is not None else 1
    return max([planned, *(assignment.pods for assignment in pool.status.assignments)])


def replicas_spared(pool: PoolRecord) -> int:
    """`rollout.maxUnavailable` in replicas; a fraction is rounded down."""
    if pool.spec is None:
        return 0
    limit = pool.spec.rollout.max_unavailable
    return limit if isinstance(limit, int) else math.floor(limit * pool.status.desired_replicas)
