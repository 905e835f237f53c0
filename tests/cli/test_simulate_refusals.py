"""What `weft simulate` refuses: one sentence, exit code 2, no output."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.simulated import ROWS, SHORT, assert_refused, fill, simulated
from tests.cli.terminal import listed, node, pool, split, weft, written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def in_a_folder_with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool, a split, both together, and two boards."""
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)


WRONG_OPTIONS = {
    "an unknown policy": (("--policy", "hpaa"), "there is no policy 'hpaa', perhaps hpa: there are weft, hpa"),
    "an unknown node": (("--fail", "board-7@9s"), "there is no node 'board-7', perhaps board-"),
    "a fault without a time": (("--fail", "board-0"), "must be NODE@TIME"),
    "a fault at no time": (("--fail", "board-0@soon"), "'soon' is not a duration"),
    "a fault after the end": (("--fail", "board-0@2h"), "is too late: the last request comes at"),
    "an unknown field": (("--what-if", "spec.sloo.ttft.p95=1s"), "spec.sloo: unknown field, perhaps slo"),
    "a wrong value": (("--what-if", "spec.slo.ttft.p95=fast"), "spec.slo.ttft.p95: must be a duration"),
    "no field": (("--what-if", "slo=1"), "must be KEY=VALUE with a field below spec"),
    "an unknown resource": (("--pool", "big"), "--pool 'big' is not among the resources: there is InferencePool/chat"),
    "nothing but warm-up": (("--warm-up", "60"), "--warm-up leaves nothing"),
    "a negative start-up": (("--start-up", "-1"), "'--start-up'"),
    "no requests at all": (("--scale", "0"), "'--scale'"),
    "too many requests": (("--scale", "1e6"), "--scale: 1.24e+08 requests are more than the 50,000,000"),
    "hardly a request": (
        ("--scale", "1e-6"),
        "no resource gets a request: give a trace or a larger --scale than 1e-06 to InferencePool/chat",
    ),
    "no number": (("--scale", "nan"), "'--scale'"),
    "a front that there is not": (("--front", "Random"), "--front 'Random' is none of RoundRobin, LeastLoad"),
    "no patience at all": (("--patience", "0"), "'--patience'"),
    "fewer than no retries": (("--retries", "-1"), "'--retries'"),
    "a time without end": (("--blind", "10m"), "--blind '10m' must be FROM-TO, such as 10m-20m"),
    "an end before its beginning": (("--blind", "20m-10m"), "--blind '20m-10m' ends before it begins"),
    "a page on standard output": (("--html", "-"), "cannot write to -: standard output has the answer, so name a file"),
    "a page in a folder that takes none": (("--html", "/proc/report.html"), "cannot write /proc/report.html: "),
    "a page without a folder": (("--html", "no/report.html"), "cannot write no/report.html: there is no such folder"),
}
WRONG_TRACES = {
    "a missing column": ("arrival_s,input_tokens\n1,2\n", "trace lacks the tokens of an answer (output_tokens)"),
    "a negative time": (f"{ROWS}-5,1,1\n", "trace, line 2: a request arrives at -5 s, but times count from 0"),
    "times that go back": (
        f"{ROWS}5,1,1\n1,1,1\n6,1,1\n2,1,1\n",
        "trace, line 3: a request arrives before one above it (2 requests do): put the rows in order of time, or let",
    ),
    "no tokens": (f"{ROWS}5,0,1\n", "trace has no requests: no row has tokens of both"),
    "a time in words": (f"{ROWS}noon,1,1\n", "trace, line 2: 'noon,1,1' is no request: arrival_s takes seconds"),
    "an empty file": ("", "trace is empty"),
    "a head alone": (ROWS, "trace has no requests"),
    "a binary file": ("\x00\x01\udcff\udcfe", "trace is not text"),
    "a cell without end": (f'"{"x" * 200_000}\n', "trace"),
}


@pytest.mark.parametrize(("options", "words"), WRONG_OPTIONS.values(), ids=WRONG_OPTIONS)
def test_a_wrong_option_is_one_sentence(options: tuple[str, ...], words: str) -> None:
    assert_refused(simulated(*options), words)


