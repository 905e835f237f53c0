"""What a fixed ratio between the pools of a split costs, where the mix of prompts and answers moves.

Both figures are fluid: replicas have fractions, start at once and are paid only while they are needed. What is wasted
is therefore the ceiling of what following the ratio can save, whatever else a policy does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from weft.twin.hindsight.oracle import PoolNeed

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class FixedRatio:
    """GPU-hours at the best fixed `ratio` of prefill to decode replicas, and where the ratio follows demand."""

    ratio: float
    fixed_hours: float
    following_hours: float

    @property
    def waste_percent(self) -> float:
        """By which the fixed one costs more."""
        return 100.0 * (self.fixed_hours / self.following_hours - 1.0)


def fixed_ratio(prefill: PoolNeed, decode: PoolNeed, bin_seconds: float) -> FixedRatio:
    """The best fixed ratio for what both pools need in each bin.

    At ratio r a bin that needs p and d replicas takes max(d, p / r) to decode and r times as many for prompts. The GPUs
    of all bins are convex in r, and between two ratios p / d of bins they are a + b r + c / r: the least is at such a
    ratio, or where the slope is zero between two. Raises `ValueError` where one of the pools is never needed.
    """
    both = prefill.needed.any() and decode.needed.any()
    if not both:
        raise ValueError("a ratio needs prompts and answers")
    some = decode.needed > 0.0
    own = prefill.needed[some] / decode.needed[some]
    order = np.argsort(own)
    above = prefill.needed.sum() - np.cumsum(
        prefill.needed[some][order]
    )  # of bins that need more prefill than the ratio
    below = np.cumsum(decode.needed[some][order])  # and of the others
    flat = np.sqrt(np.maximum(0.0, above) / below * (decode.gpus / prefill.gpus))
    ratios = np.clip(flat, own[order], np.append(own[order][1:], np.inf))
    ratios = ratios[ratios > 0.0]
    gpus = [_gpus(prefill, decode, ratio) for ratio in ratios.tolist()]
    best, to_hours = int(np.argmin(gpus)), bin_seconds / _HOUR
    following = float(prefill.gpus * prefill.needed.sum() + decode.gpus * decode.needed.sum())
    return FixedRatio(float(ratios[best]), gpus[best] * to_hours, following * to_hours)


def _gpus(prefill: PoolNeed, decode: PoolNeed, ratio: float) -> float:
    """Of all bins together."""
    decoding = np.maximum(decode.needed, prefill.needed / ratio)
    return float(decoding.sum() * (decode.gpus + ratio * prefill.gpus))
