"""An engine on part of a GPU has its share of it in the twin, as in its plan, and one on whole GPUs has all of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.fabric.cluster import node
from tests.twin.simulated import OUTPUT, SLO, chat, setting
from weft.catalog import load
from weft.decide import decide
from weft.domain.snapshot import Snapshot
from weft.domain.workload import Workload
from weft.twin.simulation import SimulationSetting, simulate
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.shape import Prediction

INPUT = 4_000
REQUESTS = 20
WHOLE = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}
HALVES = {"nvidia.com/gpu.product": "NVIDIA-H200-MIG-3g.71gb", "nvidia.com/gpu.memory": "71424"}
SLICES = {
    **WHOLE,
    "nvidia.com/gpu.product": "NVIDIA-H200-SHARED",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
    "nvidia.com/gpu.replicas": "4",
}


def now_and_then(*nodes: NodeRecord) -> SimulationSetting:
    """Requests of one length that come one after the other, to a pool that expects just these."""
    arrivals = np.arange(REQUESTS, dtype=np.float64) * 20.0
    alike = np.ones(REQUESTS, dtype=np.int32)
    asked = replace(setting(Trace(arrivals, alike * INPUT, alike * OUTPUT)), nodes=nodes)
    pool = chat()
    assert pool.spec is not None
    workload = Workload(0.05, INPUT, OUTPUT, INPUT, OUTPUT)
    return replace(asked, pools=(replace(pool, spec=replace(pool.spec, workload=workload, slo=SLO)),))


def planned(asked: SimulationSetting) -> Prediction:
    """What the plan of its pool says."""
    (decision,) = decide(Snapshot(0.0, asked.pools, (), asked.nodes, ()), load()).pools
    assert decision.status.plan is not None
    return decision.status.plan.prediction


@pytest.mark.parametrize("labels", [WHOLE, HALVES, SLICES], ids=["whole", "half", "quarter"])
def test_the_twin_takes_as_long_as_the_plan_says_on_whole_gpus_and_on_parts(labels: dict[str, str]) -> None:
    asked = now_and_then(node("a", labels, 8))
    outcome, expected = simulate(asked), planned(asked)
    assert np.median(outcome.answers.ttft) == pytest.approx(expected.ttft.p50, rel=0.1)
    assert np.median(outcome.answers.tpot) == pytest.approx(expected.tpot.p50, rel=0.1)


def test_beside_whole_gpus_parts_make_nobody_slower() -> None:
    alone, beside = (simulate(now_and_then(*nodes)) for nodes in ((whole(),), (whole(), node("cut", HALVES, 8))))
    assert list(beside.answers.ttft) == list(alone.answers.ttft)


def whole() -> NodeRecord:
    """A node of whole GPUs."""
    return node("whole", WHOLE, 8)
