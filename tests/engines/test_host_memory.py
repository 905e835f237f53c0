"""KV in host memory: `/dev/shm` has room for it where the engine keeps it there, and memory is enough or refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.render.pools import RELEASE, plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Plan, Shape
from weft.domain.spec import EngineSpec, KVSpec, PoolSpec
from weft.domain.texts.units import GIB
from weft.engines import LaunchRequest, adapter_for
from weft.engines.kv.host_memory import pod_needs

RANKS = shape(1, data_parallel=4)  # in one pod
TWO_PODS = shape(8, gpus_per_pod=4)  # of one rank
BEFORE = plan(TWO_PODS, replace(RELEASE, version="0.26.0"))  # which kept nothing in /dev/shm
SGLANG = shape(2, engine=EngineName.SGLang)
TENSORRT_LLM = shape(2, engine=EngineName.TensorRTLLM)


def keeping(size: str, backend: str = "Native", **engine: Any) -> PoolSpec:  # noqa: ANN401 - fields of EngineSpec
    kv = KVSpec(offload_json=f'{{"backend":"{backend}","size":"{size}"}}')
    return spec(kv=kv, engine=EngineSpec(**engine))


def launched(wanted: PoolSpec, chosen: Plan | Shape) -> Any:  # noqa: ANN401 - a launch
    planned = chosen if isinstance(chosen, Plan) else plan(chosen)
    return adapter_for(planned.shape.engine).launch(LaunchRequest(wanted, planned, leader_host="leader"))


@pytest.mark.parametrize(
    ("wanted", "chosen", "gib"),
    [
        (keeping("64Gi"), plan(shape(2)), 64 + 4),
        (keeping("64Gi"), plan(RANKS), 64 + 8),
        (keeping("64Gi"), plan(TWO_PODS), 64 + 8),
        (keeping("64Gi"), plan(shape(2), replace(RELEASE, version="0.26.0")), 4),
        (keeping("64Gi", "LMCache"), plan(shape(2)), 4),
        (keeping("64Gi", shared_memory="100Gi"), plan(shape(2)), 100),
        (keeping("64Gi"), plan(SGLANG), 4),
        (keeping("64Gi"), plan(TENSORRT_LLM), 4),
    ],
    ids=["one rank", "ranks of a pod", "a rank of two pods", "before", "lmcache", "said", "sglang", "tensorrt-llm"],
)
def test_shared_memory_holds_what_vllm_keeps_there(wanted: PoolSpec, chosen: Plan, gib: int) -> None:
    """From 0.27.0 on it ends without; a rank of several pods has a file for all of its KV in each."""
    assert launched(wanted, chosen).shared_memory_bytes == gib * GIB


@pytest.mark.parametrize(
    ("wanted", "chosen", "words"),
    [
        (
            keeping("64Gi", resources=(("memory", "67Gi"),)),
            shape(2),
            "each pod needs 68 GiB, and spec.engine.resources",
        ),
        (keeping("64Gi", resources=(("memory", "71Gi"),)), TWO_PODS, "each pod needs 72 GiB"),
        (keeping("64Gi", resources=(("memory", "39Gi"),)), BEFORE, "each pod needs 40 GiB"),
        (keeping("64Gi", "LMCache", resources=(("memory", "32Gi"),)), shape(2), "memory is 32Gi: ask for more"),
        (keeping("64Gi", resources=(("memory", "77Gi"),)), SGLANG, "each pod needs 78 GiB"),
        (keeping("64Gi", resources=(("memory", "32Gi"),)), TENSORRT_LLM, "each pod needs 68 GiB"),
        (keeping("64Gi", shared_memory="32Gi"), shape(2), "sharedMemory is 32Gi: unset it, or make it larger"),
    ],
)
def test_what_would_be_killed_for_memory_is_refused_by_name(wanted: PoolSpec, chosen: Plan | Shape, words: str) -> None:
    """A file for a whole rank in `/dev/shm` counts whole: the kubelet makes that no larger than the memory."""
    with pytest.raises(Invalid, match=r"kvCache\.offload") as refused:
        launched(wanted, chosen)
    assert refused.value.reason is Reason.SpecInvalid
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("memory", "chosen"),
    [("68Gi", shape(2)), ("72Gi", TWO_PODS), ("40Gi", BEFORE), ("78Gi", SGLANG), ("68Gi", TENSORRT_LLM)],
)
def test_what_is_enough_is_taken(memory: str, chosen: Plan | Shape) -> None:
    assert launched(keeping("64Gi", resources=(("memory", memory),)), chosen).command


def test_a_node_has_to_have_what_pods_do_not_request() -> None:
    """Without a request nothing else keeps a pod off a node whose memory is too small in all."""
    assert pod_needs(keeping("64Gi"), plan(shape(2))) == (("memory", str(68 * GIB)),)
    asked = (("memory", "128Gi"),)
    assert pod_needs(keeping("64Gi", resources=asked), plan(shape(2))) == asked
    assert pod_needs(spec(), plan(shape(2))) == ()


@pytest.mark.parametrize(
    ("chosen", "gib"),
    [(plan(TWO_PODS), 64 + 8), (BEFORE, 32 + 8), (plan(shape(8, gpus_per_pod=4, engine=EngineName.SGLang)), 32 + 18)],
)
def test_a_node_has_to_have_the_whole_file_of_a_rank_over_two_pods(chosen: Plan, gib: int) -> None:
    """As `/dev/shm` of each pod does, where the release keeps it there: the kubelet would evict it for less."""
    assert dict(pod_needs(keeping("64Gi"), chosen))["memory"] == str(gib * GIB)
