"""An operator under the shipped roles: from a pool to pods that serve, and back to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from weft.domain import labels
from weft.observe.records import epoch_seconds, read_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(150)

Json = dict[str, Any]


@pytest.fixture(scope="module")
def place(weft: InstalledWeft) -> Place:
    """Two boards of eight H200."""
    return weft.place("operating", h200_boards(2))


@pytest.fixture(scope="module")
def operator(place: Place) -> Iterator[OperatorProcess]:
    with place.operator() as running:
        yield running


def writes_during_decisions(operator: OperatorProcess, count: int) -> float:
    """Writes that the API server takes while so many decisions are made."""
    before, decided = operator.metric("weft_writes_total"), operator.metric("weft_decision_seconds_count")
    eventually(lambda: operator.metric("weft_decision_seconds_count") >= decided + count, f"{count} more decisions")
    return operator.metric("weft_writes_total") - before


@pytest.fixture
def chat(place: Place, operator: OperatorProcess) -> Iterator[str]:
    """A pool that serves, gone afterwards."""
    place.create_pool("chat")
    place.wait_ready("chat")
    yield "chat"
    place.delete_pool("chat")
    eventually(lambda: not place.left_over(), "everything of the pool is gone", timeout_seconds=90)


def test_a_pool_is_planned_placed_and_served(place: Place, chat: str) -> None:
    status = place.status(chat)
    assert status["observedGeneration"] == 1
    assert status["plan"]["accelerator"] == "H200"
    assert [len(a["nodes"]) for a in status["assignments"]] == [1]
    assert place.condition(chat, "Placed") == ("True", "AllPlaced")


def test_its_pod_runs_where_it_was_decided(place: Place, chat: str) -> None:
    """The stock scheduler put it there, by required affinity; nobody set spec.nodeName."""
    pod = place.pods()[0]
    assert pod["spec"]["nodeName"] == place.status(chat)["assignments"][0]["nodes"][0]
    assert not pod["spec"].get("schedulingGates")
    bound = [field["manager"] for field in pod["metadata"]["managedFields"]]
    assert labels.CONVERGE_MANAGER in bound


def test_the_release_of_a_pod_can_be_told_from_the_pod(place: Place, chat: str) -> None:
    """A restarted operator knows since when the scheduler had its chance."""
    body = place.pods()[0]
    record = read_pod(body)
    assert record is not None
    created = epoch_seconds(body["metadata"]["creationTimestamp"])
    assert created is not None
    assert record.released is not None
    assert record.released >= created


def test_a_steady_state_writes_nothing(place: Place, operator: OperatorProcess, chat: str) -> None:
    """L3: ticks, metrics and resyncs go by, and the API server hears no write."""
    eventually(lambda: writes_during_decisions(operator, 4) == 0, "it came to rest", timeout_seconds=40)
    assert writes_during_decisions(operator, 5) == 0


def test_more_replicas_are_added_and_fewer_remain(place: Place, chat: str) -> None:
    place.change_pool(chat, {"spec": {"scaling": {"minReplicas": 3}}})
    place.wait_ready(chat, 3)
    assert sorted(a["replica"] for a in place.status(chat)["assignments"]) == [0, 1, 2]


def test_a_pod_that_somebody_deletes_is_replaced(place: Place, chat: str) -> None:
    deleted = place.pods()[0]["metadata"]
    place.delete_pod(deleted["name"])
    eventually(
        lambda: place.is_ready(chat, 1) and [p["metadata"]["uid"] for p in place.pods()] != [deleted["uid"]],
        "another pod serves",
        timeout_seconds=60,
    )


def test_an_invalid_spec_is_said_and_its_correction_heals(place: Place, operator: OperatorProcess) -> None:
    """L2: no manual step after the edit."""
    place.create_pool("unknown", model={"id": "nobody/knows-this"})
    eventually(lambda: place.condition("unknown", "Planned") == ("False", "ModelUnknown"), "the plan is refused")
    eventually(lambda: place.condition("unknown", "Stalled")[0] == "True", "kstatus reads it as failed")
    place.change_pool("unknown", {"spec": {"model": {"id": "meta-llama/Llama-3.1-8B-Instruct"}}})
    place.wait_ready("unknown")
    assert place.condition("unknown", "Stalled") == ("", "")
    place.delete_pool("unknown")


def test_the_operator_is_alive_and_says_what_it_does(operator: OperatorProcess, chat: str) -> None:
    assert operator.is_healthy()
    assert operator.metric("weft_writes_total", kind="Pod", verb="create") >= 1
    eventually(lambda: operator.metric("weft_pool_ready_replicas", pool="chat") == 1, "a decision saw it ready")
    assert operator.metric("weft_pool_replica_capacity", pool="chat") > 0
    assert operator.metric("weft_snapshot_age_seconds") < 100


def test_it_stops_in_time_and_continues_after_a_kill(place: Place) -> None:
    """L5: whatever the moment, a new process ends where the old one would have."""
    other = place.weft.place("restarting", h200_boards(1))
    with other.operator() as process:
        other.create_pool("chat")
        eventually(other.pods, "the first pod is there")
        process.kill()
        process.resume()
        other.wait_ready("chat")
        assert process.stop() < 10
