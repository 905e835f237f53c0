"""What a replica is worth that is split into smaller ones: their predicted capacity over that of the whole."""

from __future__ import annotations

from functools import cache
from typing import Any

from bench.shapes import RACKS
from weft.catalog import load
from weft.cli.plan.planning import plan_all

# The rule of thumb of docs/shapes.md for experts: a target so tight that a larger group of experts pays.
MODEL, ACCELERATOR = "deepseek-ai/DeepSeek-V3", RACKS.accelerator
WORKLOAD: dict[str, Any] = {"requestsPerSecond": 1, "inputTokens": {"mean": 1000}, "outputTokens": {"mean": 1000}}
SLO = {"ttft": {"p95": "10s"}, "tpot": {"p95": "25ms"}}
SIZES = (8, 16, 32, 64)
WORTH = 0.8  # GPUs that lose more than a fifth of their capacity by it are better left to others


@cache
def capacities() -> dict[int, float]:
    """Requests per second at the SLO of one replica whose experts are spread over so many GPUs."""
    return {gpus: _capacity(gpus) for gpus in SIZES}


def splits() -> dict[int, tuple[tuple[int, float], ...]]:
    """Of each size the numbers of equal parts to try, with the share of the capacity they have, the best first."""
    found: dict[int, tuple[tuple[int, float], ...]] = {}
    known = capacities()
    for whole, capacity in known.items():
        parts = [(whole // part, min(1.0, whole // part * known[part] / capacity)) for part in SIZES if part < whole]
        worth = sorted((each for each in parts if each[1] >= WORTH), key=lambda each: (-each[1], each[0]))
        if worth:
            found[whole] = tuple(worth)
    return found


def _capacity(gpus: int) -> float:
    spec = {
        "model": {"id": MODEL, "precision": "FP8", "maxModelLen": 16384},
        "workload": WORKLOAD,
        "slo": SLO,
        "shape": {"tensorParallel": 1, "dataParallel": gpus, "expertParallel": gpus},
        "scaling": {"maxReplicas": 1000},
    }
    resource = {"apiVersion": "weft.dev/v1alpha1", "kind": "InferencePool", "metadata": {"name": "split"}, "spec": spec}
    (planned,) = plan_all([resource], RACKS.world(), load(), 0.0)
    plan = planned.pools[0][1].status.plan
    if plan is None:
        raise ValueError(f"{MODEL} has no plan on {gpus} {ACCELERATOR}")
    return plan.prediction.capacity
