"""Arrivals over the last seconds: counted at the front, else what was answered plus what was added inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from weft.domain.shape import EngineName
from weft.engines import FRONTS, series_for
from weft.observe.samples.history import History
from weft.observe.samples.scrape_target import EngineTarget, Target
from weft.observe.signals.observation import observe_pool

if TYPE_CHECKING:
    from weft.observe.samples.arithmetic import Sample
    from weft.observe.samples.history import SeriesKey

SERIES = series_for(EngineName.VLLM, "0.32.0")
TARGET = EngineTarget("a", "team", "chat-0", "10.0.0.1", 8000, "/metrics", (), series=SERIES)


def history(finished: list[float], running: list[float], step_seconds: float = 5.0) -> History:
    """Samples every five seconds up to now."""
    times = [step_seconds * index for index in range(len(finished))]
    return History(
        now=times[-1],
        series={
            (f"{SERIES.finished}", ()): tuple(zip(times, finished, strict=True)),
            (f"{SERIES.running}", ()): tuple(zip(times, running, strict=True)),
            (f"{SERIES.waiting}", ()): tuple((at, 0.0) for at in times),
        },
    )


def test_what_piles_up_inside_has_arrived_too() -> None:
    """Nothing is answered yet, 30 requests came in during the last 10 s; what came a minute ago does not count."""
    seen = observe_pool([TARGET], {"a": history([0.0] * 13, [*[4.0] * 10, 14.0, 24.0, 34.0])})
    assert seen.arrivals == pytest.approx(20)
    assert seen.arrival_seconds == pytest.approx(10)


def test_answers_count_and_a_drained_queue_is_no_negative_arrival() -> None:
    answered = observe_pool([TARGET], {"a": history([10.0 * i for i in range(13)], [0.0] * 13)})
    assert answered.arrivals == pytest.approx(20)
    drained = observe_pool([TARGET], {"a": history([0.0] * 13, [*[50.0] * 12, 0.0])})
    assert drained.arrivals == 0


@pytest.mark.parametrize("scrapes_since", [2, 5, 9, 12], ids=lambda scrapes: f"{5 * (scrapes - 1)} s")
def test_load_that_moves_to_a_replica_that_was_added_is_counted_once(scrapes_since: int) -> None:
    """16 requests a second all the time: four replicas answered them until a fifth took a fifth of them."""
    ended = [4.0 * 5.0 * min(i, 13 - scrapes_since) for i in range(13)]
    of_old = [before + 3.2 * 5.0 * max(0, i - (13 - scrapes_since)) for i, before in enumerate(ended)]
    of_new = [3.2 * 5.0 * i for i in range(scrapes_since)]
    targets = [
        EngineTarget(uid, "team", f"chat-{uid}", "10.0.0.1", 8000, "/metrics", (), series=SERIES) for uid in "abcde"
    ]
    late = [5.0 * (13 - scrapes_since + i) for i in range(scrapes_since)]
    new = History(60.0, {(SERIES.finished, ()): tuple(zip(late, of_new, strict=True))})
    found = {**dict.fromkeys("abcd", history(of_old, [0.0] * 13)), "e": new}
    assert observe_pool(targets, found).requests_per_second == pytest.approx(16.0, rel=0.03)


def test_a_replica_that_was_just_added_makes_no_rate_of_a_second() -> None:
    """14 answers of a minute came in its last second, and the other replica has been seen for that second alone."""
    finished = [(float(at), 0.0 if at < 60 else 14.0) for at in range(61)]
    old = History(60.0, {(SERIES.finished, ()): tuple(finished)})
    new = History(60.0, {(SERIES.finished, ()): ((59.0, 0.0), (60.0, 1.0))})
    targets = [
        EngineTarget(uid, "team", f"chat-{uid}", "10.0.0.1", 8000, "/metrics", (), series=SERIES) for uid in "ab"
    ]
    assert observe_pool(targets, {"a": old, "b": new}).requests_per_second == pytest.approx(1.0)


def test_one_that_has_nothing_to_do_any_more_hides_nobody_elses_requests() -> None:
    """The others came when its siblings went: what those answered is gone with them."""
    targets = [
        EngineTarget(uid, "team", f"chat-{uid}", "10.0.0.1", 8000, "/metrics", (), series=SERIES) for uid in "abc"
    ]
    late = tuple((at, 2.0 * (at - 40.0)) for at in (40.0, 45.0, 50.0, 55.0, 60.0))
    new = History(60.0, {(SERIES.finished, ()): late})
    old = history([100.0] * 13, [0.0] * 13)
    assert observe_pool(targets, {"a": old, "b": new, "c": new}).requests_per_second == pytest.approx(4.0)


def test_a_replica_that_is_alone_has_its_own_rate_however_short_it_was_seen() -> None:
    seen = observe_pool([TARGET], {"a": history([20.0 * i for i in range(3)], [0.0] * 3)})
    assert seen.requests_per_second == pytest.approx(4.0)


def test_a_replica_that_nobody_ever_asked_shortens_nobody_elses_window() -> None:
    """SGLang counts nothing before the first request: 450 answers of the minute, none of them in its last quarter."""
    series = series_for(EngineName.SGLang, "0.5.15")
    every = [5.0 * index for index in range(13)]
    inside: dict[SeriesKey, tuple[Sample, ...]] = {
        (f"{name}", ()): tuple((at, 0.0) for at in every) for name in (series.running, series.waiting)
    }
    inside[f"{series.heartbeat}", ()] = tuple((at, 0.1 * at) for at in every)
    answered = tuple((at, 10.0 * min(at, 45.0)) for at in every)
    found = {"a": History(60.0, {**inside, (series.finished, ()): answered}), "b": History(60.0, inside)}
    targets = [
        EngineTarget(uid, "team", f"chat-{uid}", "10.0.0.1", 30000, "/metrics", (), series=series) for uid in found
    ]
    assert observe_pool(targets, found).requests_per_second == pytest.approx(7.5)


@pytest.mark.parametrize("at_front", [True, False], ids=["routers", "engines"])
def test_a_page_that_did_not_answer_for_a_while_makes_no_fewer_arrivals_of_the_others(*, at_front: bool) -> None:
    """Two requests a second came at each of two pods; one was last read 35 s before."""
    counter = FRONTS.ways[0].added[0].name if at_front else SERIES.finished
    pages = {"a": [5.0 * index for index in range(25)], "b": [0.0, 40.0, 85.0, 120.0]}
    counts = {uid: History(120.0, {(counter, ()): tuple((at, 2.0 * at) for at in read)}) for uid, read in pages.items()}
    idle = dict.fromkeys(pages, history([0.0] * 13, [0.0] * 13))
    engines = [EngineTarget(uid, "team", uid, "10.0.0.1", 8000, "/metrics", (), series=SERIES) for uid in pages]
    fronts = [Target(f"front-{uid}", "team", uid, "10.0.0.2", 29000, "/metrics", ()) for uid in pages]
    at_fronts = {f"front-{uid}": found for uid, found in counts.items()}
    found = {**idle, **at_fronts} if at_front else counts
    seen = observe_pool(engines, found, fronts if at_front else [])
    assert seen.arrivals_at_front is at_front
    assert seen.arrivals == pytest.approx(40.0)
    assert seen.arrival_seconds == pytest.approx(10.0)
