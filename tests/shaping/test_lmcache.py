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
NAMES_NO_CONNECTOR = replace(KEEPS_ON_DISKS, version="0.22.1")
ON_DISKS = ',"diskGiB":1000'
TWICE_THE_MEMORY = replace(H200, memory_bytes=2 * H200.memory_bytes)
SEVERAL_PODS = Wish(LLAMA_70B, (GB200,), pins=ShapePins(tensor_parallel=8))
LATENT_STAGES = Wish(
    DEEPSEEK,
    (TWICE_THE_MEMORY,),
    pins=ShapePins(tensor_parallel=4, pipeline_parallel=2, data_parallel=1, expert_parallel=1),
)
SHARED_CONTEXTS = Wish(DEEPSEEK, (H200,), pins=ShapePins(tensor_parallel=8, decode_context_parallel=8))
RECURS = Wish("Qwen3-Next-80B-A3B-Instruct", (H200,))
RANKS_OF_A_POD = ShapePins(tensor_parallel=1, data_parallel=8, expert_parallel=8)


def chosen(wish: Wish, backend: str = "LMCache", disk: str = "", engine: EngineSpec = KEEPS_ON_DISKS) -> EngineName:
    kept = KVSpec(offload_json=f'{{"backend":"{backend}","size":"64Gi"{disk}}}')
    return choose(replace(wish, kv=kept, engine=engine).request(), CATALOG).shape.engine


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (SEVERAL_PODS, "pods of a rank: allowed: 1, or Native"),
        (LATENT_STAGES, "pipelineParallel"),
        (Wish(LLAMA_8B, (H200,), pins=ShapePins(tensor_parallel=8, decode_context_parallel=1)), None),
        (SHARED_CONTEXTS, "decodeContextParallel"),
        (RECURS, "does not start for a model with recurrences"),
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


@pytest.mark.parametrize("wish", [SEVERAL_PODS, LATENT_STAGES], ids=["pods", "stages"])
def test_replicas_that_served_before_without_finding_anything_again_are_not_refused(wish: Wish) -> None:
    """From 0.23.0 on no replica came up, so that nobody loses one."""
    assert chosen(wish, engine=NAMES_NO_CONNECTOR) is EngineName.VLLM
    with pytest.raises(Invalid, match=r"kvCache\.offload\.backend LMCache"):
        chosen(wish, engine=replace(NAMES_NO_CONNECTOR, version="0.23.0"))


def test_stages_that_would_answer_from_what_they_lack_are_refused_in_every_release() -> None:
    """With one seed the scheduler finds what the first stage has, and the second gets nothing."""
    seeded = replace(NAMES_NO_CONNECTOR, env=(("PYTHONHASHSEED", "0"),))
    assert chosen(SEVERAL_PODS, engine=seeded) is EngineName.VLLM
    with pytest.raises(Invalid, match=r"shape\.pipelineParallel"):
        chosen(LATENT_STAGES, engine=seeded)


@pytest.mark.parametrize(
    ("wish", "words"), [(SHARED_CONTEXTS, "decodeContextParallel"), (RECURS, "recurrences")], ids=["shared", "recurs"]
)
def test_what_ended_its_engines_before_is_refused_in_every_release(wish: Wish, words: str) -> None:
    """LMCache's assertion about shared contexts is its issue 1732; vLLM's error comes as it starts."""
    with pytest.raises(Invalid, match=words):
        chosen(wish, engine=NAMES_NO_CONNECTOR)
