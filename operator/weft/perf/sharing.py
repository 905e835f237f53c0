"""How prompts share engine steps: those that wait together go together, as many as a step's token budget allows.

One rule for closed loops, open loops and requests that are all queued at once; they differ in how many wait together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_FEW = 1e-6  # arrivals per step that are treated as none
_MANY = 100.0  # so many that one more hardly counts


class Company(NamedTuple):
    """Prompts per step that has any, prompts in a pipeline at a time, and ranks of a group that have a prompt."""

    sharing: float
    beside: float
    together: float


def prompts_of_a_step(came: float, per_step: float) -> float:
    """Mean prompts per step that has any, if `came` arrive per step on average (at random) and `per_step` fill it."""
    return max(1.0, min(per_step, came / -math.expm1(-came))) if came > _FEW else 1.0


def for_one_more(came: float) -> float:
    """What one more prompt adds to the chance that a step has any, over prompts per step, where `came` arrive in it.

    It is the part of what a step costs for having any that falls to one more, over the part that falls to each.
    """
    return came / math.expm1(came) if _FEW < came < _MANY else float(came <= _FEW)


def more_than(room: int, sharing: float) -> float:
    """The fraction of steps with more than `room` prompts where those that have any have `sharing` on average.

    The others of a step come at random: their number is a Poisson one.
    """
    others = sharing - 1.0
    term = left = math.exp(-others)
    for number in range(1, room):
        term *= others / number
        left += term
    return max(0.0, 1.0 - left) if room > 0 and others > 0.0 else float(room < 1)


def ranks_together(chance: float, ranks: float) -> float:
    """Ranks in lockstep that have a prompt in a step in which any has: N q / (1 - (1 - q)^N).

    Each has a prompt in a step with the same, independent probability `chance` q.
    """
    if chance >= 1.0:
        return ranks
    return ranks * chance / -math.expm1(ranks * math.log1p(-chance)) if chance > _FEW else 1.0
