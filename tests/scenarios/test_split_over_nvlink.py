"""One ComputeDomain for both halves of a split, on the real API server and the real scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.cluster.waiting import eventually
from tests.installed import PLACE_LABEL
from tests.scenarios.nvlink import CLAIMS, TEMPLATES, TRAY_GPUS, Driver
from tests.scenarios.tenants import change_split, create_split, delete_split, engines

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft

pytestmark = pytest.mark.timeout(150)


def serve(driver: Driver, prefill: int, decode: int) -> bool:
    """Whether both halves have so many replicas, with one ComputeDomain for all of them, after one more step."""
    driver.step()
    halves = {each["metadata"]["name"] for each in driver.place.objects("apis/weft.dev/v1alpha1/inferencepools")}
    if halves != {"pair-prefill", "pair-decode"}:
        return False
    ready = driver.place.is_ready("pair-prefill", prefill) and driver.place.is_ready("pair-decode", decode)
    return ready and len(driver.domains()) == 1


def test_nodes_join_and_leave_what_both_halves_share_while_it_serves(
    weft: InstalledWeft, operator: OperatorProcess
) -> None:
    """The scheduler gives each pod the channel of its node, and nothing changes the object as the split grows."""
    driver = Driver(weft, "halves", trays=5)
    create_split(
        driver.place,
        "pair",
        {
            "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
            "kvTransfer": {"transport": "NVLink"},
            "shape": {"tensorParallel": TRAY_GPUS},
            "placement": {"accelerators": ["GB200"], "nodeSelector": {PLACE_LABEL: driver.place.namespace}},
            "scaling": {"minReplicas": 1, "maxReplicas": 1},
            "router": {"type": "None"},
        },
    )
    eventually(lambda: serve(driver, 1, 1), "both halves serve", timeout_seconds=60)
    (before,) = driver.domains()

    change_split(driver.place, "pair", {"spec": {"decode": {"scaling": {"minReplicas": 3, "maxReplicas": 3}}}})
    eventually(lambda: serve(driver, 1, 3), "one half has grown", timeout_seconds=60)
    (after,) = driver.domains()
    assert (before["metadata"]["uid"], before["spec"]) == (after["metadata"]["uid"], after["spec"])
    nodes = {pod["spec"]["nodeName"] for half in ("pair-prefill", "pair-decode") for pod in engines(driver.place, half)}
    assert 4 == len(nodes)
    eventually(lambda: {after["metadata"]["name"]: nodes} == driver.step().labelled(), "its nodes are labelled")
    claims = driver.place.objects(CLAIMS)
    assert 4 == len(claims)
    assert all(claim["status"]["allocation"] for claim in claims)

    delete_split(driver.place, "pair")
    eventually(lambda: not left(driver.step()), "nothing is left", timeout_seconds=60)


def left(driver: Driver) -> list[str]:
    objects = [*driver.domains(), *(each for path in (CLAIMS, TEMPLATES) for each in driver.place.objects(path))]
    return [each["metadata"]["name"] for each in objects]
