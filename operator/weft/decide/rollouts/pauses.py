"""What a pause means for a split: it keeps replicas of an earlier pair, and a new one may find no counterpart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.rollouts.pairing import is_earlier, rolls_as_a_pair
from weft.decide.rollouts.terms import rollout_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Turn


def is_apart(turn: Turn, unit: Sequence[Turn]) -> bool:
    """Whether a half has no replica of the planned pair while a pause keeps earlier ones, in it or in the other half.

    The spec of those is gone, so that whoever comes is of the planned pair.
    """
    return _keeps_earlier_ones(turn, unit) and all(is_earlier(each, turn) for each in turn.survivors.replicas)


def is_hidden(turn: Turn, unit: Sequence[Turn]) -> bool:
    """Whether a pause keeps an endpoint picker on an earlier pair, so that nobody who comes is chosen."""
    planned = turn.planned
    return planned.spec.has_sidecar and planned.pool.shown != planned.spec.pair and _keeps_earlier_ones(turn, unit)


def _keeps_earlier_ones(turn: Turn, unit: Sequence[Turn]) -> bool:
    return rollout_of(turn).paused and any(rolls_as_a_pair(each) for each in unit)
