"""A limit of a rollout in whole replicas: users write a number of them, or a percentage of the desired count."""

from __future__ import annotations

from math import ceil, floor

_ROUNDING = 1e-9  # 0.58 x 50 is a little less than 29


def rounded_up(limit: float, desired: int) -> int:
    """Replicas of an integer as it is, of a fraction of the desired count at least as many."""
    return limit if isinstance(limit, int) else ceil(limit * desired - _ROUNDING)


def rounded_down(limit: float, desired: int) -> int:
    """The same, of a fraction at most as many."""
    return limit if isinstance(limit, int) else floor(limit * desired + _ROUNDING)
