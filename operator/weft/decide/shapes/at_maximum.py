"""Whether the most replicas of a shape that a pool may have serve its traffic, with the headroom that its user wants.

Requests per second are compared and not whole replicas: where two are allowed, a third is half as many again. Predicted
capacity errs on the safe side: a pool that meets its SLO is large enough, whatever is predicted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.decide.measured.judged import slo_met
from weft.decide.plans.kept_shapes import SHAPE_STAYS_SECONDS
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.status import TRUE, UNKNOWN
from weft.scaling.sight import GAP_SECONDS

if TYPE_CHECKING:
    from weft.decide.course import Turn
    from weft.decide.plans.planning import Planned
    from weft.domain.capacity import Capacity
    from weft.domain.scaling_spec import ScalingSpec
    from weft.domain.shape import Plan

# By how much the wanted rate must exceed what a pool serves before all its replicas start anew: a tenth.
LACKS = 1.1
# How much more another shape must serve where places are lacking, as every replica starts anew: a quarter.
MORE = 1.25
# Time constant of the memory of latencies: a look covers about a minute, in which few requests may end, or many come.
LOOKS_SECONDS = 120.0
# The pool meets its SLO where more than this part of the looks met all targets.
MOST_LOOKS = 0.5


def is_at_its_maximum(turn: Turn, now: float) -> bool:
    """Whether the pool has all replicas that it may have, wants more, and does not meet its SLO with them.

    False where `maxGPUs` or a quota is what allows no more: that is a budget and no maximum of replicas.
    """
    is_held = turn.scale.explanation.reason is Reason.AtMaximum
    if not is_held or len(turn.survivors.replicas) < turn.scale.desired:
        return False
    return turn.planned.capacity.alone > 0 and not _meets_its_slo(turn, now)


def is_too_small_at_its_maximum(turn: Turn, now: float) -> bool:
    """Whether the pool is at its maximum, and traffic with headroom exceeds what it serves by a tenth (ADR 0095)."""
    comes = _comes(turn, now) if is_at_its_maximum(turn, now) else None
    return comes is not None and comes >= LACKS * _serves_at_its_maximum(turn)


def met_lately(turn: Turn, now: float) -> tuple[float, float] | None:
    """The time (epoch seconds) and the part (0 to 1) of recent looks at which all measured latencies met their targets.

    Looks that measure nothing leave both as they were; None where none has measured anything.
    """
    spec, before = turn.planned.spec, turn.memory.met_slo_lately
    if before is not None and before[0] > now:  # the clock was set back
        before = None
    told = slo_met(spec.role, spec.slo, turn.observation).status
    if told == UNKNOWN:
        return before
    is_met = 1.0 if told == TRUE else 0.0
    if before is None:
        return now, is_met
    at, part = before
    return now, part - math.expm1((at - now) / LOOKS_SECONDS) * (is_met - part)


def _meets_its_slo(turn: Turn, now: float) -> bool:
    """Whether most recent looks met all targets; False where nothing is measured, so that predictions decide."""
    met = met_lately(turn, now)
    return met is not None and met[1] > MOST_LOOKS


def would_be_too_small_again(turn: Turn) -> bool:
    """Whether a pool that outgrew a shape would go to a smaller one that does not serve its traffic and a quarter more.

    Any smaller shape counts, as all of them serve the declared rate. Traffic is the highest of the last hour, or load
    that swings would change the shape with every swing; True before a whole hour was seen.
    """
    planned, earlier = turn.planned, turn.planned.earlier
    if not has_outgrown_one(turn) or earlier is None:
        return False
    is_smaller = _at_its_maximum(planned, planned.plan, planned.declared) < _at_its_maximum(planned, *earlier)
    if not is_smaller or planned.plan.verdict.reason is Reason.Outgrown:
        return False
    memory, scaling = turn.memory, planned.spec.scaling
    if not memory.came_lately or memory.seen is None or memory.seen - memory.since < _remembered_seconds(scaling):
        return True
    return MORE * scaling.with_headroom(_most_that_came(turn)) > _serves_at_its_maximum(turn)


def has_outgrown_one(turn: Turn) -> bool:
    """Whether the pool left its last shape because it was too small; False where others own the count (External)."""
    left = turn.planned.pool.status.left_shape
    return left is not None and left.outgrown and turn.planned.spec.scaling.mode is ScalingMode.Auto


def what_came(turn: Turn, now: float) -> tuple[tuple[float, float], ...]:
    """(Epoch seconds, requests per second) of the last hour, or of `scaleDownDelay` if longer, this look included.

    Only the highest rate matters, so earlier ones that a later one reaches are dropped.
    """
    start, latest = now - _remembered_seconds(turn.planned.spec.scaling), _lasting(turn, now)
    known = [(at, rate) for at, rate in turn.memory.came_lately if start <= at <= now]
    if latest is None:
        return tuple(known)
    return (*[each for each in known if each[1] > latest], (now, latest))


def wanted_within_the_hour(turn: Turn) -> int:
    """Replicas of the planned shape that the highest traffic of the last hour needs; 0 where its capacity is zero."""
    planned = turn.planned
    return planned.needed(_most_that_came(turn)) if planned.capacity.alone > 0 else 0


def _most_that_came(turn: Turn) -> float:
    return max((rate for _, rate in turn.memory.came_lately), default=0.0)


def _remembered_seconds(scaling: ScalingSpec) -> float:
    return max(SHAPE_STAYS_SECONDS, scaling.scale_down_delay_seconds)


def wanted_at_its_maximum(turn: Turn) -> int:
    """Replicas that would serve the lasting traffic, with headroom; 0 where that is not known."""
    rate = turn.memory.lasting
    return 0 if rate is None else turn.planned.needed(rate)


def _lasting(turn: Turn, now: float) -> float | None:
    """Requests per second averaged over the time that requests take; None if the last full measurement is too old."""
    seen = turn.memory.seen
    return turn.memory.lasting if seen is not None and 0 <= now - seen <= GAP_SECONDS else None


def _comes(turn: Turn, now: float) -> float | None:
    """Lasting requests per second with headroom, without the backlog: a larger shape would not have let it pile up."""
    rate = _lasting(turn, now)
    return None if rate is None else turn.planned.spec.scaling.with_headroom(rate)


def _serves_at_its_maximum(turn: Turn) -> float:
    return _at_its_maximum(turn.planned, turn.planned.plan, turn.planned.capacity)


def _at_its_maximum(planned: Planned, plan: Plan, capacity: Capacity) -> float:
    return capacity.of(planned.spec.scaling.affordable(plan.shape.gpus, plan.shape.pods))
