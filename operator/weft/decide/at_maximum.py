"""Whether as many replicas of a shape as a pool may have serve what comes, with the headroom that its user wants.

By requests per second and not by whole replicas, of which one more is half as many again where two are allowed. What
they serve is a prediction on the safe side: a pool that meets its SLO is large enough, whatever is predicted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.decide.conditions import TRUE, UNKNOWN, slo_met
from weft.decide.judged import seen_of, targets_of
from weft.decide.kept_shapes import SHAPE_STAYS_SECONDS
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode
from weft.scaling.sight import GAP_SECONDS

if TYPE_CHECKING:
    from weft.decide.course import Turn
    from weft.decide.planning import Planned
    from weft.domain.scaling_spec import ScalingSpec
    from weft.domain.shape import Plan, Shape

# What a pool has to lack before all of it starts anew: a tenth of what it serves.
LACKS = 1.1
# What a change of shape has to be worth where more have no place, as every replica starts anew: a quarter.
MORE = 1.25
# How fast looks at latencies are forgotten: one is about a minute, in which few requests may end, or many come.
LOOKS_SECONDS = 120.0
# The part of these looks at which all targets are met, from which on the pool meets its SLO.
MOST_LOOKS = 0.5


def is_at_its_maximum(turn: Turn, now: float) -> bool:
    """Whether the pool has all replicas that it may have, wants more, and does not meet its SLO with them.

    Not where `maxGPUs` or a quota allows no more: a budget is one.
    """
    is_held = turn.scale.explanation.reason is Reason.AtMaximum
    if not is_held or len(turn.survivors.replicas) < turn.scale.desired:
        return False
    return turn.planned.capacity > 0 and not _meets_its_slo(turn, now)


def is_too_small_at_its_maximum(turn: Turn, now: float) -> bool:
    """Whether that is so, and a tenth more comes than all of them serve (ADR 0095)."""
    comes = _comes(turn, now) if is_at_its_maximum(turn, now) else None
    return comes is not None and comes >= LACKS * _serves_at_its_maximum(turn)


def met_lately(turn: Turn, now: float) -> tuple[float, float] | None:
    """Now (epoch seconds), and the part of the last looks at which all that was measured was within its target.

    Looks that measure nothing leave it as it was; None where none has measured anything.
    """
    spec, before = turn.planned.spec, turn.memory.met
    if before is not None and before[0] > now:  # the clock was set back
        before = None
    told = slo_met(targets_of(spec.role, spec.slo), seen_of(spec.role, turn.observation)).status
    if told == UNKNOWN:
        return before
    is_met = 1.0 if told == TRUE else 0.0
    if before is None:
        return now, is_met
    at, part = before
    return now, part - math.expm1((at - now) / LOOKS_SECONDS) * (is_met - part)


def _meets_its_slo(turn: Turn, now: float) -> bool:
    """Whether it does at most looks; where nobody measures, what is predicted has to do."""
    met = met_lately(turn, now)
    return met is not None and met[1] > MOST_LOOKS


def would_be_too_small_again(turn: Turn) -> bool:
    """Whether a pool that has outgrown its shape would go to a smaller one, which could not serve a quarter more.

    The one before or any other: by the declared rate all of them will do. Of what came in the last hour the most
    counts, or load that swings would change the shape with every swing; before a whole one was seen the pool stays.
    """
    planned, before = turn.planned, turn.planned.pool.status.plan
    if not has_outgrown_one(turn) or before is None:
        return False
    is_smaller = _predicted_at_its_maximum(planned, planned.plan) < _predicted_at_its_maximum(planned, before)
    if not is_smaller or planned.plan.verdict.reason is Reason.Outgrown:
        return False
    memory, scaling = turn.memory, planned.spec.scaling
    if not memory.came or memory.seen is None or memory.seen - memory.since < _remembered_seconds(scaling):
        return True
    return MORE * scaling.with_headroom(_most_that_came(turn)) > _serves_at_its_maximum(turn)


def has_outgrown_one(turn: Turn) -> bool:
    """Whether the pool left its last shape as that was too small; a count that somebody writes is theirs."""
    left = turn.planned.pool.status.left_shape
    return left is not None and left.outgrown and turn.planned.spec.scaling.mode is ScalingMode.Auto


def what_came(turn: Turn, now: float) -> tuple[tuple[float, float], ...]:
    """The last hour with this look. Only the most ever matters: earlier ones that a later one reaches go."""
    start, latest = now - _remembered_seconds(turn.planned.spec.scaling), _lasting(turn, now)
    known = [(at, rate) for at, rate in turn.memory.came if start <= at <= now]
    if latest is None:
        return tuple(known)
    return (*[each for each in known if each[1] > latest], (now, latest))


def wanted_within_the_hour(turn: Turn) -> int:
    """Replicas of the planned shape that the most of what came in the last hour needs; 0 where none serve it at all."""
    planned = turn.planned
    return planned.spec.scaling.needed(_most_that_came(turn), planned.capacity) if planned.capacity > 0 else 0


def _most_that_came(turn: Turn) -> float:
    return max((rate for _, rate in turn.memory.came), default=0.0)


def _remembered_seconds(scaling: ScalingSpec) -> float:
    return max(SHAPE_STAYS_SECONDS, scaling.scale_down_delay_seconds)


def wanted_at_its_maximum(turn: Turn) -> int:
    """As many replicas as would serve what comes; 0 where nobody tells."""
    rate = turn.memory.lasting
    return 0 if rate is None else turn.planned.spec.scaling.needed(rate, turn.planned.capacity)


def _lasting(turn: Turn, now: float) -> float | None:
    """Requests per second over the time that they stay; None where nobody has told all for a minute."""
    seen = turn.memory.seen
    return turn.memory.lasting if seen is not None and 0 <= now - seen <= GAP_SECONDS else None


def _comes(turn: Turn, now: float) -> float | None:
    """Requests per second, with headroom; without what piled up, which a larger shape would not have let pile up."""
    rate = _lasting(turn, now)
    return None if rate is None else turn.planned.spec.scaling.with_headroom(rate)


def _serves_at_its_maximum(turn: Turn) -> float:
    return _most(turn.planned, turn.planned.plan.shape) * turn.planned.capacity


def _predicted_at_its_maximum(planned: Planned, plan: Plan) -> float:
    return _most(planned, plan.shape) * plan.prediction.capacity


def _most(planned: Planned, shape: Shape) -> int:
    return planned.spec.scaling.affordable(shape.gpus, shape.pods)
