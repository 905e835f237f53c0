"""Options of `weft simulate` that contradict each other, lack something, or mean the beginning of the trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.terminal import listed, node, pool, weft, written

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.terminal import Ending

SHORT = "poisson:rate=2,seconds=60,isl=500,osl=50"
SLO = {"ttft": {"p95": "1s"}, "tpot": {"p95": "50ms"}}


@pytest.fixture(autouse=True)
def in_a_folder_with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool, and five boards."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "pool.yaml", pool(slo=SLO))
    written(tmp_path / "nodes.yaml", listed(*(node(f"board-{index}") for index in range(5))))


def simulated(*options: str) -> Ending:
    return weft("simulate", "-f", "pool.yaml", "--fabric", "nodes.yaml", "--trace", SHORT, *options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fail", "x@9s"), "--fail: there is no node 'x': there are board-0, board-1, board-2 and 2 more"),
        (
            ("--what-if", "spec.slo.ttft.p95=1s", "--what-if", "spec.slo.ttft.p95=2s"),
            "--what-if gives 'spec.slo.ttft.p95' twice: leave one",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(options: tuple[str, ...], words: str) -> None:
    ending = simulated(*options)
    assert (2, "") == (ending.code, ending.out)
    assert words in ending.sentence


def test_a_field_of_one_resource_may_differ_from_that_of_all() -> None:
    wishes = ("--what-if", "spec.slo.ttft.p95=1s", "--what-if", "chat.spec.slo.ttft.p95=2s")
    assert {"p95": 2.0} == json.loads(simulated(*wishes, "-o", "json").out)["slo"]["ttft_seconds"]


def test_metrics_may_be_away_and_a_node_may_fail_from_the_beginning_on() -> None:
    """The node of the one replica, so that nobody is answered before another one has started."""
    ending = simulated(
        "--blind", "0s-30s", "--fail", "board-0@0s", "--what-if", "spec.scaling.maxReplicas=1", "-o", "json"
    )
    found = json.loads(ending.out)
    assert 0 == ending.code
    assert found["ttft_seconds"]["p50"] > 60.0 or found["failed"] > 0


def test_starts_that_a_plan_expects_to_be_far_longer_are_told_with_the_option_that_simulates_them(
    tmp_path: Path,
) -> None:
    big = pool(slo=SLO)
    big["spec"]["model"] = {"id": "meta-llama/Llama-3.3-70B-Instruct"}
    written(tmp_path / "pool.yaml", big)
    told = simulated().err
    assert "`weft plan` expects" in told
    assert "110 s are simulated" in told
    seconds = told.partition("--start-up ")[2].split()[0]
    assert "weft plan" not in simulated("--start-up", seconds).err


def test_starts_that_are_about_as_long_as_a_plan_expects_are_not_worth_a_word() -> None:
    assert "weft plan" not in simulated().err
