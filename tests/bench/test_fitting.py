"""Fitting finds the coefficients that made a table, the same ones every time, and only from the rows it may see."""

from __future__ import annotations

import csv
from dataclasses import replace
from itertools import cycle, product
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bench.fitting.fit import Problem
from bench.fitting.left_out import leaving_out, ratios, shares_its_precision
from bench.fitting.newer import leaving_newer_out, month, newest
from bench.fitting.priors import PRIORS
from bench.fitting.rows import Row, of_kind, read
from bench.fitting.solve import STEP, Vector, least_squares
from weft.perf.benchmarks.closed_loop import Latencies
from weft.perf.benchmarks.measured import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

COLUMNS = {
    "source": "a sweep",
    "n_gpus": "2",
    "engine_version": "",
    "precision": "FP8",
    "tp": "2",
    "isl": "1000",
    "osl": "500",
    "request_rate": "",
    "output_tok_s_total": "",
    "ttft_ms": "100",
    "tpot_ms": "10",
    "note": "",
}
MODELS = ("Llama-3.1-8B-Instruct", "Llama-3.3-70B-Instruct", "Qwen3-32B", "Qwen3-30B-A3B")
# Factors on what is expected of each coefficient beforehand: the world that a synthetic table comes from.
WORLD = {"weights": 0.85, "kv": 1.2, "layer_us": 0.7, "moe_layer_us": 1.5, "prefill": 0.8, "request_ms": 1.6}


def row(model: str, **columns: str) -> dict[str, str]:
    return {**COLUMNS, "model": model, "gpu": "H200", "engine": "vllm", "concurrency": "16", **columns}


def table(file: Path, rows: list[dict[str, str]]) -> tuple[Row, ...]:
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return read(file)


def with_latencies(problem: Problem, found: Latencies) -> tuple[Row, ...]:
    """The rows as if these latencies, arrays over rows, had been measured."""
    measured = zip(problem.rows, np.asarray(found.ttft), np.asarray(found.tpot), strict=True)
    return tuple(replace(each, ttft=float(ttft), tpot=float(tpot)) for each, ttft, tpot in measured)


def everything(problem: Problem) -> NDArray[np.bool_]:
    return np.ones(len(problem.rows), dtype=bool)


def furthest(predicted_over_measured: Vector) -> float:
    return float(np.abs(predicted_over_measured - 1.0).max())


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """Forty rows that the model's own formulas give in a world with other coefficients."""
    loads = (("1", "1000"), ("8", "500"), ("32", "2000"), ("64", "200"), ("128", "1000"))
    cases = zip(product(MODELS, loads, ("1", "2")), cycle(("vllm", "sglang", "sglang")), strict=False)
    written = [
        row(model, engine=engine, concurrency=users, isl=length, tp=size)
        for (model, (users, length), size), engine in cases
    ]
    problem = Problem(table(tmp_path_factory.mktemp("fit") / "rows.csv", written))
    world = [np.log(WORLD.get(term.coefficient, 1.0)) if not term.about else 0.0 for term in problem.terms]
    return Problem(with_latencies(problem, problem.latencies(problem.start + np.array(world))))


def test_the_coefficients_that_made_a_table_are_found_in_it(synthetic: Problem) -> None:
    before = ratios(synthetic, synthetic.latencies(synthetic.start))
    unknowns = synthetic.fit(everything(synthetic))
    after = ratios(synthetic, synthetic.latencies(unknowns))
    assert min(furthest(before.tpot), furthest(before.ttft)) > 0.1
    assert furthest(after.tpot) < 0.03
    assert furthest(after.ttft) < 0.05
    assert furthest(after.output_rate) < 0.03
    found = synthetic.coefficients(unknowns)
    for name in ("weights", "prefill", "layer_us", "moe_layer_us", "request_ms"):
        assert found[name].at(synthetic.about[0]) / PRIORS[name].base == pytest.approx(WORLD[name], rel=0.12)


def test_two_fits_give_the_same_numbers_to_the_last_digit(synthetic: Problem) -> None:
    chosen = np.arange(len(synthetic.rows)) % 2 == 0
    assert np.array_equal(synthetic.fit(chosen), Problem(synthetic.rows).fit(chosen))


