"""How sure a mean over a few seeds is."""

from __future__ import annotations

import math
from statistics import stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# 97.5 % quantiles of Student's t by degrees of freedom, from 1 on; more degrees take the last one, which is larger.
STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)


def interval(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of the mean; 0 for a single value, of which nothing is known."""
    if len(values) < 2:
        return 0.0
    quantile = STUDENT[min(len(values) - 2, len(STUDENT) - 1)]
    return quantile * stdev(values) / math.sqrt(len(values))
