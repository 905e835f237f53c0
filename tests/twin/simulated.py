"""Settings of small simulations: long prompts, so that a few requests a second fill a replica."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.decide.world import pool, pool_spec
from tests.fabric.cluster import board, with_rdma
from weft.api import parse_split
from weft.catalog import load
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.workload import Slo, Workload
from weft.twin.serving.stream import Route, Stream
from weft.twin.simulation import SimulationSetting
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.snapshot import PoolRecord
    from weft.twin.policies.policy import PoolView

INPUT, OUTPUT = 16_000, 200
WORKLOAD = Workload(1.0, INPUT, OUTPUT, INPUT, OUTPUT)
SLO = Slo(ttft=((95, 5.0),), tpot=((95, 0.1),))
BOTH_TARGETS = {"ttft": {"p95": "5s"}, "tpot": {"p95": "100ms"}}
WITH_RDMA: dict[str, Any] = {"resources": {"rdma": {"resource": "rdma/ib", "count": 1}}}
SCALING = ScalingSpec(min_replicas=1, max_replicas=12, scale_down_delay_seconds=120.0)


def chat(tp: int = 1, **scaling: Any) -> PoolRecord:  # noqa: ANN401 - any field
    """A pool of a small model, as its user wrote it."""
    wanted = replace(pool_spec(tp), workload=WORKLOAD, slo=SLO, scaling=replace(SCALING, **scaling))
    return pool("chat", wanted)


def trace(*parts: tuple[float, float], seed: int = 3) -> Trace:
    """Poisson arrivals of all the same length: (seconds, requests per second), one after the other."""
    random = np.random.default_rng(seed)
    begins = np.cumsum([0.0, *(seconds for seconds, _ in parts)])
    found = [
        np.sort(random.uniform(begin, begin + seconds, random.poisson(seconds * rate)))
        for begin, (seconds, rate) in zip(begins, parts, strict=False)
    ]
    arrivals = np.append(np.concatenate(found), begins[-1])
    alike = np.ones(len(arrivals), dtype=np.int32)
    return Trace(arrivals, alike * INPUT, alike * OUTPUT)


def setting(arrivals: Trace, *pools: PoolRecord, boards: int = 3, **more: Any) -> SimulationSetting:  # noqa: ANN401 - any field
    """Boards of eight H200, with as many devices for RDMA, and a pool that everybody asks."""
    nodes = tuple(with_rdma(board(f"b-{index}")) for index in range(boards))
    known = {"streams": (Stream(arrivals, Route("chat", "chat", namespace="team")),), "pools": pools}
    return SimulationSetting(nodes=nodes, catalog=load(), **{**known, **more})


def duo(
    arrivals: Trace,
    engine: Mapping[str, Any] = WITH_RDMA,
    slo: Mapping[str, Any] = BOTH_TARGETS,
    **more: Any,  # noqa: ANN401 - any field
) -> SimulationSetting:
    """A split of the same model."""
    body = {
        "apiVersion": "weft.dev/v1alpha1",
        "kind": "PDSplit",
        "metadata": {"name": "duo"},
        "spec": {
            "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
            "engine": engine,
            "workload": {
                "requestsPerSecond": 3,
                "inputTokens": {"mean": INPUT, "p95": INPUT},
                "outputTokens": {"mean": OUTPUT, "p95": OUTPUT},
            },
            "slo": slo,
            "scaling": {"minReplicas": 1, "maxReplicas": 8, "scaleDownDelay": "2m"},
        },
    }
    streams = (Stream(arrivals, Route("duo", "duo-prefill", "duo-decode")),)
    return setting(arrivals, splits=(parse_split(body),), streams=streams, **more)


class Written:
    """A policy that writes the counts of a plan: (seconds, count) from when on, for every pool."""

    name = "written"
    every_seconds = 30.0

    def __init__(self, *plan: tuple[float, int]) -> None:
        self.plan = plan
        self.seen: list[tuple[float, tuple[PoolView, ...]]] = []

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        self.seen.append((now, pools))
        count = [count for since, count in self.plan if since <= now][-1]
        return {view.name: view.clamp(count) for view in pools}
