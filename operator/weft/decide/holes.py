"""Which shape the holes in the fabric allow.

Where the best shape has no place at all, a pool that runs nothing takes the next in rank that has one: half of what was
wanted serves, and nothing does not. A pool that runs keeps its shape until the better one has a place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from weft.decide.growth import NOTHING, Growth, place
from weft.decide.promises import held_by
from weft.decide.rollout import limits_of
from weft.domain.reasons import Explanation, Reason
from weft.placement import ALONE, Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Course, Turn
    from weft.domain.shape import Candidate, Shape
    from weft.placement import FreeMap, Hold

_SERVES = frozenset({Reason.CostsMore, Reason.SimplerWins, Reason.AtMaximum, Reason.ShapeKept})


class Replan(Protocol):
    """The same turn in another shape, with why; None where the spec, the model or the engine does not allow that."""

    def __call__(self, turn: Turn, shape: Shape, why: Explanation) -> Turn | None:
        """Plan and count anew."""


def shape_with_a_place(course: Course, free: FreeMap, replan: Replan) -> Turn | None:
    """The turn in the first shape in rank that has a place, where the best has none and nothing runs; else None."""
    growth, turn = course.growth, course.turn
    if growth.kept or growth.missing < 1 or turn.asked is not None or isinstance(place(growth, free, ALONE), Slot):
        return None
    plan = turn.planned.plan
    why = Explanation(Reason.HolesTooSmall, f"{plan.shape} would be better, but nothing has room for it: {_cost(turn)}")
    for each in filter(_serves, plan.alternatives):
        other = replan(turn, each.shape, why)
        if other is not None and _has_a_place(other, free):
            return other
    return None


def kept_for_want_of_room(turn: Turn, free: FreeMap, replan: Replan) -> Turn:
    """The turn in the running shape, where the planned one has no place beside it."""
    planned, before = turn.planned, turn.planned.pool.status.plan
    if before is None or before.shape == planned.plan.shape or not turn.survivors.replicas or turn.asked is not None:
        return turn
    if _has_a_place(turn, free, _given_up(turn, free)):
        return turn
    message = f"{planned.plan.shape} would be better, but nothing has room for it: {_cost(turn)}"
    return replan(turn, before.shape, Explanation(Reason.HolesTooSmall, message)) or turn


def _has_a_place(turn: Turn, free: FreeMap, more: Sequence[Hold] = NOTHING) -> bool:
    growth = Growth(turn.planned, turn.scale.desired, [], 1, 0)
    with free.supposing():
        for hold in more:
            free.shift(hold.node, hold.gpus, -hold.joins)
        return isinstance(place(growth, free, ALONE), Slot)


def _given_up(turn: Turn, free: FreeMap) -> Sequence[Hold]:
    """What the pool itself holds, where its rollout may make replicas unavailable."""
    if limits_of(turn.planned.spec.rollout, turn.scale.desired).unavailable < 1:
        return NOTHING
    pods = [pod for replica in turn.survivors.replicas for pod in replica.pods]
    return held_by(turn.planned.pool, pods, free.fabric)


def _serves(candidate: Candidate) -> bool:
    """Whether it met the SLO, and so lost by cost alone."""
    return candidate.prediction is not None and candidate.verdict.reason in _SERVES


def _cost(turn: Turn) -> str:
    return turn.planned.plan.verdict.message