def test_what_a_fit_may_not_see_changes_nothing_but_its_own_errors(synthetic: Problem) -> None:
    """One architecture is measured three times too slow: predictions of it come from the others, as before."""
    groups = [each.architecture for each in synthetic.rows]
    wrong = np.array([3.0 if group.endswith("Qwen3-32B") else 1.0 for group in groups])
    slower = Latencies(synthetic.ttft * wrong, synthetic.tpot * wrong)
    corrupt = Problem(with_latencies(synthetic, slower))
    right, misled = leaving_out(synthetic, groups), leaving_out(corrupt, groups)
    own = wrong > 1
    assert 10 == own.sum()
    assert right.tpot[own] == pytest.approx(3.0 * misled.tpot[own], rel=1e-9)
    assert right.ttft[own] == pytest.approx(3.0 * misled.ttft[own], rel=1e-9)
    assert (np.abs(right.tpot - misled.tpot)[~own] > 1e-3).all()


def test_a_fit_sees_only_the_rows_that_are_chosen(synthetic: Problem) -> None:
    nothing = ~everything(synthetic)
    assert np.array_equal(synthetic.fit(nothing), synthetic.start)
    assert not np.array_equal(synthetic.fit(everything(synthetic)), synthetic.start)


def test_a_precision_that_one_architecture_has_alone_cannot_be_learnt_from_others(tmp_path: Path) -> None:
    lonely = row("gpt-oss-120b", precision="MXFP4")
    problem = Problem(table(tmp_path / "rows.csv", [row(MODELS[0]), lonely, row(MODELS[1]), lonely]))
    assert [True, False, True, False] == shares_its_precision(problem).tolist()


def test_rows_that_are_not_to_be_scored_are_left_out(tmp_path: Path) -> None:
    written = [row(MODELS[0]), row("a model that nobody knows", note="static batch; do not score"), row(MODELS[1])]
    assert ["10", "30"] == [
        each.columns["concurrency"]
        for each in table(
            tmp_path / "rows.csv",
            [{**one, "concurrency": users} for one, users in zip(written, ("10", "20", "30"), strict=True)],
        )
    ]


def test_a_row_is_read_in_seconds_and_knows_what_was_not_published(tmp_path: Path) -> None:
    (one,) = table(tmp_path / "rows.csv", [row("DeepSeek-R1", gpu="B200", tp="8", n_gpus="8", ttft_ms="")])
    assert (one.ttft, one.tpot, one.output_rate, one.gpus) == (None, 0.01, None, 8)
    assert (one.architecture, one.accelerator) == ("deepseek-ai/DeepSeek-V3", "B200")


def test_rows_are_told_apart_by_how_they_were_measured(tmp_path: Path) -> None:
    layout = "disaggregated P:D = 1 x (tp2 dp1 ep1) : 1 x (tp2 dp1 ep1)"
    closed, offline, apart = rows = table(
        tmp_path / "rows.csv", [row(MODELS[0]), row(MODELS[0], request_rate="inf"), row(MODELS[0], note=layout)]
    )
    assert apart.disaggregated
    assert (closed,) == of_kind(rows, Kind.ClosedLoop)
    assert (offline,) == of_kind(rows, Kind.Offline)
    assert () == of_kind(rows, Kind.OpenLoop)


def test_what_no_gpu_can_do_is_scored_and_not_fitted(tmp_path: Path) -> None:
    """64 users with 2000 tokens each and an answer a second: more prompts than one H200 can multiply."""
    sound = row(MODELS[0], tp="1", n_gpus="1")
    cached = {**sound, "concurrency": "64", "isl": "2000", "osl": "100", "tpot_ms": "9.7"}
    problem = Problem(table(tmp_path / "rows.csv", [sound, cached]))
    assert [True, False] == problem.possible.tolist()
    alone = Problem(problem.rows[:1])
    assert problem.fit(everything(problem)) == pytest.approx(alone.fit(everything(alone)), rel=1e-6)


