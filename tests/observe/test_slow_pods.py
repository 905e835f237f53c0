"""Pods whose engine did not answer in time, or whose node does not get ready for them, by what their status has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.observe.test_records import pod
from weft.observe.objects.records import read_pod

Json = dict[str, Any]

PROBED = {"containers": [{"name": "engine", "startupProbe": {"periodSeconds": 5, "failureThreshold": 120}}]}


def ended_after(seconds: int, *, ready_changed: str = "07:59:00", probed: Json | None = None) -> float | None:
    """For how long a container that ran from eight o'clock on did not answer, where it was ended for that."""
    end = f"2026-07-01T08:{seconds // 60:02}:{seconds % 60:02}Z"
    ended = {"exitCode": 137, "reason": "Error", "startedAt": "2026-07-01T08:00:00Z", "finishedAt": end}
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": f"2026-07-01T{ready_changed}Z"}
    engine = {"name": "engine", "state": {"terminated": ended}}
    record = read_pod(
        pod(
            {"phase": "Failed", "conditions": [ready], "containerStatuses": [engine]},
            PROBED if probed is None else probed,
        )
    )
    assert record is not None
    assert record.failure is not None
    return record.failure.unanswered_seconds


def test_an_engine_that_ran_for_as_long_as_its_probe_allows_was_ended_for_that() -> None:
    """The kubelet says so in an event alone."""
    assert ended_after(602) == 602.0
    assert ended_after(596) == 596.0  # the first probe is sent at once


def test_an_engine_that_ended_sooner_or_answered_was_not_too_slow() -> None:
    assert ended_after(400) is None
    assert ended_after(1800, ready_changed="08:29:59") is None
    assert ended_after(1800, probed={"containers": [{"name": "engine"}]}) is None


@pytest.mark.parametrize(("condition", "lacks"), [("False", True), ("True", False), (None, False)])
def test_a_pod_for_which_its_node_has_no_volumes_or_network_yet_is_known(condition: str | None, *, lacks: bool) -> None:
    told = [] if condition is None else [{"type": "PodReadyToStartContainers", "status": condition}]
    record = read_pod(pod({"phase": "Pending", "conditions": told}))
    assert record is not None
    assert record.unprepared is lacks
