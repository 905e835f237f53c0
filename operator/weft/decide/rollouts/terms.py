"""By which limits a pool rolls now: those of its spec, with three exceptions.

No budget pays for a successor, an endpoint picker is shown one generation of a split at a time, or it is no rollout:
Recreate ends all replicas for a new revision, and not since the nodes of some are drained (ADR 0058).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.rollouts.pairing import rolls_as_a_pair
from weft.domain.spec import RolloutStrategy

if TYPE_CHECKING:
    from weft.decide.course import Turn
    from weft.domain.spec import RolloutSpec


def rollout_of(turn: Turn) -> RolloutSpec:
    """The limits by which it rolls: a generation that is shown whole comes beside the one before, all of it.

    Nobody leaves for a revision of which no quota pays a replica, that asks of nodes what none has, or names a queue
    that is not there: what lacks is told of the first one. Nor does anybody come where `maxGPUs` pays for none, so that
    nobody leaves a node before it goes.
    """
    spec = turn.planned.spec
    if turn.frozen or turn.barred:
        paused = turn.frozen or spec.rollout.paused
        return replace(spec.rollout, strategy=RolloutStrategy.Surge, max_surge=1, max_unavailable=0, paused=paused)
    whole = spec.has_sidecar and spec.rollout.strategy is not RolloutStrategy.Recreate
    if whole and rolls_as_a_pair(turn):
        return replace(spec.rollout, max_surge=1.0, max_unavailable=0)
    if spec.rollout.strategy is RolloutStrategy.Recreate and not (recreates(turn) and _has_earlier_ones(turn)):
        return replace(spec.rollout, strategy=RolloutStrategy.Surge)
    return spec.rollout


def recreates(turn: Turn) -> bool:
    """Whether a new revision ends all replicas of the earlier one, and comes once their pods are gone."""
    rollout = turn.planned.spec.rollout
    held = turn.frozen or turn.barred or rollout.paused
    return rollout.strategy is RolloutStrategy.Recreate and not held


def _has_earlier_ones(turn: Turn) -> bool:
    return any(each.assignment.revision != turn.planned.revision for each in turn.survivors.replicas)
