"""How far predictions are off after a running deployment was measured, and how many measurements that takes.

Of 873 published rows of deployments with one other measured load (docs/accuracy.md, after one live point), four of five
lie within 1.11 of the predicted TPOT after that one error is divided out, and within 1.27 of the TTFT (1.24 for dense
models, 1.31 with experts).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.catalog.uncertainty import Spread
    from weft.domain.shape import Calibration

ENOUGH_POINTS = 10
_TTFT, _TPOT = 1.3, 1.12
_CARE = 1.05  # margin beyond a measured tail, which is followed slowly


def calibrated_spread(known: Spread, own: Calibration) -> Spread:
    """What remains of a spread after measurements: the measured tails, else at most what is usual at that point."""
    ttft = min(known.ttft, _TTFT) if own.prompt_points >= ENOUGH_POINTS else known.ttft
    tpot = min(known.tpot, _TPOT) if own.points >= ENOUGH_POINTS else known.tpot
    return replace(known, ttft=_measured(own.ttft_tail, ttft), tpot=_measured(own.tpot_tail, tpot))


def _measured(tail: float | None, otherwise: float) -> float:
    return otherwise if tail is None else _CARE * tail
