"""The twin beside measured rows: which rows a fit may see, what it finds, how the rest is scored, and the page."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from bench import twin_truth
from bench.fitting.rows import read
from bench.truth_bench.clients import Client, Latencies
from bench.truth_bench.fitting import Fit, fit
from bench.truth_bench.page import as_page
from bench.truth_bench.plot import as_svg
from bench.truth_bench.scored import all_scored, of_series, ratio, score, summary
from bench.truth_bench.series import Point, Replica, Series, all_series

if TYPE_CHECKING:
    from pathlib import Path

HEADINGS = (
    "source,model,gpu,n_gpus,engine,engine_version,precision,kv_precision,tp,ep,pp,dp,isl,osl,concurrency,"
    "request_rate,output_tok_s_total,total_tok_s,ttft_ms,tpot_ms,note"
)
# Steps of an engine that is made up: two of ten sequences take less than five times those of two.
TRUE = Fit(prompt_token=50e-6, outside=0.01, decode={1: 0.008, 4: 0.009, 8: 0.010, 16: 0.012, 32: 0.015, 64: 0.020})
EMPTY = Series(
    "made up", "vllm", Replica(kv_tokens=10**6, max_batch=256, batched_tokens=8192), Client(1024, 128, spread=False), ()
)


def measured(*users: int, of: Series = EMPTY) -> Series:
    """What an engine with the true steps would have shown to so many users."""
    points = [Point(each, each, *_latencies(of, each)) for each in users]
    return replace(of, points=tuple(points))


def _latencies(series: Series, users: int) -> tuple[float, float]:
    said = TRUE.latencies(series, users)
    return said.ttft, said.tpot


def test_a_fit_sees_every_other_concurrency_and_never_what_is_scored() -> None:
    points = tuple(Point(users, users, 0.1, 0.01) for users in (4, 8, 8, 16, 32, 64))
    fitted, rest = replace(EMPTY, points=points).every_other()
    assert [4, 16, 64] == [point.users for point in fitted]
    assert [8, 8, 32] == [point.users for point in rest]
    assert (rest, fitted) == replace(EMPTY, points=points).every_other(first=1)


def test_a_fit_makes_the_twin_show_the_rows_that_it_saw() -> None:
    series = measured(4, 16, 64)
    found = fit(series, series.points)
    for point in series.points:
        said = found.latencies(series, point.users)
        assert point.tpot == pytest.approx(said.tpot, rel=0.01)
        assert point.ttft == pytest.approx(said.ttft, rel=0.1)


def test_prompts_and_decode_steps_are_told_apart() -> None:
    found = fit(series := measured(4, 16, 64), series.points)
    assert TRUE.prompt_token == pytest.approx(found.prompt_token, rel=0.2)
    assert [*found.decode] == [4, 16, 64]
    assert [*found.decode.values()] == sorted(found.decode.values())


@pytest.mark.parametrize("spread", [False, True])
def test_the_twin_foretells_rows_that_no_fit_has_seen(*, spread: bool) -> None:
    of = replace(EMPTY, client=replace(EMPTY.client, spread=spread))
    told = of_series(measured(4, 8, 16, 32, 64, of=of))
    assert ([4, 16, 64], [8, 32]) == (told["fitted"], [row["users"] for row in told["scored"]])
    found = summary(told["scored"])
    assert found["tpot"]["median"] < 0.03
    assert found["throughput"]["median"] < 0.03


def test_users_who_wait_for_a_seat_are_foretold_as_such() -> None:
    """Memory for sixteen: a fit to four and sixteen knows what twice as many will see."""
    room = replace(EMPTY.replica, kv_tokens=16 * 1200)
    told = of_series(measured(4, 8, 16, 32, of=replace(EMPTY, replica=room)))
    last = told["scored"][-1]
    assert last["users"] == 32
    assert not last["within"]
    assert last["measured"]["ttft"] > 1.0
    assert ratio(last, "ttft") == pytest.approx(1.0, abs=0.15)
    assert ratio(last, "straight_tpot") > ratio(last, "tpot")


def test_throughput_is_littles_law_over_the_mean_length() -> None:
    said = Latencies(ttft=1.0, tpot=0.01)
    assert Client(1, 101, spread=False).output_rate(4, said) == pytest.approx(4 * 101 / 2.0)
    assert Client(1, 100, spread=True).output_rate(4, said) == pytest.approx(4 * 90 / 1.89)


def test_ratios_are_of_the_twin_over_what_was_measured() -> None:
    row = {"measured": {"tpot": 0.01}, "twin": {"tpot": 0.011, "straight_tpot": 0.02}}
    assert ratio(row, "tpot") == pytest.approx(1.1)
    assert ratio(row, "straight_tpot") == pytest.approx(2.0)


def rows_of(path: Path, *concurrencies: int, osl: int = 1024, day: str = "2026-03-27") -> Path:
    lines = [
        f"InferenceX,Llama-3.1-70B,H200,4,vllm,0.18.0,FP8,,4,1,1,1,1024,{osl},{users},,,,{20 * users},{8 + users / 8},"
        f"closed loop at fixed concurrency; measured {day}"
        for users in concurrencies
    ]
    header = [] if path.exists() else [HEADINGS]
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join([*header, *lines]) + "\n")
    return path


def test_another_day_or_another_length_is_another_series(tmp_path: Path) -> None:
    path = rows_of(tmp_path / "rows.csv", 64, 4, 16)
    rows_of(path, 4, 16, osl=8192)
    rows_of(path, 4, day="2025-11-02")
    found = all_series(read(path))
    assert [(4, 16, 64), (4, 16), (4,)] == [series.concurrencies for series in found]
    assert [True, False, False] == [series.left_out is None for series in found]
    assert found[0].client == Client(1024, 1024, spread=True)
    assert found[0].name == "Llama-3.1-70B H200 vllm 0.18.0 FP8 tp4 1024/1024 2026-03-27"


def test_a_model_that_the_catalog_has_no_room_for_is_left_out() -> None:
    small = replace(measured(4, 8, 16), replica=replace(EMPTY.replica, kv_tokens=1000))
    told = score([measured(4, 8, 16), small])
    assert {"the memory model has no room for one request": {"series": 1, "rows": 3}} == told["left_out"]
    assert len(told["series"]) == 1


def test_page_and_picture_are_written_from_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ground-truth").mkdir()
    rows_of(tmp_path / "ground-truth" / "measured.csv", 4, 8, 16, 32)
    rows_of(tmp_path / "ground-truth" / "measured.csv", 4, osl=8192)
    monkeypatch.setenv("WEFT_BENCH_DATA", str(tmp_path))
    page, figures = tmp_path / "twin.md", tmp_path / "figures.json"
    assert twin_truth.main(["--write", "--page", str(page), "--output", str(figures)]) == 0
    assert "| **all scored rows** | 2 |" in page.read_text()
    assert "1 series with 1 rows, fewer than 3 concurrencies" in page.read_text()
    assert (tmp_path / "twin.svg").read_text().rstrip().endswith("</svg>")
    assert "all scored rows" in capsys.readouterr().out
    again = tmp_path / "again.md"
    assert twin_truth.main(["--read", str(figures), "--write", "--page", str(again)]) == 0
    assert page.read_text().replace("twin.svg", "again.svg") == again.read_text()


def test_without_rows_it_says_where_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEFT_BENCH_DATA", str(tmp_path))
    assert twin_truth.main([]) == 1
    assert "set WEFT_BENCH_DATA to the folder that has it" in capsys.readouterr().err


def test_the_same_figures_are_the_same_picture() -> None:
    told = {"machine": {"words": "a machine"}, "rows": score([measured(4, 8, 16, 32)])}
    assert as_svg(told) == as_svg(told)
    assert len(all_scored(told["rows"]["series"])) == 2
    assert "a machine" in as_page(told, "twin.svg")
