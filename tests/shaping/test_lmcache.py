"""Shapes in which LMCache finds its KV again; others are refused with what is allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.shaping.cases import CATALOG, DEEPSEEK, GB200, H200, LLAMA_8B, LLAMA_70B, MI300X, QWEN_MOE, Wish
from weft.domain.errors import Invalid
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, KVSpec, ShapePins
from weft.shaping import choose

if TYPE_CHECKING:
    from weft.domain.shape import Plan

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
ONE_POD = Wish(LLAMA_8B, (H200,), pins=ShapePins(tensor_parallel=8))
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


def keeping(wish: Wish, engine: EngineSpec) -> Wish:
    return replace(wish, kv=KVSpec(offload_json='{"backend":"LMCache","size":"64Gi"}'), engine=engine)


def running(wish: Wish, version: str = "0.22.1") -> Plan:
    """A plan of several GPUs as a release before this refusal made it."""
    found = replace(wish, engine=replace(NAMES_NO_CONNECTOR, version=version)).plan()
    assert found.shape.gpus > 1
    return found


@pytest.mark.parametrize("wish", [SEVERAL_PODS, LATENT_STAGES, ONE_POD], ids=["pods", "stages", "pod"])
def test_no_pool_begins_with_a_cache_that_finds_nothing_again(wish: Wish) -> None:
    """Before 0.23.0 each process of a rank has hashes of its own."""
    with pytest.raises(Invalid, match=r"LMCache finds nothing again in VLLM 0\.22\.1") as refused:
        keeping(wish, NAMES_NO_CONNECTOR).plan()
    assert "allowed: one GPU for each rank, 0.23.0 or later, or Native" in refused.value.message
    assert chosen(wish, "Native", engine=NAMES_NO_CONNECTOR) is EngineName.VLLM


@pytest.mark.parametrize("wish", [SEVERAL_PODS, LATENT_STAGES, ONE_POD], ids=["pods", "stages", "pod"])
def test_replicas_that_serve_without_finding_anything_again_are_not_taken_from_anybody(wish: Wish) -> None:
    """From 0.23.0 on no replica of several pods or latent stages came up, so that nobody loses one."""
    before = running(wish)
    assert keeping(wish, NAMES_NO_CONNECTOR).plan(before, before.engine).shape == before.shape


def test_a_pool_whose_cache_finds_nothing_again_may_change_its_shape() -> None:
    """It may have to: where its GPUs are gone, or its replicas too small."""
    before = running(ONE_POD)
    smaller = replace(ONE_POD, pins=ShapePins(tensor_parallel=4))
    assert keeping(smaller, NAMES_NO_CONNECTOR).plan(before, before.engine).shape.tensor_parallel == 4


def test_a_pool_that_goes_back_to_such_a_release_begins_anew() -> None:
    with pytest.raises(Invalid, match="finds nothing again"):
        keeping(ONE_POD, NAMES_NO_CONNECTOR).plan(running(ONE_POD, "0.32.0"))


def test_ranks_that_are_one_process_find_what_they_keep_in_every_release() -> None:
    assert chosen(Wish(LLAMA_8B, (H200,)), engine=NAMES_NO_CONNECTOR) is EngineName.VLLM
    assert chosen(Wish(QWEN_MOE, (H200,), pins=RANKS_OF_A_POD), engine=NAMES_NO_CONNECTOR) is EngineName.VLLM


@pytest.mark.parametrize("wish", [SEVERAL_PODS, LATENT_STAGES], ids=["pods", "stages"])
def test_where_the_connector_is_named_several_pods_and_latent_stages_are_refused_to_all(wish: Wish) -> None:
    named = replace(NAMES_NO_CONNECTOR, version="0.23.0")
    with pytest.raises(Invalid, match=r"kvCache\.offload\.backend LMCache"):
        chosen(wish, engine=named)


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
