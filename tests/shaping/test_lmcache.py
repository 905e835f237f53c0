"""Shapes in which LMCache finds its KV again; others are refused with what is allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shaping.cases import CATALOG, DEEPSEEK, GB200, H200, LLAMA_8B, LLAMA_70B, MI300X, QWEN_MOE, Wish
from weft.domain.errors import Invalid
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, KVSpec, ShapePins
from weft.shaping import choose

KEEPS_ON_DISKS = EngineSpec(name=EngineName.VLLM, version="0.33.0")
ON_DISKS = ',"diskGiB":1000'
LATENT_STAGES = ShapePins(tensor_parallel=4, pipeline_parallel=2, data_parallel=1, expert_parallel=1)
RANKS_OF_A_POD = ShapePins(tensor_parallel=1, data_parallel=8, expert_parallel=8)


def chosen(wish: Wish, backend: str = "LMCache", disk: str = "") -> EngineName:
    kept = KVSpec(offload_json=f'{{"backend":"{backend}","size":"64Gi"{disk}}}')
    return choose(replace(wish, kv=kept, engine=KEEPS_ON_DISKS).request(), CATALOG).shape.engine


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish(LLAMA_70B, (GB200,), pins=ShapePins(tensor_parallel=8)), "pods of a rank: allowed: 1, or Native"),
        (Wish(DEEPSEEK, (replace(H200, memory_bytes=2 * H200.memory_bytes),), pins=LATENT_STAGES), "pipelineParallel"),
        (Wish(LLAMA_8B, (H200,), pins=ShapePins(tensor_parallel=8, decode_context_parallel=1)), None),
        (Wish(DEEPSEEK, (H200,), pins=ShapePins(tensor_parallel=8, decode_context_parallel=8)), "decodeContextPar"),
        (Wish("Qwen3-Next-80B-A3B-Instruct", (H200,)), "does not start for a model with recurrences"),
        (Wish(QWEN_MOE, (H200,), pins=RANKS_OF_A_POD), None),
        (Wish(LLAMA_8B, (MI300X,)), None),
    ],
)
def test_lmcache_takes_ranks_within_a_pod_that_keep_all_of_a_context(wish: Wish, words: str | None) -> None:
    """It asks GPUs by sockets of the pod, and knows neither shared contexts nor states of recurrences."""
    if words is None:
        assert chosen(wish) is EngineName.VLLM
        return
    with pytest.raises(Invalid, match=r"kvCache\.offload\.backend LMCache") as refused:
        chosen(wish)
    assert words in refused.value.message
    assert chosen(wish, "Native") is EngineName.VLLM


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (Wish(QWEN_MOE, (H200,), pins=RANKS_OF_A_POD), "has one folder for all ranks of a pod"),
        (Wish(LLAMA_8B, (MI300X,)), "in images for NVIDIA GPUs alone"),
    ],
)
def test_what_would_lose_or_overrun_its_files_keeps_none_on_disks(wish: Wish, words: str) -> None:
    """Files of two data-parallel ranks have the same names; images for AMD have a release that counts chunks twice."""
    assert chosen(wish) is EngineName.VLLM
    with pytest.raises(Invalid) as refused:
        chosen(wish, disk=ON_DISKS)
    assert words in refused.value.message
