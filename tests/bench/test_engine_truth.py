"""The twin beside a real engine: requests that are timed, a calibration, the same arrivals again, and what is told."""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bench.truth_bench.asking import Timed, closed_loop, open_loop
from bench.truth_bench.beside import CLIENT, LOADS, Seen, beside, calibrated, poisson, seconds_of_a_request
from bench.truth_bench.fitting import Fit, fit
from bench.truth_bench.page import as_page, as_tables
from bench.truth_bench.series import Point, Replica, Series
from tests.bench.loopback import Quiet, answering

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.twin.engine.request import SimulatedRequest

TRUE = Fit(prompt_token=20e-6, outside=0.002, decode={1: 0.005, 4: 0.006, 16: 0.008})
PATIENCE_SECONDS = 30.0
EMPTY = Series("made up", "vllm", Replica(kv_tokens=100_000, max_batch=16, batched_tokens=2048), CLIENT, ())


def timed(request: SimulatedRequest) -> Timed:
    return Timed(request.arrived, request.first_token_at, request.last_token_at, request.made)


def engine(sent: Sequence[float]) -> list[Timed]:
    """What a real one with the true steps would have answered."""
    return [timed(each) for each in CLIENT.replay(TRUE.speed(EMPTY), sent, TRUE.outside)]


@contextmanager
def streaming(missing: int = 0, prompts: tuple[int, ...] = (7,), together: int = 1) -> Iterator[str]:
    """A server on loopback that streams as many parts as tokens are asked for, but for so many.

    Of so many requests together none is answered before all are there.
    """
    all_there = threading.Barrier(together, timeout=PATIENCE_SECONDS)

    class Answer(Quiet):
        def answer(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert len(asked["prompt"]) in prompts
            all_there.wait()
            self.send_response(200)
            self.end_headers()
            for _ in range(asked["max_tokens"] - missing):
                self.wfile.write(b'data: {"choices": []}\n\n')
                time.sleep(0.001)
            self.wfile.write(b"data: [DONE]\n\n")

    with answering(Answer) as url:
        yield url


def test_users_of_a_closed_loop_do_not_count_their_first_request() -> None:
    with streaming() as url:
        found = closed_loop(url, iter([(7, 5)] * 8), users=2)
    assert len(found) == 6
    assert all(each.sent < each.first < each.last for each in found)
    assert all(each.tpot == pytest.approx((each.last - each.first) / 4) for each in found)


def test_arrivals_wait_for_nobody_and_are_told_in_their_order() -> None:
    with streaming(together=2) as url:
        found = open_loop(url, iter([(7, 30), (7, 2)]), [0.0, 0.02])
    assert [30, 2] == [each.tokens for each in found]
    assert found[0].sent < found[1].sent < found[0].last


def test_an_answer_without_tokens_is_no_measurement() -> None:
    with streaming(missing=4) as url, pytest.raises(ValueError, match="0 parts of an answer of 4 tokens"):
        closed_loop(url, iter([(7, 4)]), users=1)


def test_arrivals_have_the_rate_that_is_asked_for_and_one_pattern() -> None:
    slow, fast = poisson(2.0, 400, seed=3), poisson(4.0, 400, seed=3)
    assert slow == sorted(slow)
    assert 400 / slow[-1] == pytest.approx(2.0, rel=0.15)
    assert [at / 2.0 for at in slow] == pytest.approx(fast)
    assert fast != poisson(4.0, 400, seed=4)


@pytest.mark.parametrize("load", LOADS)
def test_a_twin_that_was_calibrated_shows_what_the_engine_would(load: float) -> None:
    """Each window begins when its first request is sent, whatever the clock says."""
    said = {users: TRUE.latencies(EMPTY, users) for users in TRUE.decode}
    series = replace(EMPTY, points=tuple(Point(users, users, each.ttft, each.tpot) for users, each in said.items()))
    rate = load * 16 / seconds_of_a_request(said[16])
    windows = [poisson(rate, 40, seed) for seed in (1, 2)]
    wanted = CLIENT.middle([each for window in windows for each in engine(window)])
    late = [[1000.0 * turn + at for at in window] for turn, window in enumerate(windows, start=1)]
    found = beside(series, fit(series, series.points), late)
    assert wanted.tpot == pytest.approx(found.tpot, rel=0.05)
    assert wanted.ttft == pytest.approx(found.ttft, rel=0.15)


def test_a_calibration_sees_the_closed_loops_alone() -> None:
    slow, quick = (Timed(0.0, first, first + 4.0, 5) for first in (3.0, 1.0))
    seen = Seen(1.0, closed={1: [slow, quick], 4: [slow]}, windows={0.2: [[quick]]})
    assert (Point(1, 1, 2.0, 1.0), Point(4, 4, 3.0, 1.0)) == calibrated(seen, EMPTY.replica).points


def told() -> dict[str, Any]:
    machine = {"machine": {"words": "a machine"}}
    rows = {"rounds": 10, "series": [], "other_way_round": {}, "left_out": {}}
    figures = {"ttft": 0.02, "tpot": 0.01}
    engine = {
        **machine,
        "version": "0.32.0",
        "options": "--enforce-eager",
        "lengths": [512, 64],
        "turns": 4,
        "rounds": 3,
        "load_average": [1.5, 2.0],
        "calibration": [
            {"users": users, "seated": users, "requests": 8, **figures, "twin": figures} for users in (1, 4)
        ],
        "prompt_seconds": 0.012,
        "outside_seconds": 0.003,
        "step_seconds": {"1": 0.009, "4": 0.0095},
        "loads": [
            {
                "load": 0.2,
                "requests_per_second": 1.25,
                "requests": 80,
                "measured": figures,
                "by_turn": [{"ttft": 0.018, "tpot": 0.008}, {"ttft": 0.03, "tpot": 0.02}],
                "twin": {"ttft": 0.026, "tpot": 0.009},
            }
        ],
    }
    return {**machine, "rows": rows, "engine": engine}


def test_page_and_screen_show_each_load_beside_the_twin() -> None:
    page = as_page(told(), "twin.svg")
    assert "| 20% | 1.2 | 80 | 20.0 (18 to 30) | 26.0 | +30% | 10.0 (8 to 20) | 9.0 | -10% |" in page
    assert "within 25%; 1 of 2 are." in page
    assert "| 4 | 8 | 20.0 | 20.0 | 10.0 | 10.0 |" in page
    assert "a closed loop of 1 and 4 users with 3 requests each, medians" in page
    flowing = page.replace("\n", " ")
    assert "takes 12 ms, 3 ms are outside the engine, and decode steps take 9.0 ms at 1 and 9.5 ms at 4" in flowing
    assert len(as_tables(told())) == 2
    without = {name: value for name, value in told().items() if name != "engine"}
    assert "Beside a real engine" not in as_page(without, "twin.svg")
    assert len(as_tables(without)) == 1
