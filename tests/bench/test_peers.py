"""The comparison with another planner: its figures by hand, and where those on the page are from."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from bench.aic.plans import our_plan
from bench.aic.scored import Predicted, among_all, answers, latencies, off, scores
from bench.aic.section import section
from bench.fitting.fit import Problem
from bench.peers import add_options, compared
from tests.bench.peer_rows import VERSION, interpreter_in, rows_of, times_asked

if TYPE_CHECKING:
    from pathlib import Path

    from bench.fitting.rows import Row

REFUSED = Predicted(refused="RuntimeError")


def measured(folder: Path, *users_and_tpot: tuple[str, str], **columns: str) -> tuple[Row, ...]:
    varied = ({"concurrency": users, "tpot_ms": tpot, **columns} for users, tpot in users_and_tpot)
    return rows_of(folder / "rows.csv", *varied)


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    """Three loads of one place: 10, 20 and 40 ms, the more the richer."""
    return Problem(measured(tmp_path, ("8", "10"), ("32", "20"), ("128", "40")))


def test_errors_are_those_of_rows_with_an_answer_alone(problem: Problem) -> None:
    found = scores(problem, [Predicted(0.2, 0.011), REFUSED, Predicted(0.1, 0.052, overfull=True)])
    assert (3, 2, 1, {"RuntimeError": 1}) == tuple(found[name] for name in ("rows", "answered", "overfull", "refused"))
    assert [1] == found["unanswered"]
    assert {"rows": 2, "median": 0.2, "p90": 0.28} == found["tpot"]
    assert {"rows": 2, "median": 0.5, "p90": 0.9} == found["ttft"]


@pytest.mark.parametrize("tpot", [0.0, np.nan, np.inf, -1.0])
def test_a_number_that_is_no_latency_is_no_answer(tpot: float) -> None:
    assert not Predicted(0.1, tpot).is_answered


def test_picks_are_made_among_the_answered_rows_and_a_broken_one_counts_nothing(problem: Problem) -> None:
    """The load of 40 ms is believed to take 25: it is picked for 30 ms and breaks, and holds for 50 ms."""
    believed = [Predicted(0.1, 0.010), REFUSED, Predicted(0.1, 0.025)]
    picked = off(problem, latencies(believed), answers(believed))["choice"]["no_margin"]
    assert (4, 0.25, 0.75, 1.0) == tuple(
        picked[name] for name in ("choices", "broken", "of_the_best", "of_the_best_where_held")
    )


def test_a_tenth_of_margin_keeps_what_is_just_inside_from_being_picked(problem: Problem) -> None:
    """Believed to take 29 ms, the load of 40 ms is taken for a limit of 30 without a margin only."""
    believed = [Predicted(0.1, 0.010), Predicted(0.1, 0.020), Predicted(0.1, 0.029)]
    picked = off(problem, latencies(believed), answers(believed))["choice"]
    assert 0.25 == picked["no_margin"]["broken"]
    assert 0.0 == picked["our_margin"]["broken"]


def test_among_all_candidates_an_abstention_counts_nothing(tmp_path: Path) -> None:
    """Two accelerators, four choices each; of one it knows nothing."""
    place = {"n_gpus": "4", "isl": "1000"}
    rows = rows_of(
        tmp_path / "both.csv",
        *({**place, "gpu": gpu, "concurrency": users} for gpu in ("H100", "H200") for users in ("8", "16")),
    )
    believed = [REFUSED, REFUSED, Predicted(0.1, 0.010), Predicted(0.1, 0.010)]
    found = among_all(Problem(rows), latencies(believed), 1.0)
    assert {"choices": 8, "abstained": 0.5, "broken": 0.0, "of_the_best": 0.5} == found


def test_a_candidate_without_an_answer_is_never_picked_but_is_missed(problem: Problem) -> None:
    """Of the richest inside 50 ms nothing is known: what is picked in its place is poorer."""
    found = among_all(problem, latencies([Predicted(0.1, 0.010), Predicted(0.1, 0.020), REFUSED]), 1.0)
    assert found["abstained"] == found["broken"] == 0.0
    rates = [users / (0.1 + 500 * tpot) for users, tpot in ((32, 0.020), (128, 0.040))]
    assert (3 + rates[0] / rates[1]) / 4 == pytest.approx(found["of_the_best"], abs=1e-4)


def test_without_any_answer_there_are_no_errors_to_tell(problem: Problem) -> None:
    found = scores(problem, [REFUSED] * 3)
    assert 0 == found["answered"]
    assert "tpot" not in found
    assert {1.0} == {each["abstained"] for each in found["choice_among_all"].values()}


def options(*words: object) -> Any:  # noqa: ANN401 - as argparse has it
    parser = ArgumentParser()
    add_options(parser)
    return parser.parse_args([str(word) for word in words])


def test_figures_are_measured_kept_and_shown_with_where_they_are_from(tmp_path: Path) -> None:
    """Its TPOT in milliseconds is half the users: 8 users have 4 instead of 10. No path of the machine is kept."""
    rows = measured(tmp_path, ("8", "10"), ("32", "20"))
    rows += rows_of(tmp_path / "too-long.csv", {"isl": "13"})
    kept = tmp_path / "peers.json"
    asked = options("--aiconfigurator", interpreter_in(tmp_path), "--cache", tmp_path / "cache", "--peers", kept)
    now = compared(rows, asked)
    assert now is not None
    assert (VERSION, 3, 2) == (now["version"], now["theirs"]["rows"], now["theirs"]["answered"])
    assert {"rows": 2, "median": 0.4, "p90": 0.56} == now["theirs"]["tpot"]
    assert 2 == now["ours"]["tpot"]["rows"]
    assert "ValueError" == now["plans"]["theirs"]["sglang"]["refused"]
    assert "/a/path" not in kept.read_text()
    later = compared(rows, options("--peers", kept))
    assert now == later
    page = section(later)
    assert f"on {now['date']} ({now['machine']['words']})." in page
    assert "| TPOT, median / 90th percentile | 40.0% / 56.0% |" in page
    assert "Rows without an answer: out of memory 1." in page
    assert times_asked(tmp_path) == 3
    compared(rows, asked)
    assert times_asked(tmp_path) == 3, "the cache has them"


def test_figures_of_another_table_are_said_to_be_that(tmp_path: Path) -> None:
    rows, kept = measured(tmp_path, ("8", "10")), tmp_path / "peers.json"
    compared(rows, options("--aiconfigurator", interpreter_in(tmp_path), "--peers", kept))
    others = compared(measured(tmp_path, ("8", "11")), options("--peers", kept))
    assert others is not None
    assert others["ours"] is None
    assert "| TPOT, median / 90th percentile | 60.0% / 60.0% | - |" in section(others)
    assert "on another table than the rest of this page" in section(others)


def test_where_it_never_ran_the_page_says_so_and_has_no_figure(tmp_path: Path) -> None:
    found = compared(measured(tmp_path, ("8", "10")), options("--peers", tmp_path / "none.json"))
    assert found is None
    words = section(found)
    assert "was not run" in words
    assert not any(letter.isdigit() for letter in words)


def test_our_plan_of_a_rack_takes_seconds_at_most() -> None:
    """It is one that has a place; a plan that has none would be no answer to the question."""
    taken = our_plan()
    assert 0 < taken["seconds"] < 30
    assert 0 < taken["processor_seconds"] < 30
