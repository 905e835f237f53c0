"""By which limits a pool rolls now: those of its spec, with two exceptions.

No budget pays for a successor, or an endpoint picker is shown one generation of a split at a time.
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

    Nobody leaves for a revision of which no quota pays a replica: what lacks is told of the first one. Nor does anybody
    come where `maxGPUs` pays for none, so that nobody leaves a node before it goes.
    """
    spec = turn.planned.spec
    if turn.frozen or turn.barred:
        paused = turn.frozen or spec.rollout.paused
        return replace(spec.rollout, strategy=RolloutStrategy.Surge, max_surge=1, max_unavailable=0, paused=paused)
    whole = spec.has_sidecar and spec.rollout.strategy is not RolloutStrategy.Recreate
    if whole and rolls_as_a_pair(turn):
        return replace(spec.rollout, max_surge=1.0, max_unavailable=0)
    return spec.rollout