def test_slopes_by_coefficient_are_those_by_unknown(synthetic: Problem) -> None:
    """A row takes its unknowns by few coefficients, so that both ways lead to the same least squares."""
    chosen = everything(synthetic)
    quick = synthetic.slopes(synthetic.start, chosen)
    for column in range(0, synthetic.start.size, 7):
        moved = synthetic.start.copy()
        moved[column] += STEP
        there, here = (synthetic.residuals(each, chosen) for each in (moved, synthetic.start))
        assert quick[:, column] == pytest.approx((there - here) / STEP, abs=1e-4)


def test_a_row_without_a_latency_is_not_fitted(tmp_path: Path) -> None:
    """It would make every sum of squares not a number, and the fit would end where it began."""
    rows = table(tmp_path / "rows.csv", [row(MODELS[0]), row(MODELS[0], ttft_ms=""), row(MODELS[1], tpot_ms="")])
    assert rows[:1] == Problem(rows).rows


def test_least_squares_finds_the_bottom_of_a_curved_valley() -> None:
    """Rosenbrock's, from the usual start."""

    def valley(at: Vector) -> Vector:
        return np.array([10.0 * (at[1] - at[0] ** 2), 1.0 - at[0]])

    assert least_squares(valley, np.array([-1.2, 1.0])) == pytest.approx([1.0, 1.0], abs=1e-3)


def test_least_squares_solves_a_line_through_points_as_the_normal_equations_do() -> None:
    x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.9, 5.2, 6.9])
    slope, offset = np.polyfit(x, y, 1)
    found = least_squares(lambda at: at[0] * x + at[1] - y, np.array([0.0, 0.0]))
    assert found == pytest.approx([slope, offset], abs=1e-3)


def test_least_squares_stays_where_nothing_is_better() -> None:
    start = np.array([2.0])
    assert np.array_equal(least_squares(lambda at: np.array([1.0 + (at[0] - 2.0) ** 2]), start), start)


RELEASES = (
    ("vllm", "", "measured 2025-10-29"),
    ("vllm", "0.12.0", ""),
    ("vllm", "0.18.0", "measured 2026-04-02"),
    ("sglang", "0.5.9", ""),
)
BY_NAME = (("trtllm", "gpt-oss-dev", ""), ("trtllm", "1.2.0rc2", ""))  # the first has no number


def of_releases(file: Path, releases: Iterable[tuple[str, str, str]] = RELEASES) -> tuple[Row, ...]:
    """Every release with the same models and loads."""
    return table(
        file,
        [
            row(model, engine=engine, engine_version=version, note=note, concurrency=users)
            for (engine, version, note), model, users in product(releases, MODELS, ("1", "16", "64"))
        ],
    )


def test_a_newer_release_is_predicted_from_older_ones_of_its_engine_and_from_other_engines(tmp_path: Path) -> None:
    """The newest vLLM is measured twice as fast: nobody else's prediction changes, nor its own."""
    rows = of_releases(tmp_path / "rows.csv")
    doubled = tuple(
        replace(each, ttft=0.05, tpot=0.005) if month(each) == "2026-03" else each for each in rows if each.ttft
    )
    told, changed = (leaving_newer_out(Problem(each)) for each in (rows, doubled))
    months, engines = np.array([month(each) for each in rows]), np.array([each.columns["engine"] for each in rows])
    oldest = (engines == "sglang") | (months == "2025-10")
    assert np.array_equal(oldest, np.isnan(told.tpot))
    assert told.tpot[months == "2025-12"] == pytest.approx(changed.tpot[months == "2025-12"], rel=1e-12)
    assert 2.0 * told.tpot[months == "2026-03"] == pytest.approx(changed.tpot[months == "2026-03"], rel=1e-12)


def test_the_newest_release_of_an_engine_is_told_by_its_number_and_by_when_it_was_measured(tmp_path: Path) -> None:
    assert {
        "SGLang": {"version": "0.5.9", "month": "2026-02"},
        "TensorRTLLM": {"version": "1.2.0rc2", "month": "2025-11", "named": ["gpt-oss-dev"]},
        "VLLM": {"version": "0.18.0", "month": "2026-04"},
    } == newest(of_releases(tmp_path / "rows.csv", [*RELEASES, *BY_NAME]))
