"""A row is asked for as a user of aiconfigurator would ask: names, lengths, batch, sizes and precisions are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.aic.questions import questions
from tests.bench.peer_rows import rows_of

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = {"gemm_quant_mode": "fp8_block", "moe_quant_mode": "fp8_block"}
GPT_OSS = {"model": "gpt-oss-120b", "precision": "MXFP4"}
DEEPSEEK = {"model": "DeepSeek-R1", "n_gpus": "8", "tp": "8"}


def ways(folder: Path, **columns: str) -> list[dict[str, Any]]:
    (row,) = rows_of(folder / "rows.csv", columns)
    return [dict(question.arguments) for question in questions(row)]


def among(asked: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: way[name] for name in names if name in way} for way in asked]


def test_a_dense_row_has_one_way_with_the_mean_lengths_of_its_source(tmp_path: Path) -> None:
    """InferenceX draws lengths from 0.8 to 1.0 of the nominal ones."""
    assert [
        {
            "model_path": "meta-llama/Meta-Llama-3.1-70B",
            "system_name": "h200_sxm",
            "backend_name": "vllm",
            "isl": 900,
            "osl": 450,
            "batch_size": 16,
            "tp_size": 4,
            "pp_size": 1,
            "attention_dp_size": 1,
            "gemm_quant_mode": "fp8",
        }
    ] == ways(tmp_path, source="InferenceX (a table)")


def test_users_are_divided_by_the_ranks_of_attention(tmp_path: Path) -> None:
    asked = ways(tmp_path, **DEEPSEEK | {"tp": "1", "dp": "8", "ep": "8", "concurrency": "100", "engine": "sglang"})
    assert [{"batch_size": 12, "attention_dp_size": 8}] * 2 == among(asked, "batch_size", "attention_dp_size")


@pytest.mark.parametrize(
    ("engine", "groups", "expected"),
    [
        ("vllm", "1", [(8, 1), (1, 8)]),
        ("vllm", "4", [(1, 8)]),  # it parts experts over all GPUs or not at all
        ("sglang", "4", [(2, 4), (1, 8)]),
        ("trtllm", "8", [(1, 8)]),
    ],
)
def test_experts_are_parted_as_stated_else_over_all_gpus(
    tmp_path: Path, engine: str, groups: str, expected: list[tuple[int, int]]
) -> None:
    asked = ways(tmp_path, **DEEPSEEK | {"engine": engine, "ep": groups, "precision": "NVFP4", "gpu": "B200"})
    assert expected == [(way["moe_tp_size"], way["moe_ep_size"]) for way in asked]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (DEEPSEEK | {"engine": "trtllm"}, [{"gemm_quant_mode": "fp8", "moe_quant_mode": "fp8"}, BLOCKS]),
        (DEEPSEEK | {"engine": "sglang"}, [{"gemm_quant_mode": "fp8", "moe_quant_mode": "fp8_block"}, BLOCKS]),
        (DEEPSEEK | {"gpu": "B200", "precision": "FP4"}, [{"gemm_quant_mode": "nvfp4", "moe_quant_mode": "nvfp4"}]),
        (GPT_OSS | {"engine": "trtllm", "gpu": "B200"}, [{"moe_quant_mode": "w4a8_mxfp4_mxfp8"}, {}]),
        (GPT_OSS | {"engine": "trtllm", "gpu": "H200"}, [{}]),
        (GPT_OSS | {"engine": "vllm", "gpu": "B200"}, [{}]),
        ({"precision": "BF16"}, [{}]),
    ],
)
def test_precisions_have_its_names_the_usual_one_first(
    tmp_path: Path, columns: dict[str, str], expected: list[dict[str, str]]
) -> None:
    asked = ways(tmp_path, **columns)
    first = [way for way in asked if way.get("moe_ep_size") == asked[0].get("moe_ep_size")]
    assert expected == among(first, "gemm_quant_mode", "moe_quant_mode")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"engine": "trtllm"}, {"kvcache_quant_mode": "fp8"}),
        ({"engine": "vllm"}, {}),
        ({"engine": "vllm", "kv_precision": "FP8"}, {"kvcache_quant_mode": "fp8"}),
        ({"engine": "trtllm", "kv_precision": "BF16"}, {}),
    ],
)
def test_fp8_kv_is_asked_for_where_it_is_stated_or_tensorrt_takes_it_from_the_checkpoint(
    tmp_path: Path, columns: dict[str, str], expected: dict[str, str]
) -> None:
    assert [expected] == among(ways(tmp_path, **columns), "kvcache_quant_mode")


def test_a_gpu_that_it_does_not_know_is_not_asked_about(tmp_path: Path) -> None:
    assert [] == ways(tmp_path, gpu="MI300X")


def test_sizes_of_every_way_are_those_of_the_row(tmp_path: Path) -> None:
    """Its own rule: tensor times data ranks of attention are the groups of experts by tensor times those by expert."""
    engines, sizes = ("vllm", "sglang", "trtllm"), (("8", "1", "8"), ("4", "2", "2"), ("2", "4", "8"), ("1", "8", "1"))
    varied = [
        GPT_OSS | {"engine": engine, "n_gpus": "8", "tp": tensor, "dp": ranks, "ep": groups, "gpu": "B200"}
        for engine in engines
        for tensor, ranks, groups in sizes
    ]
    asked = [dict(way.arguments) for row in rows_of(tmp_path / "rows.csv", *varied) for way in questions(row)]
    assert len(asked) >= len(varied)
    assert {8} == {int(way["tp_size"]) * int(way["attention_dp_size"]) for way in asked}
    assert {8} == {int(way["moe_tp_size"]) * int(way["moe_ep_size"]) for way in asked}
