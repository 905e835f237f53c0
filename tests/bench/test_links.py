"""The benchmark of links: its fabric and its split are read like those of users, and its table says what was found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bench import links
from tests.cli.terminal import weft

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("fabric", "gpus"), [("H200", 32 * 8), ("GB200", 4 * 72), ("both", 32 * 8 + 4 * 72)])
def test_a_fabric_is_as_many_gpus_as_it_says(fabric: str, gpus: int) -> None:
    nodes = links.fabric(fabric)["items"]
    assert gpus == sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in nodes)
    assert len(nodes) == len({node["metadata"]["name"] for node in nodes})


def test_the_split_is_planned_over_tcp_and_bound_by_its_links(tmp_path: Path) -> None:
    split, fabric = tmp_path / "split.json", tmp_path / "fabric.json"
    split.write_text(json.dumps(links.SPLIT))
    fabric.write_text(json.dumps(links.fabric("H200")))
    printed = weft("plan", "-f", str(split), "--fabric", str(fabric)).out
    assert "over TCP" in printed
    assert "limited by ScaleOutNetwork" in printed


def test_a_line_has_a_figure_for_each_column() -> None:
    answer = {
        "requests": 1000,
        "slo_attainment": 0.976,
        "gpu_hours": 9.0,
        "oracle_gpu_hours": 5.0,
        "ttft_seconds": {"p95": 0.2},
        "tpot_seconds": {"p95": 0.008},
    }
    line = links.row(links.RUNS[0], answer)
    assert len(links.COLUMNS) == len(line)
    assert ("1,000", "97.6", "9.0", "1.80", "0.20", "8") == line[2:]
