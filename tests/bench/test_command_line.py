"""One command: JSON on stdout and for programs in a file, a table on stderr, and a verdict as its exit code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from bench.__main__ import BENCHMARKS, USUAL, Benchmark, chosen, main
from bench.result import Result

if TYPE_CHECKING:
    from pathlib import Path

QUICK = {
    "fast": Benchmark("one look", lambda: (Result("fast", 1.0, "s", 2.0, {"size": 3}),)),
    "slow-cold": Benchmark("one look", lambda: (Result("slow-cold", 3.0, "s", 2.0),)),
    "slow-warm": Benchmark("one look", lambda: (Result("slow-warm", 1.5, "s", 2.0),)),
}


def test_the_figures_are_one_document_on_stdout_and_in_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "new" / "figures.json"
    assert main(["fast", "--json", str(file)], QUICK, ("fast",)) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told == json.loads(file.read_text())
    assert ["fast"] == [result["name"] for result in told["results"]]
    assert told["results"][0]["details"].keys() == {"size", "load_average_before"}
    assert "passed" in printed.err


def test_a_missed_floor_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fast", "slow"], QUICK, ("fast",)) == 1
    told = json.loads(capsys.readouterr().out)
    assert [("fast", True), ("slow-cold", False), ("slow-warm", True)] == [
        (result["name"], result["passed"]) for result in told["results"]
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fast", "quick"], "unknown benchmark quick: choose from fast, slow-cold, slow-warm"),
        (["--json", "/"], "cannot write /: Is a directory"),
    ],
    ids=["unknown name", "unwritable file"],
)
def test_what_cannot_be_done_is_said_before_anything_is_measured(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments, QUICK, ("fast",))
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert sentence in printed.err
    assert printed.out == ""


def test_a_name_may_stand_for_its_variants() -> None:
    assert chosen(["test", "decide", "test-cold"], BENCHMARKS) == ["test-cold", "test-cached", "decide"]
    assert chosen(USUAL, BENCHMARKS) == ["decide", "demo"]
