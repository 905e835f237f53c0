"""Rollout limits in whole replicas: users write a number of them, or a percentage of the desired count."""

from __future__ import annotations

from math import ceil, floor

_ROUNDING = 1e-9  # 0.58 x 50 is a little less than 29


def rounded_up(limit: float, desired: int) -> int:
    """The limit in replicas: an integer as it is, a fraction of the desired count rounded up."""
    return limit if isinstance(limit, int) else ceil(limit * desired - _ROUNDING)


def rounded_down(limit: float, desired: int) -> int:
    """The limit in replicas: an integer as it is, a fraction of the desired count rounded down."""
    return limit if isinstance(limit, int) else floor(limit * desired + _ROUNDING)
