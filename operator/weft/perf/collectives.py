"""Bytes that tokens send to experts and get back, for uniform routing."""

from __future__ import annotations

_DISPATCH_BYTES = 1.0  # per element: activations travel to experts as FP8
_COMBINE_BYTES = 2.0  # and back as BF16


def ranks_hit(group: int, experts_per_token: int) -> float:
    """Distinct ranks of an expert group that hold one token's experts: e (1 - (1 - 1/e)^k), for uniform routing."""
    return group * (1.0 - (1.0 - 1.0 / group) ** experts_per_token)


def exchange_bytes_per_token(hidden: int, group: int, experts_per_token: int) -> float:
    """Bytes that one token sends to its experts and gets back."""
    return ranks_hit(group, experts_per_token) * hidden * (_DISPATCH_BYTES + _COMBINE_BYTES)
