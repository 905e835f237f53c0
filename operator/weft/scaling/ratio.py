"""Bounds of the ratio between the halves of a split: prefill replicas per decode replica."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

_ROUNDING = 1e-9  # 0.1 x 30 is a little more than 3


@dataclass(frozen=True, slots=True)
class RatioGuard:
    """Least and most prefill replicas per decode replica; None is no guard."""

    least: float | None = None
    most: float | None = None

    def __str__(self) -> str:
        """`ratio.min 5`, or both bounds."""
        named = (("min", self.least), ("max", self.most))
        return " and ".join(f"ratio.{name} {value:g}" for name, value in named if value is not None)

    def holds(self, prefill: int, decode: int) -> bool:
        """Whether these counts are within the ratio."""
        return prefill in self.beside(decode, range(prefill, prefill + 1))

    def beside(self, decode: int, allowed: range) -> range:
        """The allowed prefill counts beside so many decode replicas."""
        fewest = allowed.start if self.least is None else max(allowed.start, ceil(self.least * decode - _ROUNDING))
        beyond = allowed.stop if self.most is None else min(allowed.stop, floor(self.most * decode + _ROUNDING) + 1)
        return range(fewest, max(fewest, beyond))

    def nearest(self, wanted: tuple[int, int], prefill: range, decode: range) -> tuple[int, int] | None:
        """The counts within the ratio and the allowed ranges that fall least short of what is wanted, then the fewest.

        None where no counts do: ratios of small whole numbers are few.
        """
        pairs = []
        for beside in decode:
            possible = self.beside(beside, prefill)
            if possible:
                pairs.append((max(possible.start, min(possible.stop - 1, wanted[0])), beside))
        return min(pairs, key=lambda pair: (_lacking(pair, wanted), sum(pair), pair), default=None)


def _lacking(pair: tuple[int, int], wanted: tuple[int, int]) -> float:
    """Missing replicas of both halves, each as a fraction of what is wanted, in total."""
    return sum(max(0, want - count) / want for count, want in zip(pair, wanted, strict=True) if want > 0)
