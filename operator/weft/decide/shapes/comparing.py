"""Two shapes of one pool beside each other: by the requests a second that so many replicas of each serve together.

Never by the capacity of one times their number: replicas that share a queue serve more (ADR 0113).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.decide.counting.worth import ROUNDING
from weft.decide.plans.left_shapes import comes_back
from weft.decide.rollouts.rollout import limits_of
from weft.decide.rollouts.terms import rollout_of
from weft.decide.shapes.at_maximum import MORE, wanted_within_the_hour
from weft.domain.scaling_spec import ScalingMode

if TYPE_CHECKING:
    from weft.decide.course import Growth, Turn


def part_served(new: Turn, count: int, old: Turn, wants: tuple[int, int]) -> float:
    """The part (0 to 1) that `count` new replicas serve of what all wanted replicas of the old shape would serve.

    `wants` are the replicas that are wanted of the new shape and of the old one.
    """
    (enough, wanted), capacity = wants, old.planned.capacity
    if wanted < 1 or capacity.alone <= 0:
        return 1.0
    served = new.planned.capacity.of(count)
    if count >= enough and served > capacity.of(wanted - 1):
        return 1.0  # what is wanted was rounded up to whole replicas in either shape
    return min(1.0, served / capacity.of(wanted))


def serves_the_rate(new: Turn, old: Turn) -> bool:
    """Whether the most replicas allowed of the new shape serve the declared rate, or those of the earlier one do not.

    Otherwise the earlier shape would be chosen again at once.
    """
    rate, served = new.planned.spec.workload.requests_per_second, []
    for turn in (new, old):
        shape, scaling = turn.planned.plan.shape, turn.planned.spec.scaling
        served.append(turn.planned.declared.of(scaling.affordable(shape.gpus, shape.pods)))
    return served[0] >= rate * (1.0 - ROUNDING) or served[1] < rate


def never_serves_less(new: Turn, old: Turn) -> bool:
    """Whether the replicas that a rollout keeps available serve at least what serves now.

    They may not, as the desired count may reach what is wanted in several steps.
    """
    rollout, desired = rollout_of(new), new.scale.desired
    least = desired - limits_of(rollout, desired, new.scale.needed).unavailable
    return new.planned.capacity.of(least) >= old.planned.capacity.of(len(old.survivors.replicas)) - ROUNDING


def come_first(new: Turn, old: Turn, most: int) -> int:
    """How many of the `most` new replicas that have a place start before the first one of the earlier shape leaves."""
    before, now = old.planned.declared.alone, new.planned.declared.alone
    worth = len(old.survivors.replicas) * min(1.0, before / now if now > 0 else 1.0)
    surge = limits_of(rollout_of(new), new.scale.desired).surge
    return max(1, min(most, math.floor(new.scale.desired + surge - worth + ROUNDING)))


def wanted_at_once(growth: Growth, rate: float) -> float:
    """Replicas that serve `rate` requests/s, and no fewer than are missing; at least 1."""
    capacity = growth.planned.capacity
    return max(1.0, growth.missing, math.floor(capacity.exactly(rate) + ROUNDING) if capacity.alone > 0 else 0.0)


def as_many_as_serve_now(turn: Turn) -> int:
    """Replicas of the new shape that serve what serves now, at least 1 and at most the desired count.

    Back in a shape that was too small, it is a quarter more than the most of what serves now, what is wanted and
    what the last hour needed, as far as the spec allows. With fewer the shape would soon be left again.
    """
    before, now = turn.planned.before, turn.planned.declared
    if before is None or now.alone <= 0:
        return 1
    have = len(turn.survivors.replicas)
    if comes_back(turn.planned):
        scaling, shape = turn.planned.spec.scaling, turn.planned.plan.shape
        most = max(now.exactly(before.of(have)), just_wanted(turn), wanted_within_the_hour(turn))
        return min(scaling.affordable(shape.gpus, shape.pods), math.ceil(MORE * most))
    return max(1, min(turn.scale.desired, now.instead_of(have, before)))


def just_wanted(turn: Turn) -> int:
    """How many of the desired replicas the last look wanted, and not only an earlier one in the window."""
    if turn.planned.spec.scaling.mode is ScalingMode.External or not turn.memory.wanted:
        return turn.scale.desired
    return min(turn.scale.desired, turn.memory.wanted[-1][1])
