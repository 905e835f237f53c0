"""What a recommendation keeps of the request."""

from __future__ import annotations

from typing import Any

from tests.render.pools import plan, shape
from weft.cli.plan.exporting import exported_pool, exported_split

RANKS = plan(shape(2, "GB200", data_parallel=4, expert_parallel=8, gpus_per_pod=4))


def asked(kind: str, **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    return {"kind": kind, "metadata": {"name": "chat"}, "spec": {"model": {"id": "deepseek-ai/DeepSeek-V3"}, **spec}}


def test_how_ranks_get_requests_stays_as_it_was_asked_for() -> None:
    body = asked("InferencePool", shape={"dataParallelBalancing": "Hybrid"})
    assert exported_pool(body, RANKS)["spec"]["shape"] == {
        "tensorParallel": 2,
        "expertParallel": 8,
        "dataParallel": 4,
        "dataParallelBalancing": "Hybrid",
    }
    assert "dataParallelBalancing" not in exported_pool(asked("InferencePool"), RANKS)["spec"]["shape"]


def test_a_half_that_says_otherwise_keeps_its_own() -> None:
    own = {"shape": {"dataParallelBalancing": "Internal"}}
    spec = exported_split(asked("PDSplit", shape={"dataParallelBalancing": "Hybrid"}, prefill=own), RANKS, RANKS)[
        "spec"
    ]
    found = [spec[half]["shape"]["dataParallelBalancing"] for half in ("prefill", "decode")]
    assert found == ["Internal", "Hybrid"]
