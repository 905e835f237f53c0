"""Arrivals over the last seconds: counted at the front, else what was answered plus what was added inside."""

from __future__ import annotations

import pytest

from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.observe.history import History, Target
from weft.observe.observation import observe_pool

SERIES = series_for(EngineName.VLLM, "0.32.0")
TARGET = Target("a", "team", "chat-0", "10.0.0.1", 8000, "/metrics", ())


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
    seen = observe_pool([TARGET], {"a": history([0.0] * 13, [*[4.0] * 10, 14.0, 24.0, 34.0])}, SERIES)
    assert seen.arrivals == pytest.approx(20)
    assert seen.arrival_seconds == pytest.approx(10)


def test_answers_count_and_a_drained_queue_is_no_negative_arrival() -> None:
    answered = observe_pool([TARGET], {"a": history([10.0 * i for i in range(13)], [0.0] * 13)}, SERIES)
    assert answered.arrivals == pytest.approx(20)
    drained = observe_pool([TARGET], {"a": history([0.0] * 13, [*[50.0] * 12, 0.0])}, SERIES)
    assert drained.arrivals == 0
