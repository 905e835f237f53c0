"""Pods whose engine did not answer in time, or whose node does not get ready for them, by what their status has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.observe.test_records import pod
from weft.domain.texts.times import known_instant
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


def runs(began: str = "2026-01-01T00:01:00Z") -> Json:
    return {"name": "engine", "state": {"running": {"startedAt": began}}}


@pytest.mark.parametrize(
    ("status", "changed", "containers", "since"),
    [
        ("False", "2026-01-01T02:00:00Z", [runs()], "2026-01-01T02:00:00Z"),
        ("False", "2026-01-01T02:00:00Z", [runs(), runs("2026-01-01T00:01:30Z")], "2026-01-01T02:00:00Z"),
        ("True", "2026-01-01T02:00:00Z", [runs()], None),  # it is
        ("False", "2026-01-01T00:00:30Z", [runs()], None),  # it never was: the condition is from its beginning
        ("False", "2026-01-01T00:01:00Z", [runs()], None),
        ("False", "2026-01-01T02:00:00Z", [runs(), {"name": "sidecar", "state": {"waiting": {}}}], None),
        ("False", "2026-01-01T02:00:00Z", [runs("2026-01-01T03:00:00Z")], None),  # started again since
        ("False", "2026-01-01T02:00:00Z", [], None),
        ("False", None, [runs()], None),
        ("False", "yesterday", [runs()], None),
    ],
)
def test_since_when_containers_that_run_are_not_ready_any_more(
    status: str, changed: str | None, containers: list[Json], since: str | None
) -> None:
    """By the containers' condition: gates of a load balancer make a pod unready whose engine answers."""
    conditions = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T02:30:00Z"},
        {"type": "ContainersReady", "status": status, "lastTransitionTime": changed},
    ]
    record = read_pod(pod({"phase": "Running", "conditions": conditions, "containerStatuses": containers}))
    assert record is not None
    assert record.unready == (None if since is None else known_instant(since))
