"""Outcomes as tables, as JSON and as one page for a browser."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from tests.cli.outcomes import Made
from weft.cli.simulate.html import MOST_REASONS, simulation_html
from weft.cli.simulate.page import as_data, as_page
from weft.cli.simulate.report import Report, of_least, percent
from weft.cli.telling.terminal import show
from weft.domain.reasons import Explanation, Reason
from weft.domain.workload import Role, Slo
from weft.twin.outcome import Answers, DecisionEvent, Shortage

SPLIT = (Role.Prefill, Role.Decode)
NEEDED = {
    "policy",
    "model",
    "slo",
    "requests",
    "completed",
    "failed",
    "retried",
    "slo_attainment",
    "ttft_seconds",
    "tpot_seconds",
    "gpu_hours",
    "oracle_gpu_hours",
    "cost",
    "replica_changes",
    "wall_seconds",
    "seed",
    "trace",
    "pools",
    "reasons",
}
VOID = {"meta", "path", "line", "rect", "circle", "use"}


def report(*cases: Made, oracle: float | None = 9.0) -> Report:
    outcomes = tuple(case.outcome() for case in cases)
    return Report("InferencePool/chat", "day:rate=8", 3600.0, 7, outcomes, ((1500.0, "board-3"),), oracle)


def data(*cases: Made) -> Any:  # noqa: ANN401 - JSON
    return json.loads(json.dumps(as_data(report(*cases)), allow_nan=False))


def printed(capsys: pytest.CaptureFixture[str], found: Report) -> str:
    show(*as_page(found))
    return capsys.readouterr().out


def readings(found: Report) -> list[list[str]]:
    """What each chart says at each moment."""
    text = re.search(r'id="read">(.*?)</script>', simulation_html(found), re.DOTALL)
    assert text is not None
    told: list[list[str]] = json.loads(text[1])["told"]
    return told


# as data


def test_one_policy_is_an_object_and_several_are_a_list() -> None:
    assert set(data(Made())) >= NEEDED
    assert ["weft", "hpa"] == [each["policy"] for each in data(Made(), Made("hpa", 1))]


def test_failed_requests_count_as_missed_but_not_in_percentiles() -> None:
    found = data(Made(fails=4, warm_up=0.0, rate=1.0))
    assert (3600, 900) == (found["requests"], found["failed"])
    assert found["completed"] + found["failed"] == found["requests"]
    assert 0.7 < found["slo_attainment"] <= 0.75
    assert found["slo_met"] is False
    assert found["ttft_seconds"]["p99"] < 5.0


def test_unfinished_requests_are_told_and_the_chart_of_requests_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that ends with much inside had fewer answers than requests: that is no dip of the traffic."""
    whole = report(Made(rate=2.0, warm_up=0.0))
    answers = whole.first.answers
    half = replace(
        whole.first,
        answers=Answers(answers.arrived[:3600], answers.ttft[:3600], answers.tpot[:3600]),
        unfinished=answers.arrived[3600:],
    )
    cut = replace(whole, outcomes=(half,))
    assert "7,200 requests in 60 min" in printed(capsys, cut)
    assert (3600, 3600) == (as_data(cut)["requests"], as_data(cut)["unfinished"])  # type: ignore[call-overload]
    assert any(line.split() == ["unfinished", "at", "the", "end", "3600"] for line in printed(capsys, cut).splitlines())
    assert readings(whole)[0] == readings(cut)[0]
    assert "unfinished" not in printed(capsys, whole)


def test_a_pool_that_wanted_more_than_it_may_have_is_told_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    whole = report(Made())
    why = Explanation(Reason.AtMaximum, "demand needs more than maxReplicas 1")
    short = replace(whole.first, shortages=(Shortage(60.0, 600.0, "chat", why, 60.0),))
    found = replace(whole, outcomes=(short,))
    assert "0:01:00 to 0:10:00  chat: AtMaximum, demand needs more than maxReplicas 1" in printed(capsys, found)
    assert ["AtMaximum"] == [each["reason"] for each in as_data(found)["shortages"]]  # type: ignore[call-overload]
    assert "until 0:10:00: demand needs more than maxReplicas 1" in simulation_html(found)


