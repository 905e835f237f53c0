"""An operator through crashes, stale caches and outages ends where an undisturbed one would (L5, S1 to S3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from tests.cluster_scenarios.faulty_proxy import FaultyProxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(180)

WRITES_OF_A_NEW_POOL = 9  # at least: plan and assignment, Service, budget, pod, that it was seen, release, progress


@pytest.fixture(scope="module")
def place(weft: InstalledWeft) -> Place:
    return weft.place("faults", h200_boards(2))


@pytest.fixture
def proxy(weft: InstalledWeft) -> Iterator[FaultyProxy]:
    with FaultyProxy(weft.kubeconfig) as running:
        yield running


@pytest.fixture
def operator(place: Place, proxy: FaultyProxy, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator behind the proxy; what it made goes with it."""
    kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig")
    with place.operator("--tick", "1", "--resync", "5", kubeconfig=kubeconfig) as running:
        yield running
    for body in place.objects("apis/weft.dev/v1alpha1/inferencepools"):
        place.delete_pool(body["metadata"]["name"])
    eventually(lambda: not place.left_over(), "everything is gone", timeout_seconds=90)


@pytest.mark.parametrize("crash_after", range(1, WRITES_OF_A_NEW_POOL + 1))
def test_a_crash_after_any_write_of_a_start_changes_nothing(
    place: Place, proxy: FaultyProxy, operator: OperatorProcess, crash_after: int
) -> None:
    """F1: killed after the write, before its answer is known; the next process finishes, with one pod and no other."""
    proxy.on_write = lambda number: operator.kill() if number == crash_after else None
    place.create_pool("chat")
    eventually(lambda: not operator.running, "it was killed in the middle")
    proxy.on_write = lambda _: None
    operator.resume()
    place.wait_ready("chat")
    assert proxy.created("pods") == 1
    assert proxy.deleted("pods") == 0
    assert [a["replica"] for a in place.status("chat")["assignments"]] == [0]


def test_a_cache_that_grows_old_creates_nothing_twice(
    place: Place, proxy: FaultyProxy, operator: OperatorProcess
) -> None:
    """F2: watches are silent while writes go through; what was not seen is not done again, nor undone."""
    place.create_pool("chat")
    place.wait_ready("chat")
    proxy.freeze()
    place.change_pool("chat", {"spec": {"scaling": {"minReplicas": 3}}})
    decided = operator.metric("weft_decision_seconds_count")
    eventually(lambda: operator.metric("weft_decision_seconds_count") >= decided + 8, "decisions on an old picture")
    assert proxy.deleted("pods") == 0
    proxy.thaw()
    place.wait_ready("chat", 3)
    assert proxy.created("pods") == 3
    assert proxy.deleted("pods") == 0


@pytest.mark.parametrize("status", [500, 403])
def test_an_outage_in_the_middle_of_a_start_heals(
    place: Place, proxy: FaultyProxy, operator: OperatorProcess, status: int
) -> None:
    """F13: no restart, nothing twice."""
    proxy.refuse = status
    place.create_pool("chat")
    eventually(operator.is_healthy, "it stays alive")
    decided = operator.metric("weft_decision_seconds_count")
    eventually(lambda: operator.metric("weft_decision_seconds_count") >= decided + 5, "it goes on deciding")
    proxy.refuse = None
    place.wait_ready("chat", seconds=90)
    assert proxy.created("pods") == 1
    assert operator.running
