"""How few and how many replicas a pool may have, whatever is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from weft.scaling.demand import ScaleRequest

# A status object must stay far below the API server's limit (design section 4).
MOST_REPLICAS = 1_000
MOST_NODES = 2_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and most replicas, and what sets the upper bound."""

    least: int
    most: int
    at_most: Explanation

    def clamp(self, replicas: int) -> int:
        """The nearest allowed count."""
        return max(self.least, min(self.most, replicas))


def bounds_of(request: ScaleRequest) -> Bounds:
    """MinReplicas to maxReplicas, cut by `maxGPUs` (which wins over minReplicas) and by what a status can hold."""
    spec = request.spec
    limits = [
        (
            max(1, spec.max_replicas),
            Explanation(Reason.AtMaximum, f"demand asks for more than maxReplicas {spec.max_replicas}"),
        ),
        (
            min(MOST_REPLICAS, MOST_NODES // max(1, request.pods)),
            Explanation(Reason.AtMaximum, f"a pool holds at most {MOST_REPLICAS} replicas and {MOST_NODES} nodes"),
        ),
    ]
    if spec.max_gpus is not None:
        affordable = spec.max_gpus // max(1, request.gpus)
        message = f"maxGPUs {spec.max_gpus} allows {affordable} replicas of {request.gpus} GPUs; demand asks for more"
        limits.append((affordable, Explanation(Reason.BudgetExhausted, message)))
    most, explanation = min(limits, key=lambda limit: limit[0])
    return Bounds(max(0, min(spec.min_replicas, most)), max(0, most), explanation)
