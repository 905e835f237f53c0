"""The benchmark of autoscaling: four rules on two made-up traces, kept as they end, and the page of them."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from bench.scaling import KEPT, PAGE, RESULTS, asked_for, main
from bench.scaling_bench.frontiers import cells, hours_at, unbeaten
from bench.scaling_bench.page import NOTE, _section, as_page
from bench.scaling_bench.plot import as_svg
from bench.scaling_bench.results import complete, known
from bench.scaling_bench.running import HELD, RISKS, SPLIT_RISKS, Run, peak_of_memory, points, run, setting_of
from bench.scaling_bench.scenarios import settings
from bench.scaling_bench.summary import summary, verdict
from bench.scaling_bench.tuning import best
from weft.twin.policies import NAMES, grid, tuned

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from bench.scaling_bench.frontiers import Cell

pytestmark = pytest.mark.timeout(300)

RULES, SCENARIOS, MINUTES = ("weft", "hpa", "dynamo", "static"), ("code", "long-context"), 16.5
RUNS = [Run(scenario, rule, 2, 120.0, 1, tuning=True, minutes=MINUTES) for scenario in SCENARIOS for rule in RULES]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All runs, done once."""
    path = tmp_path_factory.mktemp("scaling") / "results.jsonl"
    complete(RUNS, path, jobs=2)
    return path


def test_every_rule_answers_every_request_and_nearly_all_in_time(results: Path) -> None:
    rows = known(results)
    assert set(rows) == {each.key for each in RUNS}
    for row in rows.values():
        assert row["requests"] > 500
        assert row["failed"] == 0
        assert row["attainment"] > 0.8


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_weft_is_in_time_for_half_of_what_an_hpa_holds(results: Path, scenario: str) -> None:
    """Measured: 100 % in both, for 45 and 43 %. In `code` only the first 90 s of a burst of four times the rate count.

    A rule that orders late has 85 % there, as Dynamo's has.
    """
    rows = {row["policy"]: row for row in known(results).values() if row["scenario"] == scenario}
    assert rows["weft"]["attainment"] > 0.99
    assert rows["weft"]["gpu_hours"] < 0.5 * rows["hpa"]["gpu_hours"]


