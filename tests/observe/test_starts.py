"""The phases of a start, as a pod tells them that got ready."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.domain.cluster import PodIdentity
from weft.domain.start_up import MeasuredStart
from weft.observe.objects.starts import read_start, startup_seconds, with_weights

Json = dict[str, Any]

WHO = PodIdentity("uid", 4, 0, "r1")


def at(second: int) -> str:
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def condition(kind: str, second: int, status: str = "True") -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": at(second)}


def engine(second: int, restarts: int = 0) -> Json:
    return {"name": "engine", "restartCount": restarts, "state": {"running": {"startedAt": at(second)}}}


def download(begun: int, finished: int) -> Json:
    return {"name": "weights", "state": {"terminated": {"startedAt": at(begun), "finishedAt": at(finished)}}}


def whole(ready: str = "True", restarts: int = 0) -> Json:
    """Bound at 10, set up at 13, downloads from 20 to 80, runs at 353 after a pull and answers at 400."""
    return {
        "conditions": [
            condition("PodScheduled", 10),
            condition("PodReadyToStartContainers", 13),
            condition("Ready", 400, ready),
        ],
        "initContainerStatuses": [download(20, 80)],
        "containerStatuses": [engine(353, restarts)],
    }


def test_each_phase_that_kubernetes_shows_is_told_apart() -> None:
    assert read_start(whole(), WHO) == MeasuredStart(4, (3, 280, 60, 0, 47))


@pytest.mark.parametrize("failed", [whole(ready="False"), whole(restarts=1), {}, {"conditions": whole()["conditions"]}])
def test_a_start_that_failed_half_way_is_none(failed: Json) -> None:
    assert read_start(failed, WHO) is None


@pytest.mark.parametrize(("told", "phases"), [(30.4, (30, 17)), (99.0, (47, 0)), (0.0, (0, 47)), (None, (0, 47))])
def test_what_an_engine_says_of_its_weights_is_a_part_of_what_it_did(
    told: float | None, phases: tuple[int, int]
) -> None:
    assert with_weights(MeasuredStart(4, (3, 280, 60, 0, 47)), told).phases[3:] == phases


@given(st.lists(st.integers(0, 3599), min_size=6, max_size=6))
def test_phases_are_the_whole_start_whatever_clocks_say(moments: list[int]) -> None:
    bound, set_up, begun, finished, runs, ready = moments
    body = whole()
    body["conditions"] = [
        condition("PodScheduled", bound),
        condition("PodReadyToStartContainers", set_up),
        condition("Ready", ready),
    ]
    body["initContainerStatuses"], body["containerStatuses"] = [download(begun, finished)], [engine(runs)]
    start = read_start(body, WHO)
    assert start is not None
    assert min(start.phases) >= 0
    assert sum(start.phases) == startup_seconds(body)
