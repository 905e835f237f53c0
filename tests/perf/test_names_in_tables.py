"""Names in tables are read as people write them, and never taken for others."""

from __future__ import annotations

import pytest

from tests.perf.replicas import CATALOG
from tests.perf.rows import measured
from weft.catalog.spelling import accelerator_as_written, architecture_as_written
from weft.domain.hardware import Precision

DEEPSEEK = "deepseek-ai/DeepSeek-V3"
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
BLACKWELL = {"gpu": "B200", "precision": "NVFP4"}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("DeepSeek-R1", DEEPSEEK),
        ("deepseek-r1-0528", DEEPSEEK),
        ("DeepSeek-V3.1", DEEPSEEK),
        ("deepseek-ai/DeepSeek-V3-0324", DEEPSEEK),
        ("DEEPSEEK-R1-FP8", DEEPSEEK),
        ("DeepSeek-R1-0528-NVFP4", DEEPSEEK),
        ("DeepSeek-V3.1_fp4", DEEPSEEK),
        (" Llama-3.3-70B-Instruct ", LLAMA),
        ("Llama-3.3-70B", LLAMA),
        ("llama-3.1-70b-instruct-FP8", LLAMA),
        ("Llama-3.1-70B-FP8-KV", LLAMA),
        ("Llama-3.3-70B-FP8", LLAMA),
        ("GPT-OSS-120B-MXFP4", "openai/gpt-oss-120b"),
        ("Llama 3.3 70B", LLAMA),
        ("nvidia/Llama-3.3-70B-Instruct-FP4", LLAMA),
        ("Llama-3-70B", "meta-llama/Meta-Llama-3-70B-Instruct"),
        ("Mixtral-8x7B", "mistralai/Mixtral-8x7B-Instruct-v0.1"),
        ("Llama-2-70b", "meta-llama/Llama-2-70b-chat-hf"),
        ("Llama3.1-8B", "meta-llama/Llama-3.1-8B-Instruct"),
        ("Qwen-3-32B", "Qwen/Qwen3-32B"),
        ("Qwen/QwQ-32B", "Qwen/QwQ-32B"),
        ("DeepSeek-R1-Distill-Qwen-32B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"),
        ("Kimi-K2-Thinking", "moonshotai/Kimi-K2.5"),
        ("Kimi-K2", "moonshotai/Kimi-K2-Instruct"),
        ("Mistral-Large-3-675B", "mistralai/Mistral-Large-3-675B-Instruct-2512"),
        ("granite-4.0-h-small", "ibm-granite/granite-4.0-h-small"),
        ("Command-A", "CohereLabs/c4ai-command-a-03-2025"),
        ("Llama-4-Maverick", "meta-llama/Llama-4-Maverick-17B-128E-Instruct"),
    ],
)
def test_a_model_is_found_by_what_people_call_it(name: str, found: str) -> None:
    assert measured(model=name, **BLACKWELL).replica.architecture.model_id == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("H100 SXM", "H100"),
        ("H100-SXM5-80GB", "H100"),
        ("H100 PCIe", "H100-PCIe"),
        ("H100 NVL", "H100-NVL"),
        ("nvidia h200 141gb", "H200"),
        ("A100 SXM 80", "A100"),
        ("A100 40GB", "A100-40GB"),
        ("A100 PCIe", "A100-PCIe"),
        ("A100 80GB PCIe", "A100-PCIe"),
        ("A100 PCIe 40GB", "A100-PCIe-40GB"),
        ("A10", "A10"),
        ("NVIDIA A30 24GB", "A30"),
        ("NVIDIA A10G 24GB", "A10G"),
        ("GB200 NVL72", "GB200"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("RTX PRO 6000 Blackwell", "RTX-PRO-6000"),
        ("L40", "L40"),
    ],
)
def test_a_gpu_is_found_by_what_people_call_it(name: str, found: str) -> None:
    known = accelerator_as_written(CATALOG, name)
    assert known is not None
    assert known.name == found


@pytest.mark.parametrize("name", ["V100", "T4", "A16", "H100x8", "A100 64GB", "L40G", "80GB", "NVIDIA", ""])
def test_a_gpu_that_nobody_knows_is_not_taken_for_another(name: str) -> None:
    assert accelerator_as_written(CATALOG, name) is None


@pytest.mark.parametrize("name", ["Falcon-H1", "StarCoder2", "Granite-3.3", "OLMo 2", "Ministral-3", "EXAONE-4.0"])
def test_a_family_of_several_sizes_is_not_the_one_that_the_catalog_has(name: str) -> None:
    assert architecture_as_written(CATALOG, name) is None


@pytest.mark.parametrize("name", ["Llama-3", "Qwen3-30B", "gpt-oss", "Kimi", "Instruct", ""])
def test_a_name_that_may_mean_several_models_means_none(name: str) -> None:
    assert architecture_as_written(CATALOG, name) is None


@pytest.mark.parametrize(
    ("model", "stated", "precision"),
    [
        ("Llama-3.3-70B-Instruct-FP8", "", Precision.FP8),
        ("DeepSeek-R1-NVFP4", "", Precision.NVFP4),
        ("DeepSeek-R1-0528-FP4-v2", "", Precision.NVFP4),
        ("Llama-3.3-70B-Instruct-AWQ", "", Precision.INT4),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16", "", Precision.INT4),
        ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8", "", Precision.INT8),
        ("Llama-3.3-70B-Instruct-W8A8-FP8", "", Precision.FP8),
        ("Llama-3.3-70B-Instruct", "fp8_e4m3", Precision.FP8),
        ("Llama-3.3-70B-Instruct", "int4-awq", Precision.INT4),
        ("Llama-3.3-70B-Instruct-FP8", "BF16", Precision.BF16),
        ("Llama-3.3-70B-Instruct", "W4A16", Precision.INT4),
        ("Llama-3.3-70B-Instruct", "", Precision.BF16),
    ],
)
def test_the_precision_is_what_is_stated_or_what_the_name_ends_with(
    model: str, stated: str, precision: Precision
) -> None:
    gpu = "B200" if precision is Precision.NVFP4 else "H100"
    assert precision is measured(model=model, precision=stated, gpu=gpu).replica.shape.precision
