"""What it means for a split that earlier replicas stay: a new one may find no counterpart.

A pause keeps them, or limits by which none leaves before a new one serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.rollouts.pairing import is_earlier, rolls_as_a_pair
from weft.decide.rollouts.rollout import limits_of
from weft.decide.rollouts.terms import rollout_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Turn


def is_apart(turn: Turn, unit: Sequence[Turn]) -> bool:
    """Whether a half has no replica of the planned pair while a pause keeps earlier ones, in it or in the other half.

    The spec of those is gone, so that whoever comes is of the planned pair.
    """
    return _keeps_earlier_ones(turn, unit) and all(is_earlier(each, turn) for each in turn.survivors.replicas)


def comes_first(turn: Turn, unit: Sequence[Turn]) -> bool:
    """Whether a half has none of the planned pair, and no half lets an earlier one go before both have one."""
    if turn.asked is not None or not any(map(rolls_as_a_pair, unit)):
        return False
    unavailable = (limits_of(rollout_of(each), each.scale.desired).unavailable for each in unit)
    return all(is_earlier(each, turn) for each in turn.survivors.replicas) and max(unavailable) < 1


def is_hidden(turn: Turn, unit: Sequence[Turn]) -> bool:
    """Whether a pause keeps an endpoint picker on an earlier pair, so that nobody who comes is chosen."""
    planned = turn.planned
    return planned.spec.has_sidecar and planned.pool.shown != planned.spec.pair and _keeps_earlier_ones(turn, unit)


def _keeps_earlier_ones(turn: Turn, unit: Sequence[Turn]) -> bool:
    return rollout_of(turn).paused and any(rolls_as_a_pair(each) for each in unit)
