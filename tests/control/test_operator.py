"""An operator under the shipped roles: from a pool to pods that serve, and back to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from tests.scenarios.tenants import message
from weft.domain import labels
from weft.domain.texts.times import known_instant
from weft.observe.objects.records import read_pod

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
    created = known_instant(body["metadata"]["creationTimestamp"])
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
    assert eventually(
        lambda: place.is_ready(chat, 1) and [p["metadata"]["uid"] for p in place.pods()] != [deleted["uid"]],
        "another pod serves",
        timeout_seconds=60,
    )


@dataclass(frozen=True, slots=True)
class Mistake:
    """Fields of a spec that no plan can follow, what is said of them, and the edit that mends them."""

    spec: Json
    reason: str
    words: tuple[str, ...]
    edit: Json


MISTAKES = {
    "a model that nobody knows": Mistake(
        {"model": {"id": "nobody/knows-this"}},
        "ModelUnknown",
        ("nobody/knows-this",),
        {"model": {"id": "meta-llama/Llama-3.1-8B-Instruct"}},
    ),
    "a shape that cannot be": Mistake(
        {"model": {"id": "meta-llama/Llama-3.3-70B-Instruct"}, "shape": {"tensorParallel": 3}},
        "ShapeInvalid",
        ("spec.shape.tensorParallel 3: ", "64 attention heads", "allowed: 1, 2, 4"),
        {"shape": {"tensorParallel": 4}},
    ),
}


@pytest.fixture
def mistaken(place: Place, operator: OperatorProcess) -> Iterator[str]:
    """A name for a pool that is gone afterwards."""
    yield "mistaken"
    place.delete_pool("mistaken")
    eventually(lambda: not place.left_over(), "everything of the pool is gone", timeout_seconds=90)


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_an_invalid_spec_is_said_and_its_correction_heals(
    place: Place, operator: OperatorProcess, mistaken: str, mistake: Mistake
) -> None:
    """L2: no manual step after the edit."""
    place.create_pool(mistaken, **mistake.spec)
    eventually(lambda: place.condition(mistaken, "Planned") == ("False", mistake.reason), "the plan is refused")
    said = message(place, mistaken, "Planned")
    assert [words for words in mistake.words if words not in said] == [], said
    eventually(lambda: place.condition(mistaken, "Stalled") == ("True", mistake.reason), "kstatus reads it as failed")
    assert operator.metric("weft_pool_condition", pool=mistaken, condition="Planned", reason=mistake.reason) == 0
    assert not place.pods()
    place.change_pool(mistaken, {"spec": mistake.edit})
    place.wait_ready(mistaken)
    assert place.condition(mistaken, "Planned")[0] == "True"
    assert place.condition(mistaken, "Stalled") == ("", "")


def test_the_operator_is_alive_and_says_what_it_does(operator: OperatorProcess, chat: str) -> None:
    assert operator.is_healthy()
    eventually(lambda: operator.metric("weft_pool_ready_replicas", pool=chat) == 1, "a decision saw it ready")
    assert operator.metric("weft_pool_replica_capacity", pool=chat) > 0
    assert operator.metric("weft_pool_condition", pool=chat, condition="Planned", reason="ShapeChosen") == 1
    assert operator.metric("weft_pool_condition", pool=chat, condition="Placed", reason="AllPlaced") == 1


def test_the_operator_counts_its_decisions_by_reason_and_times_them(operator: OperatorProcess, chat: str) -> None:
    """Engines of simulated nodes have no metrics, so that is what every decision about the pool rests on."""
    counted = eventually(lambda: operator.metric("weft_decisions_total", reason="HoldMetricsMissing"), "a decision")
    eventually(lambda: operator.metric("weft_decisions_total", reason="HoldMetricsMissing") > counted, "one more")
    assert operator.metric("weft_decision_seconds_count") > 0
    assert operator.metric("weft_decision_seconds_sum") > 0


def test_the_operator_counts_its_writes_by_kind_and_verb(operator: OperatorProcess, chat: str) -> None:
    kinds = {"Pod": "create", "Service": "apply", "PodDisruptionBudget": "apply", "InferencePool/status": "apply"}
    for kind, verb in kinds.items():
        assert operator.metric("weft_writes_total", kind=kind, verb=verb) >= 1


def test_the_operator_measures_the_age_of_its_picture(operator: OperatorProcess) -> None:
    """Above zero, which a gauge that nobody sets would be; a silent API server sends a bookmark every minute."""
    assert 0 < operator.metric("weft_snapshot_age_seconds") < 100


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
