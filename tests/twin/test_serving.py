"""Between a trace and what is measured: where requests go, what becomes of them, and that each ends exactly once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.serving_cases import PREFILL_SECONDS, SPEED, poisson, serving, trace
from weft.twin.serving.front import FrontOptions, FrontRule

if TYPE_CHECKING:
    from weft.twin.serving.stream import Serving

LONG = 1e4


def test_a_request_alone_takes_what_its_engine_takes() -> None:
    served = serving(trace([1.0, 20.0]))
    served.start("a", "chat", SPEED, -5.0)
    served.advance(LONG)
    answers = served.answers()
    assert [1.0, 20.0] == answers.arrived.tolist()
    assert [PREFILL_SECONDS] * 2 == pytest.approx(answers.ttft.tolist())
    assert [0.0102] * 2 == pytest.approx(answers.tpot.tolist())


def test_what_has_no_end_yet_is_told_apart_and_every_request_is_one_of_both() -> None:
    served = serving(trace([0.0, 30.0], outputs=5000))
    served.start("a", "chat", SPEED, 0.0)
    served.advance(60.0)
    assert [30.0] == served.unfinished().tolist()[-1:]
    assert [0.0, 30.0] == sorted([*served.answers().arrived.tolist(), *served.unfinished().tolist()])
    served.advance(LONG)
    assert [] == served.unfinished().tolist()


def test_an_answer_of_one_token_has_no_tpot() -> None:
    served = serving(trace([1.0], outputs=1))
    served.start("a", "chat", SPEED, 0.0)
    served.advance(LONG)
    assert np.isnan(served.answers().tpot).all()
    assert served.answers().completed.all()


def test_requests_wait_at_the_front_for_the_first_engine() -> None:
    """A pool without an engine loses nothing; the wait shows in TTFT."""
    served = serving(trace([1.0, 2.0]))
    served.advance(5.0)
    assert (2, 0, 0.0) == served.sample("chat")
    served.start("a", "chat", SPEED, 11.0)
    served.advance(LONG)
    # both prompts fit into one step
    assert [10.0 + 2 * PREFILL_SECONDS, 9.0 + 2 * PREFILL_SECONDS] == pytest.approx(served.answers().ttft.tolist())


@pytest.mark.parametrize("rule", FrontRule)
def test_two_engines_share_the_load(rule: FrontRule) -> None:
    served = serving(trace([0.1 * number for number in range(200)]), front=FrontOptions(rule))
    for name in ("a", "b"):
        served.start(name, "chat", SPEED, 0.0)
    served.advance(10.0)
    assert served.load("a") == pytest.approx(served.load("b"), abs=1)
    assert served.load("a") > 0


def test_the_least_loaded_engine_is_chosen_by_what_it_has_at_that_moment() -> None:
    """Three long requests make `a` and `b` busy; whoever is free again gets the next one, long before any scrape."""
    outputs = np.array([1000, 10, 10, 10, 10], np.int32)
    requests = replace(trace([0.0, 0.1, 1.0, 2.0, 3.0]), outputs=outputs)
    served = serving(requests)
    served.start("a", "chat", SPEED, 0.0)
    served.start("b", "chat", SPEED, 0.0)
    served.advance(3.01)
    assert (1, 1) == (served.load("a"), served.load("b"))


def test_in_turn_an_engine_that_left_is_skipped_and_nobody_else() -> None:
    served = serving(trace([1.0, 2.0, 3.0, 4.0, 5.0], outputs=1000), front=FrontOptions(FrontRule.RoundRobin))
    for name in ("a", "b", "c"):
        served.start(name, "chat", SPEED, 0.0)
    served.unroute("b", 2.5)
    served.advance(5.5)
    assert [2, 1, 2] == [served.load(name) for name in ("a", "b", "c")]


def test_an_unrouted_engine_finishes_what_it_has_and_gets_nothing_new() -> None:
    served = serving(trace([0.0, 1.0, 2.0, 3.0], outputs=150))
    served.start("a", "chat", SPEED, 0.0)
    served.advance(1.5)
    served.unroute("a", 1.5)
    served.start("b", "chat", SPEED, 1.5)
    assert 2 == served.load("a")
    served.advance(3.5)
    assert (0, 2) == (served.load("a"), served.load("b"))
    served.end("a", 4.0)
    served.advance(LONG)
    assert served.answers().completed.all()
    assert 0 == served.load("a")


def test_what_is_inside_an_engine_that_ends_is_lost_or_tried_again() -> None:
    for retries, completed in ((0, [False, True]), (1, [True, True])):
        served = serving(trace([0.0, 5.0]), front=FrontOptions(retries=retries, retry_after_seconds=2.0))
        served.start("a", "chat", SPEED, 0.0)
        served.end("a", 0.5)
        served.start("b", "chat", SPEED, 1.0)
        served.advance(LONG)
        assert completed == served.answers().completed.tolist()
        assert retries == served.retried
        if retries:  # by the clock of the first try
            assert 2.5 + PREFILL_SECONDS == pytest.approx(served.answers().ttft[0])


def test_what_is_longer_than_the_context_is_refused_though_memory_would_hold_it() -> None:
    requests = replace(trace([0.0, 1.0, 2.0]), inputs=np.array([7900, 7901, 9000], np.int32))
    served = serving(requests)
    served.start("a", "chat", replace(SPEED, context_tokens=8000), 0.0)
    served.advance(LONG)
    assert [True, False, False] == served.answers().completed.tolist()


def test_a_prompt_that_no_engine_can_hold_is_refused_and_holds_up_nobody() -> None:
    requests = replace(trace([0.0, 1.0]), inputs=np.array([300_000, 1000], np.int32))
    served = serving(requests, front=FrontOptions(retries=3))
    served.start("a", "chat", SPEED, 0.0)
    served.advance(LONG)
    assert [False, True] == served.answers().completed.tolist()
    assert 3 == served.retried


def test_a_node_that_dies_takes_requests_until_the_front_notices() -> None:
    """What it had, and its share of what came in those seconds, is lost when it is noticed, and tried again then."""
    front = FrontOptions(FrontRule.RoundRobin, retries=1, retry_after_seconds=1.0, notices_after_seconds=5.0)
    served = serving(trace([0.0, 0.1, 2.0, 3.0, 10.0, 11.0]), front=front)
    served.start("a", "chat", SPEED, 0.0)
    served.start("b", "chat", SPEED, 0.0)
    served.kill("a", 0.5)
    assert 0 == served.load("a")
    served.advance(LONG)
    ttft = served.answers().ttft
    assert 2 == served.retried
    # both come again at 6.5, in one step
    assert [6.5 + 2 * PREFILL_SECONDS, 4.5 + 2 * PREFILL_SECONDS] == pytest.approx(ttft[[0, 2]].tolist())
    assert (ttft[[1, 3, 4, 5]] < 0.1).all()


def test_a_dead_engine_that_is_removed_is_noticed_at_once() -> None:
    served = serving(trace([0.0]), front=FrontOptions(retries=1))
    served.start("a", "chat", SPEED, 0.0)
    served.kill("a", 0.5)
    served.end("a", 1.0)
    served.start("a", "chat", SPEED, 1.5)  # its name may come back
    served.advance(LONG)
    assert 2.0 + PREFILL_SECONDS == pytest.approx(served.answers().ttft[0])


def test_a_client_loses_patience_at_the_front_and_in_a_queue() -> None:
    """It tries again as often as it may; nobody who sees a token goes away."""
    served = serving(trace([0.0]), front=FrontOptions(patience_seconds=2.0, retries=2, retry_after_seconds=0.5))
    served.advance(7.4)
    assert 2 == served.retried
    assert [False] == served.answers().completed.tolist()
    busy = serving(trace([0.0, 0.1], outputs=1000), front=FrontOptions(patience_seconds=2.0))
    busy.start("a", "chat", replace(SPEED, max_batch=1, batched_tokens=2000), 0.0)
    busy.advance(5.0)
    assert 1 == busy.load("a")  # who was cancelled is inside no more
    busy.advance(LONG)
    assert [True, False] == busy.answers().completed.tolist()


def test_what_has_not_ended_is_left_out_unless_it_has_waited_a_minute_for_a_token() -> None:
    served = serving(trace([0.0, 1.0, 90.0], outputs=20_000))
    served.start("a", "chat", replace(SPEED, max_batch=1, batched_tokens=2000), 0.0)
    served.advance(100.0)
    answers = served.answers()
    assert [1.0] == answers.arrived.tolist()  # the first one has a token, and the last one only waits since 10 s
    assert not answers.completed.any()


def test_a_name_is_taken_once_and_time_does_not_go_back() -> None:
    served = serving(trace([1.0]))
    served.start("a", "chat", SPEED, 0.0)
    with pytest.raises(ValueError, match="a runs already"):
        served.start("a", "chat", SPEED, 0.0)
    with pytest.raises(ValueError, match="not -1"):
        served.advance(-1.0)


def test_prompts_share_their_blocks() -> None:
    """Hashes of the trace stand for as many tokens as the trace says."""
    requests = replace(trace([0.0, 5.0], inputs=2048), blocks=((1, 2, 3, 4), (1, 2, 5, 6)))
    served = serving(requests)
    served.start("a", "chat", SPEED, 0.0)
    served.advance(LONG)
    first, second = served.answers().ttft.tolist()
    assert second == pytest.approx(first / 2, rel=0.01)


def _rough(served: Serving, events: list[tuple[float, int, int]]) -> None:
    """Engines come, go and die."""
    running: list[str] = []
    for number, (at, kind, which) in enumerate(sorted(events)):
        if kind == 0 or not running:
            served.start(f"e{number}", "chat", replace(SPEED, max_batch=8, batched_tokens=4000), at)
            running.append(f"e{number}")
        else:
            name = running[which % len(running)]
            (served.unroute, served.end, served.kill)[kind - 1](name, at)
            if kind == 2:
                running.remove(name)
    served.start("last", "chat", SPEED, 40.0)
    served.advance(1e5)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(0, 3), st.integers(0, 5)), max_size=12),
    st.sampled_from(FrontRule),
    st.sampled_from([0.5, 3.0, np.inf]),
    st.integers(0, 2),
)
def test_every_request_ends_exactly_once(
    events: list[tuple[float, int, int]], rule: FrontRule, patience: float, retries: int
) -> None:
    """Whoever comes and goes; and the same calls give the same answers."""
    requests = poisson(2.0, 30.0)
    outcomes = []
    for _ in range(2):
        served = serving(requests, front=FrontOptions(rule, patience, retries))
        _rough(served, events)
        outcomes.append(served.answers())
    assert requests.arrivals.tolist() == outcomes[0].arrived.tolist()
    np.testing.assert_array_equal(outcomes[0].ttft, outcomes[1].ttft)
    np.testing.assert_array_equal(outcomes[0].tpot, outcomes[1].tpot)
