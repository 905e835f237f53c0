"""One and the same question for both planners: DeepSeek-V3 on a rack of 72 GB200, replicas whole and in two halves."""

from __future__ import annotations

from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from bench.aic.questions import BACKENDS, Question
from bench.records import in_clique, node_record
from weft.catalog import load
from weft.cli.cluster.world import World
from weft.cli.plan.page import is_a_yes
from weft.cli.plan.planning import plan_all

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord

MODEL = "deepseek-ai/DeepSeek-V3"
GPUS, GPUS_PER_TRAY = 72, 4
INPUT_TOKENS, OUTPUT_TOKENS, TTFT_MS, TPOT_MS = 4000, 1000, 2000, 30  # what aiconfigurator asks for by default
REQUESTS_PER_SECOND = 10.0
ROUNDS = 5
NOW = 1_800_000_000.0


def plan_questions() -> dict[str, Question]:
    """Its search with one engine at a time, by the name that it has for the engine."""
    sizes = (("model_path", MODEL), ("total_gpus", GPUS), ("system", "gb200"))
    load_ = (("isl", INPUT_TOKENS), ("osl", OUTPUT_TOKENS), ("ttft", TTFT_MS), ("tpot", TPOT_MS))
    return {backend: Question("plan", (*sizes, ("backend", backend), *load_)) for backend in BACKENDS.values()}


def our_plan() -> dict[str, float]:
    """What `weft plan` computes for a pool and for a split, each on the whole rack: as long as the slowest round took.

    Every round has another rate, so that none finds what another remembered.
    """
    catalog, rack = load(), World(tuple(_tray(index) for index in range(GPUS // GPUS_PER_TRAY)))
    rounds = [_timed(REQUESTS_PER_SECOND + index / 10, rack, catalog) for index in range(ROUNDS)]
    seconds, busy = max(rounds)
    return {"seconds": round(seconds, 3), "processor_seconds": round(busy, 3)}


def _timed(rate: float, rack: World, catalog: Catalog) -> tuple[float, float]:
    documents = [_document(kind, rate) for kind in ("InferencePool", "PDSplit")]
    begun, used = perf_counter(), process_time()
    plans = [plan for document in documents for plan in plan_all([document], rack, catalog, NOW)]
    seconds, busy = perf_counter() - begun, process_time() - used
    assert all(map(is_a_yes, plans)), "a plan without a place answers another question"
    return seconds, busy


def _document(kind: str, rate: float) -> dict[str, Any]:
    return {
        "apiVersion": "weft.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "deepseek", "namespace": "default"},
        "spec": {
            "model": {"id": MODEL},
            "workload": {
                "requestsPerSecond": f"{rate * 1000:.0f}m",
                "inputTokens": {"mean": INPUT_TOKENS},
                "outputTokens": {"mean": OUTPUT_TOKENS},
            },
            "slo": {"ttft": {"p50": f"{TTFT_MS}ms"}, "tpot": {"p50": f"{TPOT_MS}ms"}},
        },
    }


def _tray(index: int) -> NodeRecord:
    return node_record(f"tray-{index}", "NVIDIA-GB200", GPUS_PER_TRAY, in_clique("rack.1"))
