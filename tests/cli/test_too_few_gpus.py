"""`weft plan` and `weft fabric` say where there are fewer GPUs than something would take, or than there should be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cli.terminal import listed, node, pool, weft, written
from tests.cli.test_study import crowded, study

if TYPE_CHECKING:
    from pathlib import Path

LOAD = ("--rate", "5", "--isl", "2000:6000", "--osl", "300", "--ttft", "p95=1s", "--tpot", "p95=40ms")
LLAMA = ("--model", "meta-llama/Llama-3.3-70B-Instruct", *LOAD)


def test_a_form_for_which_the_fabric_has_too_few_gpus_says_so() -> None:
    asked, lacks = ("--fabric", "2xH100", *LLAMA), "it needs 32 H100 and the fabric has 16"
    assert lacks == study(*asked)["study"]["otherForm"]["lacks"]
    assert f"decode 2 x H100 BF16 TP8; {lacks}\n" in weft("plan", *asked).out


@pytest.mark.parametrize("fabric", [("--fabric", "4xH100"), ()])
def test_a_form_that_fits_says_nothing(fabric: tuple[str, ...]) -> None:
    """Without a fabric there is no number of GPUs that it could exceed."""
    assert study(*fabric, *LLAMA)["study"]["otherForm"]["lacks"] is None


def test_a_form_for_which_the_fabric_has_too_few_gpus_is_not_exported(tmp_path: Path) -> None:
    """The split serves the whole rate and a pool does not, but there is one rack and not two."""
    asked, file = crowded(tmp_path, "InferencePool", 2, 220), tmp_path / "out.yaml"
    found = json.loads(weft("plan", "-f", asked, "--fabric", "18xGB200", "--export", str(file), "-o", "json").out)
    assert found[0]["pools"][0]["study"]["otherForm"]["lacks"]
    assert yaml.safe_load(file.read_text())["kind"] == "InferencePool"


def test_a_second_choice_says_what_lacks_places_and_not_that_it_runs_already(tmp_path: Path) -> None:
    """A plan decides more than once, and by the second time the first choice is there; it saves less than a change."""
    load = {"requestsPerSecond": "90", "inputTokens": {"mean": 2000}, "outputTokens": {"mean": 300}}
    targets = {"ttft": {"p95": "2s"}, "tpot": {"p95": "50ms"}}
    file = written(tmp_path / "pool.yaml", pool(workload=load, slo=targets))
    out = weft("plan", "-f", file, "--fabric", "1xH200,1xH100").out
    assert "HolesTooSmall: H100 BF16 TP1 would be better, but nothing has room for 10 of it" in out
    assert "ShapeKept" not in out
    assert "the running" not in out


def test_gpus_that_nodes_have_lost_are_counted_beside_the_others(tmp_path: Path) -> None:
    broken, whole = node("b-0", "NVIDIA-H200", 8), node("b-1", "NVIDIA-H200", 8)
    broken["status"]["allocatable"] = {"nvidia.com/gpu": "6"}
    file = written(tmp_path / "nodes.yaml", listed(broken, whole))
    head = weft("fabric", "-f", file).out.partition("\n")[0]
    assert head == "fabric: 2 NVLink domains, 14 GPUs, 14 free, 2 more that nodes have lost"
    nodes = [each["nodes"][0] for each in json.loads(weft("fabric", "-f", file, "-o", "json").out)["domains"]]
    assert [(6, 2), (8, 0)] == [(each["gpus"], each["lost"]) for each in nodes]
