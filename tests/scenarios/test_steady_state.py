"""While nothing changes, nothing is written: twenty pools under constant load (L3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from tests.installed import GROUP, PLACE_LABEL, VERSION
from tests.scenarios.audit import CREATED, Asked, writes
from tests.scenarios.conftest import RESYNC_SECONDS
from tests.scenarios.constant_load import ConstantLoad
from weft.observe.custom_resources.cache import PLURALS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(260)

POOLS = tuple(f"pool-{index:02}" for index in range(20))
REQUESTS_PER_SECOND = 2.0
RESYNCS = 10
DECISIONS = "weft_decision_seconds_count"


@pytest.fixture(scope="module")
def place(weft: InstalledWeft, operator: OperatorProcess) -> Iterator[Place]:
    """Twenty pools that serve, one GPU each.

    They are gone afterwards: that their engines fall silent is written later, while another test counts writes.
    """
    place = weft.place("steady", h200_boards(3))
    for name in POOLS:
        place.create_pool(
            name,
            placement={"accelerators": ["H200"], "nodeSelector": {PLACE_LABEL: "steady"}},
            workload={"requestsPerSecond": 2, "inputTokens": {"mean": 800}, "outputTokens": {"mean": 100}},
            slo={"ttft": {"p95": "1s"}, "tpot": {"p95": "50ms"}},
        )
    for name in POOLS:
        place.wait_ready(name, seconds=90)
    yield place
    for name in POOLS:
        place.delete_pool(name)
    eventually(lambda: not place.left_over(), "everything of the pools is gone", timeout_seconds=90)


def test_twenty_pools_under_constant_load_cause_no_write(
    control_plane: ControlPlane, operator: OperatorProcess, place: Place
) -> None:
    """Over ten resyncs, counted by the API server; meanwhile every pool is asked, measured and decided upon.

    The first minute of traffic is written, and what follows a quarter of an hour later at the earliest.
    """
    with ConstantLoad(place, POOLS, REQUESTS_PER_SECOND) as load:
        for name in POOLS:
            eventually(partial(is_measured, place, name), f"{name} is measured", timeout_seconds=90)
        eventually(lambda: not written_during(control_plane, operator, 2), "writing ends", timeout_seconds=60)
        serving = engines_of(place)
        assert len(serving) == len(POOLS), serving
        assert serving <= created_pods(control_plane, place)
        answered = load.answered
        assert written_during(control_plane, operator, RESYNCS) == []
        assert load.answered > answered + len(POOLS)


def engines_of(place: Place) -> set[str]:
    """Pods that there are now."""
    return {pod["metadata"]["name"] for pod in place.objects("api/v1/pods", "weft.dev/pool")}


def created_pods(cluster: ControlPlane, place: Place) -> set[str]:
    """Whose log is to be empty later: it names every pod that Weft ever made, so it is not empty by mistake."""
    asked = [each for each in writes(cluster) if (each.verb, each.resource) == ("create", "/pods")]
    return {each.name for each in asked if each.namespace == place.namespace and each.code == CREATED}


def is_measured(place: Place, name: str) -> bool:
    is_known = {"observed", "forecast"} <= place.status(name).keys()
    return is_known and place.condition(name, "SLOMet") == ("True", "WithinSLO")


def resources(cluster: ControlPlane) -> int:
    """How many resources there are in all namespaces, those of other scenarios among them."""
    with cluster.api_client() as api:
        custom = client.CustomObjectsApi(api)
        lists: Any = [custom.list_cluster_custom_object(GROUP, VERSION, plural) for plural in PLURALS.values()]
    return sum(len(each["items"]) for each in lists)


def written_during(cluster: ControlPlane, operator: OperatorProcess, resyncs: int) -> list[Asked]:
    """What Weft wrote while it passed over every resource that often, and decided more than half as often."""
    before, passes = len(writes(cluster)), operator.metric("weft_passes_total")
    enough, decisions = passes + resyncs * resources(cluster), operator.metric(DECISIONS)
    eventually(
        lambda: operator.metric("weft_passes_total") >= enough and operator.metric(DECISIONS) > decisions + resyncs / 2,
        f"{resyncs} resyncs",
        timeout_seconds=10 + 5 * resyncs * RESYNC_SECONDS,
        interval_seconds=0.5,
    )
    return writes(cluster)[before:]
