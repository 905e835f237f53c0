"""The least and most replicas that a pool may have, whatever the demand."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import MOST_NODES, MOST_REPLICAS, ScalingMode
from weft.domain.texts.figures import counted

if TYPE_CHECKING:
    from weft.domain.scaling_spec import ScalingSpec
    from weft.scaling.sight import Ceiling, ScaleRequest

REMEMBERED = 4096  # cached combinations of spec, GPUs and pods


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least and most replicas, and what sets the upper bound.

    `shortfall` is set where the budget does not cover the spec's fewest replicas, and says which budget would.
    """

    least: int
    most: int
    at_most: Explanation
    shortfall: Explanation | None = None

    def clamp(self, replicas: int) -> int:
        """The nearest allowed count."""
        return max(self.least, min(self.most, replicas))


def bounds_of(request: ScaleRequest) -> Bounds:
    """From minReplicas to maxReplicas, cut by budgets (which win over minReplicas) and by how much a status can hold.

    Where the budget allows fewer than the spec's fewest, `shortfall` says so in the condition Placed.
    """
    own = _bounds(request.spec, request.gpus, request.pods)
    return own if request.ceiling is None else _under(request.ceiling, own, request.spec)


def own_bounds_of(request: ScaleRequest) -> Bounds:
    """The same without budgets that pools share: those are shared out between the halves of a split already."""
    return _bounds(request.spec, request.gpus, request.pods)


def _under(ceiling: Ceiling, own: Bounds, spec: ScalingSpec) -> Bounds:
    """The bounds of a pool that shares a budget; the tighter one gives the reason."""
    if ceiling.replicas >= own.most:
        return own
    fewest = spec.replicas if spec.mode is ScalingMode.External and spec.replicas is not None else spec.min_replicas
    shortfall = ceiling.why if ceiling.replicas < max(1, fewest) else own.shortfall
    return replace(
        own, least=min(own.least, ceiling.replicas), most=ceiling.replicas, at_most=ceiling.why, shortfall=shortfall
    )


@functools.lru_cache(maxsize=REMEMBERED)
def _bounds(spec: ScalingSpec, gpus: int, pods: int) -> Bounds:
    most = max(0, spec.affordable(gpus, pods))
    at_most, shortfall = _what_allows_no_more(spec, max(1, gpus), most), _shortfall(spec, max(1, gpus))
    return Bounds(min(spec.min_replicas, most), most, at_most, shortfall)


def _what_allows_no_more(spec: ScalingSpec, gpus: int, most: int) -> Explanation:
    """Explain which of the limits in `ScalingSpec.affordable` set the upper bound."""
    if most >= spec.max_replicas:
        goes = "the pool changes to a shape whose replicas serve more, if one is allowed and has room"
        lasts = f"if that lasts and the SLO is missed, {goes}"
        return Explanation(Reason.AtMaximum, f"demand needs more than maxReplicas {spec.max_replicas}; {lasts}")
    if spec.max_gpus is None or most < spec.max_gpus // gpus:
        told = f"a pool holds at most {MOST_REPLICAS} replicas and {MOST_NODES} nodes"
        return Explanation(Reason.AtMaximum, told)
    return Explanation(Reason.BudgetExhausted, f"{_allowed(spec.max_gpus, gpus)}; demand needs more")


def _allowed(max_gpus: int, gpus: int) -> str:
    return f"spec.scaling.maxGPUs {max_gpus} allows {counted(max_gpus // gpus, 'replica')} of {counted(gpus, 'GPU')}"


def _shortfall(spec: ScalingSpec, gpus: int) -> Explanation | None:
    fewest = max(1, spec.min_replicas)
    if spec.max_gpus is None or spec.max_gpus >= fewest * gpus:
        return None
    lower = f", fewer than minReplicas {fewest}: raise it to {fewest * gpus} or lower minReplicas"
    wish = lower if fewest > 1 else f": raise it to at least {gpus}"
    return Explanation(Reason.BudgetExhausted, f"{_allowed(spec.max_gpus, gpus)}{wish}")
