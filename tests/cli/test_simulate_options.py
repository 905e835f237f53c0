"""Options of `weft simulate` that contradict each other, lack something, or mean the beginning of the trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.terminal import listed, node, pool, split, weft, written
from weft.cli.simulate.wishes import Clients
from weft.domain.texts.figures import moment_of, seconds
from weft.domain.texts.times import read_far_instant
from weft.twin.serving.front import FrontRule

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
    trace = () if "--trace" in options else ("--trace", SHORT)
    return weft("simulate", "-f", "pool.yaml", "--fabric", "nodes.yaml", *trace, *options)


@pytest.mark.parametrize("typed", ["roundrobin", "ROUNDROBIN", "RoundRobin"])
def test_a_front_is_taken_in_capitals_or_not(typed: str) -> None:
    assert FrontRule.RoundRobin is Clients(typed).options.rule


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fail", "x@9s"), "--fail: there is no node 'x': there are board-0, board-1, board-2 and 2 more"),
        (("--trace", "chat="), "--trace has no trace: give a file, or one of poisson, step, ramp, day, burst with"),
        (
            ("--what-if", "spec.slo.ttft.p95=1s", "--what-if", "spec.slo.ttft.p95=2s"),
            "--what-if 'spec.slo.ttft.p95=2s' overwrites 'spec.slo.ttft.p95=1s': remove one",
        ),
        (
            ("--what-if", "spec.slo.ttft.p95=1s", "--what-if", "chat.spec.slo.ttft.p95=2s"),
            "--what-if 'chat.spec.slo.ttft.p95=2s' overwrites 'spec.slo.ttft.p95=1s': remove one",
        ),
        (
            ("--what-if", "InferencePool/chat.spec.slo.ttft.p95=1s", "--what-if", "chat.spec.slo.ttft.p95=1s"),
            "--what-if 'chat.spec.slo.ttft.p95=1s' overwrites 'InferencePool/chat.spec.slo.ttft.p95=1s': remove one",
        ),
        (
            ("--what-if", "spec.slo.ttft.p95=1s", "--what-if", "spec.slo.ttft={p90: 2s}"),
            "--what-if 'spec.slo.ttft={p90: 2s}' overwrites 'spec.slo.ttft.p95=1s': remove one",
        ),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(options: tuple[str, ...], words: str) -> None:
    ending = simulated(*options)
    assert (2, "") == (ending.code, ending.out)
    assert words in ending.sentence


def test_a_field_inside_an_object_that_was_given_before_is_no_contradiction() -> None:
    wishes = ("--what-if", "spec.slo.ttft={p90: 1s}", "--what-if", "chat.spec.slo.ttft.p95=2s")
    assert {"p90": 1.0, "p95": 2.0} == json.loads(simulated(*wishes, "-o", "json").out)["slo"]["ttft_seconds"]


@pytest.mark.parametrize(
    ("until", "words"),
    [
        ("2027-01-15T09:00:00+01:00", "is over then and freezes nothing; name a later time to simulate a freeze"),
        ("2027-01-15T08:00:20Z", "freezes its first 20 s"),
        ("2027-01-16T00:00:00Z", "freezes the whole run"),
    ],
)
def test_what_a_freeze_comes_to_on_the_simulated_clock_is_told(until: str, words: str) -> None:
    """It is not the clock of whoever asks: a freeze of today would be ignored without a word."""
    ending = simulated("--what-if", f"spec.scaling.freezeUntil={until}")
    assert 0 == ending.code
    clock = "the simulated clock shows 2027-01-15T08:00:00Z when the trace begins: scaling.freezeUntil"
    assert f"weft: {clock} {moment_of(read_far_instant(until))} of InferencePool/chat {words}" == ending.sentence


def test_the_freeze_of_a_split_is_told_once(tmp_path: Path) -> None:
    body = split()
    written(
        tmp_path / "pool.yaml", body | {"spec": body["spec"] | {"scaling": {"freezeUntil": "2026-12-05T00:00:00Z"}}}
    )
    assert " of PDSplit/reasoner is over then" in simulated().sentence


def test_metrics_may_be_away_and_a_node_may_fail_from_the_beginning_on() -> None:
    """The node of the one replica, so that nobody is answered before another one has started."""
    ending = simulated(
        "--blind", "0s-30s", "--fail", "board-0@0s", "--what-if", "spec.scaling.maxReplicas=1", "-o", "json"
    )
    found = json.loads(ending.out)
    assert 0 == ending.code
    assert found["ttft_seconds"]["p50"] > 60.0 or found["failed"] > 0


def test_starts_take_what_a_plan_expects_with_the_image_there(tmp_path: Path) -> None:
    big = pool(slo=SLO)
    big["spec"]["model"] = {"id": "meta-llama/Llama-3.3-70B-Instruct"}
    told = []
    for body in (pool(slo=SLO), big):
        written(tmp_path / "pool.yaml", body)
        (planned,) = json.loads(weft("plan", "-f", "pool.yaml", "--fabric", "nodes.yaml", "-o", "json").out)
        expected = planned["pools"][0]["startUp"]
        told.append(expected["weights"] + expected["engine"])
        assert told[-1] == json.loads(simulated("-o", "json").out)["start_up_seconds"]
    assert told[0] < told[1]
    assert f"a start takes {seconds(told[1])} on a node that has the image" in simulated().out


@pytest.mark.parametrize("given", ["20", "20.0", "20s", "20000ms"])
def test_starts_may_be_said_to_be_shorter(given: str) -> None:
    assert "a start takes 20 s on a node that has the image" in simulated("--start-up", given).out


def test_every_time_of_a_simulation_may_have_a_unit() -> None:
    """As durations have in the resources."""
    bare, long = (
        simulated("--start-up", start, "--warm-up", warm_up, "--patience", patience, "-o", "JSON")
        for start, warm_up, patience in (("90", "30", "2"), ("1m30s", "30s", "2000ms"))
    )
    assert 30.0 == json.loads(bare.out)["warm_up_seconds"]
    assert _but_for_the_clock(bare.out) == _but_for_the_clock(long.out)


def _but_for_the_clock(out: str) -> object:
    return {**json.loads(out), "wall_seconds": 0}


def test_a_pool_whose_starts_take_longer_serves_a_rise_later() -> None:
    rise = ("--trace", "step:from=2,to=60,at=30,seconds=300,isl=1000,osl=200")
    found = [
        json.loads(simulated(*rise, "-o", "json", *more).out)["slo_attainment"] for more in ((), ("--start-up", "20"))
    ]
    assert found[0] < found[1]


def test_what_was_guessed_of_a_foreign_file_is_told(tmp_path: Path) -> None:
    rows = "1735689600000,gpt-4o,500,50\n1735689601000,llama-3,400,9\n"
    (tmp_path / "log.csv").write_text(f"created_at,model,prompt_tokens,completion_tokens\n{rows}")
    told = simulated("--trace", "log.csv").err
    guessed = "requests are read from created_at (milliseconds since 1970), prompt_tokens and completion_tokens"
    several = "requests of 2 models (gpt-4o: 1, llama-3: 1) are replayed together: for one alone, keep its rows"
    assert f"weft: log.csv: {guessed}\nweft: log.csv: {several}\n" in told
    assert "requests are read from" not in simulated().err


def test_a_trace_that_is_not_in_order_of_time_is_put_so_and_told_if_that_is_asked_for(tmp_path: Path) -> None:
    """Else it is refused: two traces in one file would silently be one."""
    rows = ("0.5,500,50", "20,400,60", "40,500,1")
    for name, order in (("begun.csv", rows), ("ended.csv", (rows[1], rows[0], rows[2]))):
        (tmp_path / name).write_text("\n".join(("arrival_s,input_tokens,output_tokens", *order, "")))
    refused = simulated("--trace", "ended.csv")
    assert (2, "") == (refused.code, refused.out)
    assert (
        "--trace: ended.csv, line 3: a request arrives before one above it: put the rows in order of time, or let "
        "--sort do it" in refused.sentence
    )
    put, begun = (simulated("--trace", name, "--sort", "-o", "json") for name in ("ended.csv", "begun.csv"))
    assert "weft: ended.csv: 1 request stood below later ones and was put in order of time" in put.err
    assert json.loads(put.out)["ttft_seconds"] == json.loads(begun.out)["ttft_seconds"]
    assert "in order of time" not in begun.err


def test_prefixes_that_a_mooncake_trace_shares_are_computed_once(tmp_path: Path) -> None:
    """A minute of prompts that begin alike, fifteen blocks of sixteen, and the same one without its hashes."""
    lines = [{"timestamp": 500 * each, "input_length": 8192, "output_length": 20} for each in range(120)]
    shared = [{**line, "hash_ids": [*range(15), 100 + each]} for each, line in enumerate(lines)]
    waits = []
    for name, rows in (("shared.jsonl", shared), ("apart.jsonl", lines)):
        (tmp_path / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        found = json.loads(simulated("--trace", name, "-o", "json").out)
        assert found["completed"] == 120
        waits.append(found["ttft_seconds"]["p50"])
    assert waits[0] < 0.5 * waits[1]


def test_a_failure_and_a_blind_time_may_be_numbers_of_seconds() -> None:
    """As every other time."""
    bare, long = (
        simulated("--fail", f"board-0@{at}", "--blind", blind, "-o", "json")
        for at, blind in (("5", "0-10"), ("5s", "0s-10s"))
    )
    assert 0 == bare.code, bare.err
    assert _but_for_the_clock(bare.out) == _but_for_the_clock(long.out)


def test_a_node_fails_once() -> None:
    ending = simulated("--fail", "board-0@2s", "--fail", "board-0@5s")
    assert (2, "weft: --fail: board-0 is to fail twice, and does not come back: remove one") == (
        ending.code,
        ending.sentence,
    )
    assert "must be NODE@TIME" in simulated("--fail", "@5s").sentence


def test_policies_may_be_typed_in_capitals() -> None:
    assert ["weft", "hpa"] == [
        each["policy"] for each in json.loads(simulated("--policy", "Weft,HPA", "-o", "json").out)
    ]
