"""Pods that Kueue holds and lets go: its gates and its words are told from ours."""

from __future__ import annotations

from typing import Any

import pytest

from weft.domain import labels
from weft.domain.texts.times import known_instant
from weft.observe.objects.records import read_pod


def of_kueue(**status: object) -> dict[str, Any]:
    """A pod of ours that Kueue let go at 10:00 and that we had let go before."""
    fields = [
        {"manager": "weft-converge", "time": "2026-08-01T09:00:00Z"},
        {"manager": "kueue", "time": "2026-08-01T10:00:00Z"},
        {"manager": "kueue", "time": "2026-08-01T11:00:00Z", "subresource": "status"},
        {"manager": "somebody", "time": "2026-08-01T12:00:00Z"},
    ]
    tags = {"kueue.x-k8s.io/queue-name": "llm", labels.POOL_UID: "u", labels.REPLICA: "1", labels.RANK: "0"}
    owner = {"apiVersion": labels.API_VERSION, "kind": "InferencePool", "name": "chat", "uid": "u", "controller": True}
    meta = {"namespace": "team", "name": "chat-1-0", "uid": "x", "labels": tags, "managedFields": fields}
    return {"metadata": {**meta, "ownerReferences": [owner]}, "spec": {}, "status": status}


def test_the_gates_of_others_are_told_from_ours() -> None:
    gates = [{"name": labels.GATE}, {"name": "kueue.x-k8s.io/admission"}]
    found = [read_pod({**of_kueue(), "spec": {"schedulingGates": gates[start:]}}) for start in range(3)]
    assert [(True, True), (False, True), (False, False)] == [(pod.gated, pod.queued) for pod in found if pod]


def test_a_pod_of_kueue_counts_from_when_kueue_let_it_go() -> None:
    """Neither from our own gate, which fell long before, nor from what anybody else writes."""
    pod = read_pod(of_kueue())
    assert pod is not None
    assert known_instant("2026-08-01T10:00:00Z") == pod.released
    held = read_pod({**of_kueue(), "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}})
    assert held is not None
    assert held.released is None


@pytest.mark.parametrize(
    ("status", "stopped"), [("True", ("WorkloadEvictedDueToPreempted", "for another")), ("False", None)]
)
def test_why_a_pod_is_taken_away_is_read_from_its_condition(status: str, stopped: tuple[str, str] | None) -> None:
    said = {
        "type": "TerminationTarget",
        "status": status,
        "reason": "WorkloadEvictedDueToPreempted",
        "message": "for another",
    }
    pod = read_pod(of_kueue(conditions=[said]))
    assert pod is not None
    assert stopped == pod.stopped
