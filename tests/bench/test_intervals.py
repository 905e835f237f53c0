"""Intervals of what few rows tell of: an engine has those of its kind of model, and a kind has those of all rows."""

from __future__ import annotations

import csv
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from bench.fitting.fit import Problem
from bench.fitting.intervals import spreads
from bench.fitting.left_out import Ratios
from bench.fitting.rows import read

if TYPE_CHECKING:
    from pathlib import Path

DENSE, EXPERTS = "Llama-3.1-8B-Instruct", "Qwen3-30B-A3B"


class Group(NamedTuple):
    """Rows alike: how many, how slow each is measured for what is predicted, in a crowd or not, and if they count."""

    engine: str
    model: str
    rows: int
    slow: float
    crowd: bool = False
    counts: bool = True


GROUPS = (
    Group("vllm", DENSE, 20, 1.5),
    Group("vllm", DENSE, 12, 1.5, crowd=True),
    Group("sglang", DENSE, 15, 0.5),
    Group("sglang", DENSE, 10, 0.5, crowd=True),
    Group("vllm", EXPERTS, 25, 3.0),
    Group("trtllm", EXPERTS, 5, 3.0),
    Group("trtllm", EXPERTS, 25, 9.0, crowd=True, counts=False),
)
EVERY = tuple(chain.from_iterable(repeat(group, group.rows) for group in GROUPS))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[float]]]:
    """Divisor and factor of each figure, by kind of model, and by engine and kind."""
    slow = np.array([each.slow for each in EVERY])
    crowd, counted = (np.array(column) for column in zip(*((each.crowd, each.counts) for each in EVERY), strict=True))
    problem = problem_of(tmp_path_factory.mktemp("spreads") / "rows.csv")
    return spreads(problem, Ratios(1.0 / slow, 1.0 / slow, slow), counted, crowd)


def problem_of(file: Path) -> Problem:
    """A row for each; what was measured is no matter, as the ratios are given."""
    columns = {
        "source": "a sweep",
        "gpu": "H200",
        "n_gpus": "1",
        "engine_version": "",
        "precision": "FP8",
        "tp": "1",
        "isl": "1000",
        "osl": "500",
        "request_rate": "",
        "output_tok_s_total": "",
        "ttft_ms": "100",
        "tpot_ms": "10",
        "note": "",
        "concurrency": "16",
    }
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, fieldnames=["engine", "model", *columns])
        writer.writeheader()
        writer.writerows({**columns, "engine": each.engine, "model": each.model} for each in EVERY)
    return Problem(read(file))


def test_a_kind_has_intervals_of_its_own_and_an_engine_where_enough_rows_tell(
    found: dict[str, dict[str, list[float]]],
) -> None:
    """Five rows that count are too few, however many there are that do not."""
    assert ["SGLang dense", "VLLM dense", "VLLM experts", "dense", "experts"] == list(found)
    assert ([2.0, 1.5], [1.02, 3.0]) == (found["dense"]["tpot"], found["experts"]["tpot"])
    assert ([1.02, 1.5], [2.0, 1.02]) == (found["VLLM dense"]["tpot"], found["SGLang dense"]["tpot"])
    assert ([1.5, 1.02], [1.02, 2.0]) == (found["VLLM dense"]["output_rate"], found["SGLang dense"]["output_rate"])


def test_what_an_engine_has_too_few_rows_of_is_as_of_its_kind(found: dict[str, dict[str, list[float]]]) -> None:
    """Those of SGLang are enough together, and neither those in a crowd nor the others are."""
    assert [1.02, 1.5] == found["VLLM dense"]["ttft"]
    assert [2.0, 1.5] == found["dense"]["ttft"] == found["SGLang dense"]["ttft"]
    assert (
        found["dense"]["crowded_ttft"] == found["VLLM dense"]["crowded_ttft"] == found["SGLang dense"]["crowded_ttft"]
    )


def test_what_a_kind_has_too_few_rows_of_is_as_of_all(found: dict[str, dict[str, list[float]]]) -> None:
    """No mixture of experts was measured in a crowd, and what was slow without one tells nothing of it."""
    assert [2.0, 1.5] == found["experts"]["crowded_ttft"] == found["VLLM experts"]["crowded_ttft"]
    assert {"ttft", "crowded_ttft", "tpot", "output_rate"} == set(found["experts"])
