"""Replicas go where they fit whole, and nowhere else; who waits is told what would make room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kubernetes import client

from e2e.cluster.presets import h200_boards, nvl72_rack
from e2e.cluster.waiting import eventually
from tests.installed import PLACE_LABEL
from tests.scenarios.tenants import engines, hold_gpus, is_bound, message, on_board

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(150)

TRAYS_OF_A_REPLICA = 4


def test_a_replica_of_eight_waits_for_a_whole_board(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """Four free GPUs on each of two boards are no board; the condition names the hole and who is in the way."""
    place = weft.place("whole-board", h200_boards(2))
    for index in (0, 1):
        hold_gpus(place, f"job-{index}", f"whole-board-h200-{index}", 4)
    eventually(lambda: is_bound(place, "job-0") and is_bound(place, "job-1"), "half of each board is taken")
    decisions = operator.metric("weft_decision_seconds_count")
    place.create_pool("wide", **on_board(place, 8))
    eventually(lambda: place.condition("wide", "Placed") == ("False", "NoSlot"), "the pool has no slot")

    assert (
        "H200 BF16 TP8 needs 8 GPUs free on one node: the largest hole is 4 of 8 on whole-board-h200-0; "
        "to make room, free 4 GPUs more on whole-board-h200-0 (held by whole-board/job-0)"
    ) in message(place, "wide", "Placed")
    eventually(lambda: operator.metric("weft_decision_seconds_count") >= decisions + 4, "more decisions")
    assert engines(place, "wide") == []
    assert not place.status("wide").get("assignments")

    place.delete_pod("job-1")
    place.wait_ready("wide")
    assert [pod["spec"]["nodeName"] for pod in engines(place, "wide")] == ["whole-board-h200-1"]


def test_a_replica_of_sixteen_stays_inside_one_clique(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """Of three and seven free trays the seven take one replica; the six that are left are no clique for another."""
    place = weft.place("cliques", [*nvl72_rack("rack-a", trays=3), *nvl72_rack("rack-b", trays=7)])
    place.create_pool(
        "deep",
        model={"id": "deepseek-ai/DeepSeek-R1"},
        shape={"tensorParallel": 16},
        placement={"accelerators": ["GB200"], "nodeSelector": {PLACE_LABEL: "cliques"}},
    )
    place.wait_ready("deep")
    place.change_pool("deep", {"spec": {"scaling": {"minReplicas": 2}}})
    eventually(lambda: place.condition("deep", "Placed") == ("False", "NoSlot"), "the second has no slot")

    nodes = {pod["spec"]["nodeName"] for pod in engines(place, "deep")}
    assert len(nodes) == TRAYS_OF_A_REPLICA
    assert {clique_of(place, node) for node in nodes} == {clique_of(place, "cliques-rack-b-tray-00")}
    assert "needs 4 nodes with 4 GPUs free each inside one NVLink domain" in message(place, "deep", "Placed")
    assert place.status("deep")["readyReplicas"] == 1


def test_of_two_pools_that_want_the_last_slot_one_gets_it(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """The other one says who has it, and gets it when that one leaves."""
    place = weft.place("last-slot", h200_boards(1))
    names = {"first", "second"}
    for name in sorted(names):
        place.create_pool(name, **on_board(place, 8))
    winner = eventually(lambda: [name for name in names if place.is_ready(name, 1)], "one of them serves")[0]
    (loser,) = names - {winner}
    eventually(lambda: place.condition(loser, "Placed") == ("False", "NoSlot"), "the other waits")
    assert f"(held by pool last-slot/{winner})" in message(place, loser, "Placed")
    assert engines(place, loser) == []

    place.delete_pool(winner)
    place.wait_ready(loser)


def clique_of(place: Place, node: str) -> str:
    with place.weft.cluster.api_client() as api:
        body = api.sanitize_for_serialization(client.CoreV1Api(api).read_node(node))
    return str(body["metadata"]["labels"]["nvidia.com/gpu.clique"])
