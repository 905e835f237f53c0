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


def render_disruption_budget(pool: PoolRecord) -> Json:
    """A PodDisruptionBudget with an integer, the only form that works without a `/scale` that counts pods.

    One replica may always be evicted, more where `maxUnavailable` says so: a budget that allows nothing would block
    every node drain for ever. Of replicas with several pods one pod goes at a time: it takes its whole replica along.
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
    desired = pool.status.desired_replicas
    pods = pool.status.plan.shape.pods if pool.status.plan is not None else 1
    if pods > 1:
        return max(0, desired * pods - 1)
    return max(0, desired - max(1, replicas_spared(pool)))


def replicas_spared(pool: PoolRecord) -> int:
    """`rollout.maxUnavailable` in replicas; a fraction is rounded down."""
    if pool.spec is None:
        return 0
    limit = pool.spec.rollout.max_unavailable
    return limit if isinstance(limit, int) else math.floor(limit * pool.status.desired_replicas)