def test_a_shortage_is_told_at_its_worst_and_when_that_was(capsys: pytest.CaptureFixture[str]) -> None:
    whole = report(Made())
    short = Shortage(60.0, 600.0, "chat", Explanation(Reason.NoSlot, "1 of 8 replicas placed"), 300.0)
    found = replace(whole, outcomes=(replace(whole.first, shortages=(short,)),))
    assert "0:01:00 to 0:10:00  chat: NoSlot, at worst (0:05:00) 1 of 8 replicas placed" in printed(capsys, found)
    assert [300.0] == [each["worst_at_seconds"] for each in as_data(found)["shortages"]]  # type: ignore[call-overload]
    assert "until 0:10:00: at worst (0:05:00) 1 of 8 replicas placed" in simulation_html(found)


def test_the_warm_up_counts_for_nothing() -> None:
    assert data(Made(warm_up=0.0))["requests"] - data(Made(warm_up=1800.0))["requests"] > 10_000


def test_what_nobody_knows_is_null() -> None:
    empty = Answers(np.zeros(0), np.zeros(0, np.float32), np.zeros(0, np.float32))
    found = report(Made(slo=Slo()), oracle=None)
    outcome = replace(found.first, answers=empty, timeline=(), told=())
    read = json.loads(json.dumps(as_data(replace(found, outcomes=(outcome,))), allow_nan=False))
    assert [None] * 3 == [read["slo_attainment"], read["slo_met"], read["oracle_gpu_hours"]]
    assert {"p50": None, "p90": None, "p95": None, "p99": None} == read["ttft_seconds"]
    assert read["pools"][0]["most_replicas_ready"] is None


def test_without_an_slo_failed_requests_are_not_within_it() -> None:
    lost, none_lost = data(Made(slo=Slo(), fails=4)), data(Made(slo=Slo(), fails=0))
    assert lost["slo_attainment"] == lost["completed"] / lost["requests"] == pytest.approx(0.75, abs=0.001)
    assert [False, True] == [each["slo_met"] for each in (lost, none_lost)]
    assert none_lost["slo_attainment"] == 1.0


def test_answers_of_one_token_have_no_tpot_and_meet_any() -> None:
    outcome = Made().outcome()
    alone = replace(outcome.answers, tpot=np.full_like(outcome.answers.tpot, math.nan))
    found = as_data(replace(report(Made()), outcomes=(replace(outcome, answers=alone),)))
    assert isinstance(found, dict)
    assert found["tpot_seconds"]["p50"] is None
    assert found["slo_met"] is True


def test_reasons_are_told_with_their_time_and_pool() -> None:
    reasons = data(Made())["reasons"]
    assert {"at_seconds", "pool", "reason", "message"} == set(reasons[0])
    assert {"ScaleUp", "ScaleDown", "NoSlot"} == {each["reason"] for each in reasons}


# for people


def test_policies_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, report(Made(), Made("hpa", 1, late=400.0, fails=50)))
    assert re.search(r"^ +weft +hpa$", out, re.MULTILINE)
    for told in ("TTFT p95", "TTFT p99", "TPOT p95"):  # SLOs are mostly given at p95
        assert re.search(rf"^{told} +[\d.]+ m?s +[\d.]+ m?s$", out, re.MULTILINE), told
    assert "SLO: TTFT p95 500 ms, TPOT p95 30 ms" in out
    assert "fails: board-3 at 0:25:00" in out
    assert "times the least" in out


def test_where_the_least_is_not_known_there_is_no_line_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "the least" not in printed(capsys, report(Made(), oracle=None))


def test_who_took_less_than_the_least_is_told_to_have_missed_the_slo(capsys: pytest.CaptureFixture[str]) -> None:
    late = report(Made("hpa", 1, late=400.0), oracle=1000.0)
    assert re.search(r"^ +times the least +0\.\d+, SLO missed$", printed(capsys, late), re.MULTILINE)
    assert of_least(9.0, 10.0, meets=True) == "0.9"
    assert of_least(11.0, 10.0, meets=False) == "1.1"


def test_only_all_are_a_hundred_percent() -> None:
    assert ("100 %", "99.9 %", "-") == (percent(1.0), percent(0.99999), percent(math.nan))


# for a browser


