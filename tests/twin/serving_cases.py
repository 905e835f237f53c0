"""Traces and engines that tests of serving share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.twin.engine.speed import EngineSpeed
from weft.twin.engine.steps import StepTable
from weft.twin.serving.front import FrontOptions
from weft.twin.serving.scrapes import ScrapeOptions
from weft.twin.serving.stream import Route, Serving
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

# A step takes 10 ms and 0.2 ms for each sequence; prompts run at 20,000 tokens a second.
SPEED = EngineSpeed(
    StepTable({(1, 1): 0.0102, (101, 1): 0.0302}, {(1, 1): 0.00005, (10_001, 1): 0.50005}),
    max_batch=64,
    kv_tokens=200_000,
    transfer_seconds=0.03,
)
CHAT, SPLIT = Route("chat", "chat"), Route("big", "big-prefill", "big-decode")
PREFILL_SECONDS = 0.05  # of a prompt of 1000 tokens


def trace(arrivals: Sequence[float], inputs: int = 1000, outputs: int = 100) -> Trace:
    """Requests of one length."""
    moments = np.array(arrivals, dtype=np.float64)
    return Trace(moments, np.full(len(moments), inputs, np.int32), np.full(len(moments), outputs, np.int32))


def poisson(rate: float, seconds: float, families: int = 0) -> Trace:
    """Requests of many lengths at random; of families the first 512 tokens are in common."""
    random = np.random.default_rng(3)
    arrivals = np.sort(random.uniform(0.0, seconds, round(rate * seconds)))
    inputs, outputs = random.integers(1, 3000, len(arrivals)), random.integers(1, 300, len(arrivals))
    blocks = tuple((int(name),) for name in random.integers(0, families, len(arrivals))) if families else ()
    return Trace(arrivals, inputs.astype(np.int32), outputs.astype(np.int32), blocks)


def serving(requests: Trace, route: Route = CHAT, front: FrontOptions | None = None, **scrapes: object) -> Serving:
    """Nobody is there yet."""
    return Serving(requests, route, front or FrontOptions(), ScrapeOptions(**scrapes), seed=1)  # type: ignore[arg-type]