def test_what_is_known_is_not_run_again(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.scaling_bench.results._run_all", lambda runs, _: [{"key": each.key} for each in runs])
    again = complete(RUNS, results, jobs=1)
    assert [row["key"] for row in again] == [each.key for each in RUNS]
    assert all("attainment" in row for row in again)


def test_the_peak_of_memory_is_of_one_run() -> None:
    from_here = peak_of_memory()
    large = np.ones(25_000_000)  # 200 MB
    grown = from_here()
    del large
    assert grown > 190
    assert peak_of_memory()() < grown - 150


def test_a_line_that_was_cut_off_is_run_again(results: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl"
    cut.write_text(results.read_text()[:-40])
    assert len(known(cut)) == len(RUNS) - 1


def test_the_same_run_is_the_same_result() -> None:
    short = replace(RUNS[-1], minutes=15.5)
    one, other = run(short), run(short)
    assert {**one, "wall_seconds": 0, "peak_megabytes": 0} == {**other, "wall_seconds": 0, "peak_megabytes": 0}


def test_page_and_picture_show_every_rule(results: Path) -> None:
    rows = list(known(results).values())
    assert [cell.scenario for cell in cells(rows)] == list(SCENARIOS)
    page = as_page({"machine": {"words": "a machine"}, "rows": rows}, "scaling.svg", "rows.jsonl")
    assert NOTE not in page
    assert all(page.count(f"| {rule} |") + page.count(f"| **{rule}** |") >= len(SCENARIOS) for rule in RULES)
    for rule in NAMES:
        assert f"| `{rule}` | {tuned(rule)} | {len(grid(rule))} | " in page
    assert "; `kv` 0.03, 0.07, 0.15, 0.35, 0.7 |" in page
    picture = as_svg(rows)
    assert picture.startswith("<?xml")
    assert picture.rstrip().endswith("</svg>")


def row(policy: str, point: int, attainment: float, gpu_hours: float) -> dict[str, Any]:
    return {"scenario": "a", "policy": policy, "point": point, "attainment": attainment, "gpu_hours": gpu_hours}


def test_the_best_point_is_the_cheapest_that_is_good_enough() -> None:
    rows = [row("hpa", 0, 0.95, 10), row("hpa", 1, 0.991, 30), row("hpa", 2, 0.999, 40)]
    assert list(best(rows)) == [("a", "hpa", 1)]


def test_where_none_is_good_enough_the_best_point_reaches_the_most() -> None:
    rows = [row("hpa", 0, 0.95, 10), row("hpa", 1, 0.97, 30), row("hpa", 2, 0.96, 40)]
    assert list(best(rows)) == [("a", "hpa", 1)]


def test_every_rule_has_several_points() -> None:
    assert points("weft") == len(RISKS)
    assert points("weft", split=True) == len(SPLIT_RISKS)
    assert all(points(rule) > 3 for rule in RULES)


def test_a_rule_whose_library_is_not_here_is_refused_before_any_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prophet", None)
    with pytest.raises(SystemExit) as ended:
        main(["--policy", "static", "dynamo-prophet", "--results", str(tmp_path / "rows.jsonl")])
    assert ended.value.code == 2
    said = "--policy dynamo-prophet needs prophet, which is not here: install weft[predictors]"
    assert capsys.readouterr().err.strip().endswith(said)
    assert list(tmp_path.iterdir()) == []


def test_where_no_rule_is_named_those_whose_library_is_not_here_are_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prophet", None)
    monkeypatch.setitem(sys.modules, "pmdarima", None)
    rules = asked_for([]).policy
    assert list(settings().policies) == [*rules[:11], "dynamo-arima", "dynamo-prophet", *rules[11:]]
    assert capsys.readouterr().err.splitlines() == [
        "dynamo-arima needs pmdarima, which is not here: install weft[predictors]: left out",
        "dynamo-prophet needs prophet, which is not here: install weft[predictors]: left out",
    ]
    assert list(settings().policies) == asked_for(["--read"]).policy


def test_a_fixed_ratio_is_judged_where_there_is_a_split_alone() -> None:
    scenarios = settings().scenarios
    assert [name for name, each in scenarios.items() if each.judges("fixed-ratio")] == ["reasoning-split"]
    assert all(each.judges("weft") for each in scenarios.values())
    assert points("fixed-ratio") == len(HELD)


def test_a_fixed_ratio_is_kept_and_told_beside_its_ceiling() -> None:
    told = run(Run("reasoning-split", "fixed-ratio", 1, 120.0, 1, tuning=True, minutes=18.0))
    assert 0.0 < told["ceiling"] < 1.0
    for _, prefill, decode in told["fleet"][-10:]:
        assert told["ratio"] / 1.5 < prefill / decode < told["ratio"] * 1.5


def test_the_page_says_what_following_the_ratio_saves() -> None:
    kinds = {"scenario": "reasoning-split", "startup_seconds": 120.0, "minutes": 0.0, "of_grid": False, "requests": 9}
    figures = {"ttft_target_seconds": 2.0, "tpot_target_seconds": 0.03, "ratio": 0.2, "ceiling": 0.1, "seed": 1}
    entries = [row("weft", 0, 0.985, 94.0), row("fixed-ratio", 0, 0.985, 100.0)]
    (cell,) = cells([{**each, **kinds, **figures} for each in entries])
    assert "saves" in (said := _section(cell))
    assert "6.0% at 98.0% (60% of the ceiling)" in said


def test_the_oracle_tells_what_no_count_reaches_and_the_page_says_it() -> None:
    told = run(Run("long-context", "oracle", 0, 120.0, 1, tuning=True, minutes=15.5))
    assert told["attainment"] <= told["in_time_alone"] <= 1.0
    kinds = {"startup_seconds": 120.0, "minutes": 0.0, "of_grid": False, "requests": 9, "seed": 1}
    figures = {"ttft_target_seconds": 2.0, "tpot_target_seconds": 0.03, "scenario": "long-context"}
    entry = {**row("oracle", 0, 0.95, 94.0), **kinds, **figures}
    (cell,) = cells([{**entry, "in_time_alone": 0.9911}])
    assert "At most 99.11% can be in time" in _section(cell)
    (other,) = cells([{**entry, "in_time_alone": 1.0}])
    assert "can be in time" not in _section(other)


def test_between_two_settings_a_rule_takes_what_a_mix_of_them_would() -> None:
    points = [row("hpa", at, *each) for at, each in enumerate([(0.9, 10.0), (0.98, 30.0), (0.96, 40.0), (1.0, 90.0)])]
    assert hours_at(points, 0.8) == 10.0
    assert hours_at(points, 0.94) == pytest.approx(20.0)
    assert hours_at(points, 0.99) == pytest.approx(60.0)
    assert hours_at(points[:-1], 0.99) is None
    assert hours_at([], 0.5) is None


def test_settings_that_a_cheaper_one_beats_are_not_drawn() -> None:
    points = [row("hpa", at, *each) for at, each in enumerate([(0.9, 10.0), (0.98, 30.0), (0.96, 40.0), (1.0, 90.0)])]
    assert unbeaten(points) == [(0.9, 10.0), (0.98, 30.0), (1.0, 90.0)]


def compared(*rows: dict[str, Any]) -> list[Cell]:
    """Of one trace with starts of 120 s."""
    kinds = {"startup_seconds": 120.0, "minutes": 0.0, "of_grid": False, "requests": 9, "seed": 1}
    targets = {"ttft_target_seconds": 2.0, "tpot_target_seconds": 0.03}
    return cells([{**each, **kinds, **targets, "scenario": "code"} for each in rows])


def test_the_summary_has_weft_beside_the_cheapest_rule_that_reacts() -> None:
    found = compared(
        row("weft", 0, 0.985, 80.0),
        row("hpa", 0, 0.985, 100.0),
        row("dynamo", 0, 0.96, 90.0),
        row("static", 0, 0.992, 60.0),
        row("oracle", 0, 0.985, 50.0),
    )
    assert summary(found).splitlines()[2:] == [
        "| code | 95.0% | 80 | 90 (`dynamo`) | -11% | 60 | 50 |",
        "|  | 98.0% | 80 | 100 (`hpa`) | -20% | 60 | 50 |",
        "|  | 99.0% | - | none gets there | - | 60 | - |",
    ]
    assert "at 2 of 2 levels that any of these reaches, and is alone in reaching 0 more" in verdict(found)
    assert "takes less than Weft at 3 of 3 levels" in verdict(found)


def test_the_summary_counts_levels_that_weft_misses_against_it() -> None:
    found = compared(row("weft", 0, 0.96, 80.0), row("hpa", 0, 0.985, 80.0))
    assert summary(found).splitlines()[2:] == [
        "| code | 95.0% | 80 | 80 (`hpa`) | as much | - | - |",
        "|  | 98.0% | - | 80 (`hpa`) | - | - | - |",
    ]
    assert "at 0 of 2 levels that any of these reaches" in verdict(found)


def test_where_no_rule_of_others_was_run_there_is_no_summary() -> None:
    found = compared(row("weft", 0, 0.985, 80.0), row("fixed-ratio", 0, 0.985, 100.0))
    assert (summary(found), verdict(found)) == ("", "")


def test_rules_are_compared_by_the_seeds_that_all_of_them_have() -> None:
    kinds = {"scenario": "code", "startup_seconds": 120.0, "minutes": 0.0, "of_grid": False, "requests": 9}
    mine = [{**row("weft", 0, 0.9, 10.0 * seed), **kinds, "seed": seed} for seed in (1, 2, 3)]
    theirs = [{**row("hpa", point, 0.9, 9.0 * seed), **kinds, "seed": seed} for point, seed in ((0, 1), (0, 3), (1, 3))]
    (cell,) = cells([*mine, *theirs])
    assert cell.seeds == (1, 3)
    assert {name: [each["gpu_hours"] for each in rows] for name, rows in cell.by_policy} == {
        "weft": [20.0],
        "hpa": [18.0],
    }


def test_gpu_hours_of_all_rows_end_with_the_last_arrival() -> None:
    """Those of bench/scaling_rows.jsonl do: a row that counted longer could not stand beside them."""
    assert not any(setting_of(each).until_answered for each in RUNS)


def test_the_page_of_the_docs_is_the_one_of_the_runs_that_are_committed() -> None:
    rows = [row for row in known(RESULTS).values() if not row["tuning"]]
    written = PAGE.read_text(encoding="utf-8")
    machine = written.partition("`python -m bench.scaling` (")[2].partition(") from ")[0]
    assert written == as_page({"machine": {"words": machine}, "rows": rows}, "scaling.svg", KEPT, NOTE)


def test_runs_that_are_kept_elsewhere_leave_that_page_alone(tmp_path: Path) -> None:
    assert asked_for([]).page == PAGE
    assert asked_for(["--results", str(tmp_path / "some.jsonl")]).page == tmp_path / "some.md"
