"""A status is written when that changes something, and only then."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weft.control.statuses.status import needs_write
from weft.control.statuses.status_writer import decided_status
from weft.domain.decision import PoolDecision
from weft.domain.snapshot import ResourceKey
from weft.domain.status import Observed, PoolStatus

Json = dict[str, Any]

NOW = 1_782_892_800.0

READY = {"type": "Ready", "status": "True", "reason": "Serving", "message": ""}
PLANNED = {"type": "Planned", "status": "True", "reason": "ShapeChosen", "message": ""}
ASSIGNED = {"replica": 0, "nodes": ["n1"]}


def live(status: Json, owned: Json) -> Json:
    """An object with this status, of which the manager owns these fields."""
    entry = {"manager": "weft-decide", "subresource": "status", "fieldsV1": {"f:status": owned}}
    return {"metadata": {"managedFields": [entry]}, "status": status}


OWNED = {
    "f:desiredReplicas": {},
    "f:failure": {"f:count": {}},
    "f:prefill": {"f:desired": {}},
    "f:assignments": {'k:{"replica":0}': {".": {}}},
    "f:conditions": {'k:{"type":"Planned"}': {".": {}}},
}
STATUS = {
    "desiredReplicas": 2,
    "replicas": 1,
    "failure": {"count": 1},
    "prefill": {"desired": 1, "replicas": 1},
    "assignments": [ASSIGNED],
    "conditions": [READY, PLANNED],
}
WANTED = {
    "desiredReplicas": 2,
    "failure": {"count": 1},
    "prefill": {"desired": 1},
    "assignments": [ASSIGNED],
    "conditions": [PLANNED],
}


def test_the_same_again_is_no_write_whatever_others_have_there() -> None:
    assert not needs_write(live(STATUS, OWNED), WANTED, "weft-decide")


@pytest.mark.parametrize(
    "change",
    [
        {"desiredReplicas": 3},
        {"prefill": {"desired": 2}},
        {"assignments": [{"replica": 0, "nodes": ["n2"]}]},
        {"assignments": [ASSIGNED, {"replica": 1, "nodes": ["n2"]}]},
        {"conditions": [{**PLANNED, "status": "False"}]},
    ],
    ids=["number", "inside", "moved", "added", "condition"],
)
def test_a_difference_is_a_write(change: Json) -> None:
    assert needs_write(live(STATUS, OWNED), {**WANTED, **change}, "weft-decide")


@pytest.mark.parametrize("gone", ["failure", "prefill", "assignments", "conditions"])
def test_what_we_wrote_and_no_longer_want_is_a_write(gone: str) -> None:
    """Server-side apply removes it; without the write it would stay for ever."""
    wanted = {name: value for name, value in WANTED.items() if name != gone}
    assert needs_write(live(STATUS, OWNED), wanted, "weft-decide")


@pytest.mark.parametrize("empty", ["assignments", "conditions"])
def test_an_item_that_is_no_longer_wanted_is_a_write(empty: str) -> None:
    assert needs_write(live(STATUS, OWNED), {**WANTED, empty: []}, "weft-decide")


def test_what_another_manager_wrote_is_not_ours_to_remove() -> None:
    assert not needs_write(live({"replicas": 4}, {}), {}, "weft-decide")


def test_the_first_status_is_a_write_and_an_empty_one_is_not() -> None:
    fresh: Json = {"metadata": {}}
    assert needs_write(fresh, WANTED, "weft-decide")
    assert not needs_write(fresh, {"assignments": []}, "weft-decide")


def test_a_status_that_is_written_anyway_carries_the_figures_of_now() -> None:
    """L3 forbids writes for the figures alone; in the write of a scale-up yesterday's rate would only mislead."""
    before = PoolStatus(desired_replicas=1, observed=Observed(requests_per_second=10.0))
    status = decided_status(_decision(before), {"metadata": {}}, NOW)
    body = {"metadata": {}, "status": status}
    busier = replace(before, observed=Observed(requests_per_second=30.0))
    assert status == decided_status(_decision(busier), body, NOW + 10)
    grown = decided_status(_decision(replace(busier, desired_replicas=3)), body, NOW + 10)
    assert (3, "30") == (grown["desiredReplicas"], grown["observed"]["requestsPerSecond"])


def _decision(status: PoolStatus) -> PoolDecision:
    return PoolDecision(ResourceKey("InferencePool", "team", "chat", "u-1"), 1, status, 1, ())
