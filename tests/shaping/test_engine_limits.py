"""What an engine can do in which release, on which accelerator and with which model: refused with what is allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shaping.cases import (
    B200,
    CATALOG,
    DEEPSEEK,
    GB200,
    H100,
    H200,
    LLAMA_8B,
    LLAMA_70B,
    LLAMA_405B,
    MI300X,
    QWEN_MOE,
    Wish,
)
from weft.catalog.limits import Releases
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import DomainRule, EngineSpec, KVSpec, PlacementSpec, ShapePins
from weft.domain.texts.units import MIB
from weft.domain.workload import Role
from weft.shaping import Supply, choose

A100 = Supply("A100", 81920 * MIB, domain_gpus=8, gpus_per_node=8)
B300 = Supply("B300", 275040 * MIB, domain_gpus=8, gpus_per_node=8)
LARGE_A100 = replace(A100, memory_bytes=10 * A100.memory_bytes)
SEVERAL_DOMAINS = PlacementSpec(domain=DomainRule.Preferred)


def release(version: str) -> EngineSpec:
    return EngineSpec(name=EngineName.VLLM, version=version)


@pytest.mark.parametrize(
    ("supply", "precision", "allowed"),
    [
        (A100, Precision.FP8, "BF16, INT8, INT4, MXFP4"),
        (A100, Precision.NVFP4, "BF16, INT8, INT4, MXFP4"),
        (H200, Precision.NVFP4, "BF16, FP8, INT8, INT4, MXFP4"),
        (MI300X, Precision.NVFP4, "BF16, FP8, INT8, INT4, MXFP4"),
        (B200, Precision.INT8, "BF16, FP8, INT4, NVFP4, MXFP4"),
        (B300, Precision.INT8, "BF16, FP8, INT4, NVFP4, MXFP4"),
        (GB200, Precision.INT8, "BF16, FP8, INT4, NVFP4, MXFP4"),
    ],
    ids=lambda value: value.accelerator if isinstance(value, Supply) else str(value),
)
def test_a_precision_without_kernels_on_an_accelerator_is_refused(
    supply: Supply, precision: Precision, allowed: str
) -> None:
    with pytest.raises(Invalid) as caught:
        Wish(LLAMA_8B, (supply,), precision=precision).plan()
    assert caught.value.reason is Reason.PrecisionUnsupported
    assert f"does not serve {precision} on {supply.accelerator}; allowed: {allowed}" in caught.value.message


def test_a_precision_younger_than_the_release_is_refused_with_the_first_that_serves_it() -> None:
    """gpt-oss came with vLLM 0.10.1."""
    with pytest.raises(Invalid, match=r"VLLM 0\.10\.0 does not serve MXFP4; allowed: 0\.10\.1 or later$") as caught:
        Wish("gpt-oss-120b", (H100,), engine=release("0.10.0")).plan()
    assert caught.value.reason is Reason.PrecisionUnsupported
    assert Wish("gpt-oss-120b", (H100,), engine=release("0.10.1")).plan().shape.precision is Precision.MXFP4


def test_a_group_over_several_pods_takes_a_release_that_forms_it_without_ray() -> None:
    """Two boards for 405B in 16 bits: `--nnodes` is there from 0.11.2 on."""
    wish = Wish(LLAMA_405B, (H100,), placement=SEVERAL_DOMAINS, engine=release("0.11.2"))
    assert wish.plan().shape.pods == 2
    with pytest.raises(Invalid, match=r"VLLM 0\.10\.2 forms no group over 2 pods without Ray; allowed: one pod") as old:
        replace(wish, engine=release("0.10.2")).plan()
    assert old.value.reason is Reason.ModelDoesNotFit
    assert old.value.message.endswith("or version 0.11.2 or later")
    on_ray = replace(wish, engine=replace(release("0.10.2"), distributed="Ray"))
    assert on_ray.plan().shape.pods == 2


def test_a_pin_that_an_old_release_cannot_form_is_refused_for_that_reason() -> None:
    pinned = Wish(LLAMA_8B, (GB200,), pins=ShapePins(tensor_parallel=8), engine=release("0.11.1"))
    with pytest.raises(Invalid, match=r"allowed: one pod, or version 0\.11\.2 or later") as caught:
        pinned.plan()
    assert caught.value.reason is Reason.EngineUnsupported
    assert replace(pinned, engine=release("0.11.2")).plan().shape.pods == 2


def test_the_release_that_is_kept_counts_and_not_the_default() -> None:
    wish = Wish(LLAMA_8B, (GB200,), pins=ShapePins(tensor_parallel=8))
    kept = replace(wish.plan().engine, version="0.11.0")
    with pytest.raises(Invalid, match=r"VLLM 0\.11\.0 forms no group"):
        wish.plan(release=kept)


def in_a_nim() -> EngineSpec:
    return EngineSpec(EngineName.VLLM, "0.31.0", "nvcr.io/nim/nvidia/vllm-model-free-nim:2.1.5")


def test_a_nim_gets_a_shape_that_is_whole_in_one_pod() -> None:
    """What a plain image would spread over two trays."""
    pins = ShapePins(tensor_parallel=8)
    assert Wish(LLAMA_405B, (GB200,), pins=pins, engine=release("0.31.0")).plan().shape.pods == 2
    assert Wish(LLAMA_405B, (GB200,), precision=Precision.FP8, engine=in_a_nim()).plan().shape.pods == 1
    with pytest.raises(Invalid, match="over 2 pods is not supported; allowed: one pod") as caught:
        Wish(LLAMA_405B, (GB200,), pins=pins, engine=in_a_nim()).plan()
    assert caught.value.reason is Reason.EngineUnsupported


def test_a_nim_is_planned_on_nvidias_gpus_whatever_else_is_there() -> None:
    assert Wish(LLAMA_8B, (MI300X, H200), engine=in_a_nim()).plan().shape.accelerator == "H200"
    with pytest.raises(Invalid, match="runs on GPUs of NVIDIA, not on MI300X"):
        Wish(LLAMA_8B, (MI300X,), engine=in_a_nim()).plan()


def test_ranks_that_are_whole_in_their_pods_meet_in_every_release() -> None:
    pins = ShapePins(tensor_parallel=1, data_parallel=8)
    assert Wish(QWEN_MOE, (GB200,), pins=pins, engine=release("0.10.2")).plan().shape.pods == 2


@pytest.mark.parametrize(
    ("pins", "placement", "sentence"),
    [
        (
            ShapePins(tensor_parallel=1, data_parallel=8, pipeline_parallel=2),
            SEVERAL_DOMAINS,
            "DP 8 with PP 2 spreads each expert group over all 16 GPUs; allowed: up to 8 in all, or DP 1",
        ),
        (
            ShapePins(tensor_parallel=1, data_parallel=8, pipeline_parallel=3),
            SEVERAL_DOMAINS,
            "data-parallel ranks of 3 GPUs do not fill pods of 8; allowed: PP 1, 2, 4, 8",
        ),
    ],
    ids=["leaves the domain", "fills no pod"],
)
def test_ranks_with_stages_keep_to_one_domain_and_fill_their_pods(
    pins: ShapePins, placement: PlacementSpec, sentence: str
) -> None:
    """S9: a rank is started whole in one pod, so each pod has every stage and the expert group is in all of them."""
    with pytest.raises(Invalid) as caught:
        Wish(QWEN_MOE, (H200,), pins=pins, placement=placement).plan()
    assert caught.value.reason is Reason.ShapeInvalid
    assert sentence in caught.value.message


def test_ranks_with_stages_may_fill_one_domain() -> None:
    pins = ShapePins(tensor_parallel=1, data_parallel=4, pipeline_parallel=2)
    assert str(Wish(QWEN_MOE, (H200,), pins=pins).plan().shape) == "H200 BF16 TP1 PP2 DP4 EP4"


def test_sparse_attention_takes_a_generation_with_kernels_for_it() -> None:
    """However much memory older GPUs had."""
    with pytest.raises(Invalid) as caught:
        Wish("DeepSeek-V3.2", (LARGE_A100,), precision=Precision.BF16).plan()
    assert caught.value.reason is Reason.EngineUnsupported
    assert "no kernels for the sparse attention of deepseek-ai/DeepSeek-V3.2" in caught.value.message
    assert "on Ampere GPUs; allowed: Hopper, Blackwell, BlackwellRTX, CDNA3, CDNA4" in caught.value.message
    both = Wish("DeepSeek-V3.2", (LARGE_A100, H200), precision=Precision.FP8).plan()
    assert both.shape.accelerator == "H200"


def test_weights_scaled_in_blocks_are_cut_only_between_them() -> None:
    """Published: DeepSeek-V3 does not start with a tensor group of 32, as 18432 / 32 is no multiple of 128."""
    wish = Wish(DEEPSEEK, (GB200,), pins=ShapePins(tensor_parallel=32))
    with pytest.raises(Invalid, match=r"tensorParallel 32: TP 32 cuts 18432 inputs inside blocks of 128") as caught:
        wish.plan()
    assert caught.value.reason is Reason.ShapeInvalid
    assert caught.value.message.endswith("allowed: 1, 2, 4, 8, 16")
    assert replace(wish, pins=ShapePins(tensor_parallel=16)).plan().shape.tensor_parallel == 16


def test_weights_that_are_converted_have_no_blocks() -> None:
    converted = Wish(LLAMA_405B, (GB200,), pins=ShapePins(tensor_parallel=32), precision=Precision.FP8)
    assert converted.plan().shape.tensor_parallel == 32


def test_a_checkpoint_is_only_turned_into_what_engines_make_of_it() -> None:
    """The engine quantises 16 bits to FP8 while it loads, and nothing else."""
    assert Wish(LLAMA_70B, (H200,), precision=Precision.FP8).plan().shape.precision is Precision.FP8
    with pytest.raises(Invalid, match="cannot turn a FP8 checkpoint into BF16 while loading") as caught:
        Wish(DEEPSEEK, (GB200,), precision=Precision.BF16).plan()
    assert caught.value.reason is Reason.PrecisionUnsupported


def test_offload_of_kv_takes_a_release_that_knows_it() -> None:
    def asked(version: str) -> None:
        request = Wish(LLAMA_8B, (H100,), engine=release(version)).request()
        choose(replace(request, spec=replace(request.spec, kv=KVSpec(offload_json='{"size":"8Gi"}'))), CATALOG)

    asked("0.11.2")
    with pytest.raises(
        Invalid, match=r"VLLM 0\.11\.1 does not know spec\.kvCache\.offload; allowed: 0\.11\.2 or"
    ) as caught:
        asked("0.11.1")
    assert caught.value.reason is Reason.EngineUnsupported


@pytest.mark.parametrize(
    ("engine", "version", "backend", "words"),
    [
        (EngineName.VLLM, "0.32.0", "Native", "VLLM 0.32.0 keeps no KV on disks within a size"),
        (EngineName.VLLM, "0.33.0", "Native", "backend LMCache with 0.33.0 or later, or spec.engine.name SGLang"),
        (EngineName.VLLM, "0.32.0", "LMCache", "allowed: 0.33.0 or later"),
        (EngineName.VLLM, "0.33.0", "LMCache", None),
        (EngineName.TensorRTLLM, "1.2.1", "Native", "allowed: none of it, or spec.engine.name SGLang"),
        (EngineName.SGLang, "0.5.13", "Native", "allowed: 0.5.14 or later"),
        (EngineName.SGLang, "0.5.14", "Native", None),
    ],
)
def test_kv_on_disks_takes_an_engine_that_keeps_within_a_size(
    engine: EngineName, version: str, backend: str, words: str | None
) -> None:
    """Others write until the disk of the node is full, or nothing."""
    request = Wish(LLAMA_8B, (H100,), engine=EngineSpec(name=engine, version=version)).request()
    kept = KVSpec(offload_json=f'{{"backend":"{backend}","size":"400Gi","diskGiB":1000}}')
    asked = replace(request, spec=replace(request.spec, kv=kept))
    if words is None:
        assert choose(asked, CATALOG).shape.engine is engine
        return
    with pytest.raises(Invalid) as refused:
        choose(asked, CATALOG)
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("version", "size", "refused"),
    [("0.5.14", "32Gi", True), ("0.5.14", "128Gi", False), ("0.5.15", "32Gi", False)],
)
def test_early_sglang_ends_with_less_kv_on_the_host_than_on_its_gpus(
    version: str,
    size: str,
    refused: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """An H100 keeps about 50 GiB of KV beside this model."""
    request = Wish(LLAMA_8B, (H100,), engine=EngineSpec(name=EngineName.SGLang, version=version)).request()
    keeping = replace(request.spec, kv=KVSpec(offload_json=f'{{"size":"{size}"}}'))
    asked = replace(request, spec=keeping)
    if not refused:
        assert choose(asked, CATALOG).shape.accelerator == "H100"
        return
    with pytest.raises(Invalid, match=r"0\.5\.14 ends where spec\.kvCache\.offload keeps no more KV than the GPUs: 32"):
        choose(replace(asked, spec=replace(keeping, shape=ShapePins(tensor_parallel=1))), CATALOG)


@pytest.mark.parametrize(
    ("engine", "version", "allowed"),
    [
        (EngineName.VLLM, "0.10.2", "0.11.0 or later"),
        (EngineName.VLLM, "0.11.0", None),
        (EngineName.SGLang, "0.5.8", "0.5.9 or later"),
        (EngineName.SGLang, "0.5.9", None),
        (EngineName.TensorRTLLM, "1.2.1", "Auto, RDMA or TCP"),
    ],
)
def test_kv_goes_over_efa_from_the_release_on_that_can(engine: EngineName, version: str, allowed: str | None) -> None:
    request = Wish(LLAMA_8B, (H100,), engine=EngineSpec(name=engine, version=version)).request()
    half = replace(request.spec, role=Role.Prefill, kv=KVSpec(transport="EFA"))
    if allowed is None:
        assert choose(replace(request, spec=half), CATALOG).shape.accelerator == "H100"
        return
    with pytest.raises(Invalid, match=f"{version} does not know spec.kvTransfer.transport EFA; allowed: {allowed}"):
        choose(replace(request, spec=half), CATALOG)


@pytest.mark.parametrize(
    ("engine", "version", "allowed"),
    [
        (EngineName.VLLM, "0.21.0", "0.22.0 or later"),
        (EngineName.VLLM, "0.22.0", None),
        (EngineName.SGLang, "0.5.23", "Auto, RDMA or TCP"),
    ],
)
def test_kv_goes_over_nvlink_from_the_release_on_that_can(
    engine: EngineName, version: str, allowed: str | None
) -> None:
    request = Wish(LLAMA_8B, (GB200, H200), engine=EngineSpec(name=engine, version=version)).request()
    half = replace(request.spec, role=Role.Prefill, kv=KVSpec(transport="NVLink"))
    if allowed is None:
        shape = choose(replace(request, spec=half), CATALOG).shape
        assert ("GB200", 4) == (shape.accelerator, shape.gpus_per_pod)
        return
    with pytest.raises(Invalid, match=f"{version} does not know spec.kvTransfer.transport NVLink; allowed: {allowed}"):
        choose(replace(request, spec=half, supplies=(GB200,)), CATALOG)


def test_nvlink_that_ends_at_the_node_carries_no_kv_to_another() -> None:
    request = Wish(LLAMA_8B, (H200,)).request()
    half = replace(request.spec, role=Role.Prefill, kv=KVSpec(transport="NVLink"))
    with pytest.raises(Invalid, match=r"kvTransfer\.transport NVLink: that of H200 ends at the node"):
        choose(replace(request, spec=half), CATALOG)


def test_efa_leaves_the_nodes_of_amd_alone() -> None:
    request = Wish(LLAMA_8B, (MI300X, H200)).request()
    half = replace(request.spec, role=Role.Prefill, kv=KVSpec(transport="EFA"))
    assert choose(replace(request, spec=half), CATALOG).shape.accelerator == "H200"
    with pytest.raises(Invalid, match="EFA moves memory of NVIDIA GPUs, not of MI300X"):
        choose(replace(request, spec=half, supplies=(MI300X,)), CATALOG)


def test_partitions_of_an_amd_device_serve_one_each() -> None:
    """Eight parts of an MI300X are no group of eight."""
    parts = replace(MI300X, memory_bytes=MI300X.memory_bytes // 8, domain_gpus=64, gpus_per_node=64, shared=True)
    assert Wish(LLAMA_8B, (parts,)).plan().shape.gpus == 1
    with pytest.raises(Invalid, match=r"MI300X is shared \(time-slicing, MPS or MIG\) here; allowed: one device"):
        Wish(LLAMA_8B, (parts,), pins=ShapePins(tensor_parallel=8)).plan()


@pytest.mark.parametrize(
    ("since", "version", "included"),
    [
        ("0.11.2", "0.11.2", True),
        ("0.11.2", "0.11.1", False),
        ("0.11.2", "0.9.99", False),
        ("0.11.2", "v0.12.0rc1", True),
        ("0.11.2", "0.32.0+cpu", True),
        ("0.11.2", "nightly", True),
        (None, "0.1.0", True),
    ],
)
def test_releases_count_by_their_numbers(since: str | None, version: str, *, included: bool) -> None:
    """What has none is built from today's source."""
    assert included is Releases(since).include(version)