class Page(HTMLParser):
    """Tags that are open, and attributes that would load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [
            f"{tag} {value}" for name, value in attrs if name in {"src", "href"} and value and value[0] != "#"
        ]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """It is closed."""

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize(
    "cases",
    [(Made(),), (Made(fails=20), Made("hpa", 1, late=900.0)), (Made(roles=SPLIT), Made("dynamo", roles=SPLIT))],
    ids=["one policy", "several", "a split"],
)
def test_a_page_is_whole_and_loads_nothing(cases: tuple[Made, ...]) -> None:
    text = simulation_html(report(*cases))
    page = Page(text)
    assert [] == page.open
    assert [] == page.loads
    assert not re.search(r"https?:|@import|url\(", text)
    assert "nan" not in re.sub(r"[a-z]*nan[a-z]+|[a-z]+nan", "", text.lower())
    assert "prefers-color-scheme: dark" in text


def test_a_page_draws_what_was_asked_for() -> None:
    one, split = (Page(simulation_html(report(Made(roles=roles)))).words for roles in ((Role.Aggregated,), SPLIT))
    for title in ("Requests", "Time to first token", "Time per output token", "Replicas", "GPUs", "Reasons"):
        assert title in one
    for title in ("Prefill replicas", "Decode replicas", "Prefill to decode"):
        assert title in split
    assert "Prefill" not in one


def test_the_slo_the_warm_up_and_faults_are_in_every_chart() -> None:
    text = simulation_html(report(Made()))
    charts = re.findall(r"<svg viewBox.*?</svg>", text, re.DOTALL)
    assert all("class=warm" in each and "class=fault" in each for each in charts if "role=" in each)
    assert 2 == text.count("class=slo ")
    assert 1 == text.count("board-3 fails</text>")


def test_a_policy_keeps_its_colour() -> None:
    both, alone = simulation_html(report(Made(), Made("hpa", 1))), simulation_html(report(Made("hpa", 1)))
    assert 'class="line p1"' in both
    assert 'class="line p1"' in alone
    assert 'class="line p0"' not in alone


def test_latencies_over_decades_have_a_logarithmic_axis() -> None:
    late = simulation_html(report(Made(late=1800.0)))
    assert ">10 s</text>" in late
    assert ">10 s</text>" not in simulation_html(report(Made()))


def test_a_gap_without_requests_is_no_line() -> None:
    found = report(Made())
    outcome = found.first
    kept = (outcome.answers.arrived < 900) | (outcome.answers.arrived > 2700)
    answers = Answers(*(getattr(outcome.answers, name)[kept] for name in ("arrived", "ttft", "tpot")))
    text = simulation_html(replace(found, outcomes=(replace(outcome, answers=answers),)))
    assert 4 == text.count('class="line p0 weak"')  # both latencies, before and after


def test_strange_words_stay_words() -> None:
    found = report(Made())
    strange = "</script><script>alert(1)</script>"
    told = (DecisionEvent(1.0, strange, Explanation(Reason.NoSlot, strange)),)
    outcome = replace(found.first, policy=strange, model=strange, told=told)
    other = replace(found.first, told=told)
    text = simulation_html(replace(found, trace=strange, faults=((1.0, strange),), outcomes=(outcome, other)))
    assert "<script>alert" not in text
    assert [] == Page(text).open


def test_the_table_of_reasons_says_what_it_leaves_out() -> None:
    found = report(Made())
    told = tuple(
        DecisionEvent(float(at), "chat", Explanation(Reason.ScaleUp, "more")) for at in range(MOST_REASONS + 5)
    )
    text = simulation_html(replace(found, outcomes=(replace(found.first, told=told),)))
    assert MOST_REASONS == text.count("<td>chat</td>")
    assert "5 more are in the JSON" in text


def test_nothing_that_happened_is_a_page_too() -> None:
    found = report(Made(), oracle=None)
    empty = Answers(np.zeros(0), np.zeros(0, np.float32), np.zeros(0, np.float32))
    outcome = replace(found.first, answers=empty, timeline=(), told=(), seconds=0.0)
    assert [] == Page(simulation_html(replace(found, seconds=0.0, faults=(), outcomes=(outcome,)))).open


def test_a_day_of_requests_is_a_small_page() -> None:
    text = simulation_html(report(*(Made(name, 1, seconds=86400.0, rate=1.0) for name in ("weft", "hpa"))))
    assert len(text) < 400_000


def test_of_costs_the_best_is_one_that_meets_the_slo() -> None:
    """A policy that buys too little is no bargain; where all miss, the cheapest stands out."""
    cheap, good = Made(policy="static", late=0.0, fails=2), Made(policy="weft")
    page = simulation_html(report(cheap, good))
    rows = {each.split("</i>")[1].split("<")[0]: each for each in page.split("<tr>") if "</i>" in each}
    assert "<td class=best>12.5</td>" in rows["weft"]
    assert "<td>2.5</td>" in rows["static"]
    assert "<th scope=col>cost in H100-hours</th>" in page
    missing = simulation_html(report(cheap, Made(policy="weft", fails=3)))
    assert "<td class=best>2.5</td>" in missing