def test_a_rule_whose_library_is_not_here_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pmdarima", None)
    refused = simulated("--policy", "weft", "--policy", "dynamo-arima")
    assert_refused(refused, "--policy dynamo-arima needs pmdarima, which is not here: install weft[predictors]")


@pytest.mark.parametrize(("content", "words"), WRONG_TRACES.values(), ids=WRONG_TRACES)
def test_a_wrong_trace_is_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "trace").write_bytes(content.encode(errors="surrogateescape"))
    assert_refused(simulated(trace="trace"), words)


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ("nowhere.csv", "cannot read nowhere.csv: No such file"),
        (".", "cannot read .: Is a directory"),
        ("", "--trace has no trace: give a file, or one of poisson"),
        ("poissson:rate=2", "'poissson' is no trace that can be made up, perhaps poisson: there are poisson, step"),
        ("poisson:speed=2", "poisson has no 'speed': it takes seconds, isl, osl, rate"),
        ("poisson:rate=fast", "poisson: rate takes a number, not 'fast'"),
        ("poisson:rate=0", "has no requests"),
        ("burst:lasting=9,every=5", "bursts that last 9 s cannot come every 5 s"),
    ],
)
def test_a_trace_that_is_not_there_is_one_sentence(trace: str, words: str) -> None:
    assert_refused(simulated(trace=trace), words)


def test_resources_that_cannot_be_simulated_are_refused(tmp_path: Path) -> None:
    half = written(tmp_path / "half.yaml", pool(role="Prefill"))
    handed = written(tmp_path / "kueue.yaml", pool(placement={"scheduler": {"name": "Kueue", "queue": "team"}}))
    assert_refused(simulated(file="both.yaml"), "there are InferencePool/chat, PDSplit/reasoner: say with --pool which")
    assert_refused(simulated(file="nodes.yaml"), "there is no InferencePool and no PDSplit of weft.dev/v1alpha1")
    assert_refused(simulated(file=half), "has the role Prefill and answers no request alone")
    assert_refused(simulated(file=handed), "is placed by Kueue, which a simulation does not have: --what-if spec.plac")
    body = split()
    body["spec"] |= {"kvTransfer": {"transport": "NVLink"}, "placement": {"accelerators": ["GB200"]}}
    racked = written(tmp_path / "racked.yaml", body)
    assert_refused(weft("simulate", "-f", racked, "--trace", SHORT), "spec.kvTransfer.transport NVLink is not simul")


def test_a_fabric_without_room_for_a_replica_is_refused() -> None:
    ending = weft("simulate", "-f", "pool.yaml", "--fabric", "full.yaml", "--trace", SHORT)
    assert_refused(ending, "InferencePool/chat cannot run here: ")


def test_a_split_that_cannot_run_is_refused_with_the_reason_of_the_half_that_has_one(tmp_path: Path) -> None:
    body = split()
    body["spec"]["model"] = {"id": "deepseek-ai/DeepSeek-V3"}
    written(tmp_path / "small.yaml", listed(node("solo", gpus=1)))
    ending = weft("simulate", "-f", written(tmp_path / "big.yaml", body), "--fabric", "small.yaml", "--trace", SHORT)
    assert_refused(ending, "PDSplit/reasoner cannot run here: ModelDoesNotFit: deepseek-ai/DeepSeek-V3 fits no allowed")


def test_both_file_and_trace_are_needed_and_one_of_them_may_be_standard_input() -> None:
    assert_refused(weft("simulate"), "give --file with a resource, and its requests with --trace or --from-prometheus")
    assert_refused(weft("simulate", "-f", "pool.yaml"), "weft: give the requests with --trace (a file, or one such as")
    assert "weft: give --file with a resource" == weft("simulate", "--trace", SHORT).sentence
    assert_refused(weft("simulate", "-f", "-", "--trace", "-"), "standard input can be read once")
    from_input = "simulate -f pool.yaml --fabric nodes.yaml --trace - -o json"
    ending = weft(*from_input.split(), stdin=f"{ROWS}1,9,9\n2,9,9\n")
    assert 2 == json.loads(ending.out)["requests"]
