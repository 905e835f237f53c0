"""How prompts share steps of an engine: those that wait together go together, as many as a step's tokens allow.

One rule for closed loops, open loops and requests that are all queued at once; they differ in how many wait together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_FEW = 1e-6  # prompts before a step


class Company(NamedTuple):
    """Prompts of a step that has any, prompts that a pipeline works on at a time, ranks of a group with a prompt."""

    sharing: float
    beside: float
    together: float


def prompts_of_a_step(came: float, per_step: float) -> float:
    """Prompts of a step that has any, where `came` come before one on average (at random) and `per_step` fill it."""
    return max(1.0, min(per_step, came / -math.expm1(-came))) if came > _FEW else 1.0


def ranks_together(chance: float, ranks: float) -> float:
    """Of ranks in lockstep, those that have a prompt in a step in which any has: N q / (1 - (1 - q)^N).

    Each has the same `chance` q of a prompt in a step, whatever the others have.
    """
    if chance >= 1.0:
        return ranks
    return ranks * chance / -math.expm1(ranks * math.log1p(-chance)) if chance > _FEW else 1.0
