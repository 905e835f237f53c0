"""Others take what was decided on, before the gates fall or after it: the scheduler has the last word, and it heals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from e2e.cluster.presets import nvl72_rack
from e2e.cluster.waiting import eventually
from tests.installed import PLACE_LABEL
from tests.manifests import install
from tests.scenarios.audit import CREATED, writes
from tests.scenarios.tenants import engines, hold_gpus, is_bound

if TYPE_CHECKING:
    from collections.abc import Callable

    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(200)

Json = dict[str, Any]
RACKS = [*nvl72_rack("rack-a", trays=2), *nvl72_rack("rack-b", trays=3)]  # the first is the tighter place for a pair


def pair(place: Place) -> Json:
    """A pool whose replica is of two trays; most of the processors of each."""
    return {
        "model": {"id": "meta-llama/Llama-3.3-70B-Instruct"},
        "shape": {"tensorParallel": 8},
        "engine": {"resources": {"cpu": "100"}},
        "placement": {"accelerators": ["GB200"], "nodeSelector": {PLACE_LABEL: place.namespace}},
    }


def allow_pods(place: Place, count: int) -> None:
    """A quota of processors, which Weft does not read: with those of one pod a pair stays before its release."""
    body: Json = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "processors"},
        "spec": {"hard": {"requests.cpu": str(100 * count)}},
    }
    with place.weft.cluster.api_client() as api:
        install(api, [body], place.namespace)
    eventually(lambda: place.quotas_in_force() == [body["spec"]["hard"]], "the quota is in force")


def cordon(place: Place, node: str) -> None:
    with place.weft.cluster.api_client() as api:
        client.CoreV1Api(api).patch_node(node, {"spec": {"unschedulable": True}})


def trays(place: Place, rack: str) -> list[str]:
    return [f"{place.namespace}-{node.name}" for node in RACKS if node.name.startswith(rack)]


def nodes(place: Place) -> list[str]:
    """Where the engines are, sorted."""
    return sorted(str(pod["spec"].get("nodeName")) for pod in engines(place, "pair"))


def half_created(place: Place) -> None:
    """The replica is decided on for the first rack, one of its pods is there behind its gate, the other is refused."""
    allow_pods(place, 1)
    place.create_pool("pair", **pair(place))
    eventually(lambda: place.condition("pair", "Stalled") == ("True", "PodRefused"), "the second pod is refused")
    (assignment,) = place.status("pair")["assignments"]
    assert trays(place, "rack-a") == sorted(assignment["nodes"])
    (pod,) = engines(place, "pair")
    assert pod["spec"]["schedulingGates"]


def taken(place: Place) -> None:
    """Somebody else's pod is bound to a GPU of the second tray; from another namespace, which has no such quota."""
    elsewhere = place.weft.place(f"{place.namespace}-others", ())
    hold_gpus(elsewhere, "job", trays(place, "rack-a")[1], 1)
    eventually(lambda: is_bound(elsewhere, "job"), "the job runs")


def cordoned(place: Place) -> None:
    cordon(place, trays(place, "rack-a")[1])


@pytest.mark.parametrize("happens", [taken, cordoned], ids=["taken", "cordoned"])
def test_a_place_that_is_lost_between_decision_and_release_is_left_for_another(
    weft: InstalledWeft, operator: OperatorProcess, happens: Callable[[Place], None]
) -> None:
    """Nothing was ever released for it, so the scheduler never saw the first replica."""
    place = weft.place(f"between-{happens.__name__}", RACKS)
    half_created(place)
    happens(place)
    eventually(lambda: assigned(place) not in ([], [0]), "it is placed anew")
    allow_pods(place, 4)
    place.wait_ready("pair", seconds=90)
    assert set(nodes(place)) <= set(trays(place, "rack-b"))
    assert not [pod for pod in engines(place, "pair") if pod["metadata"]["labels"]["weft.dev/replica"] == "0"]


def test_a_gated_pod_that_is_deleted_by_hand_comes_back_and_the_pair_serves(
    weft: InstalledWeft, operator: OperatorProcess
) -> None:
    """Of a replica whose pods were never all there nothing can have run: it is completed where it was decided."""
    place = weft.place("gated-by-hand", RACKS)
    half_created(place)
    (before,) = (pod["metadata"] for pod in engines(place, "pair"))
    place.delete_pod(before["name"])
    allow_pods(place, 4)
    place.wait_ready("pair", seconds=90)
    assert trays(place, "rack-a") == nodes(place)
    assert before["uid"] not in {pod["metadata"]["uid"] for pod in engines(place, "pair")}


def test_a_released_pair_of_which_one_pod_finds_no_place_goes_elsewhere_as_a_whole(
    weft: InstalledWeft, operator: OperatorProcess
) -> None:
    """The processors of one tray are taken, of which Weft does not know: one pod is bound and one is not, for a minute.

    Then both go, and the next replica avoids what the scheduler refused.
    """
    place = weft.place("half-bound", RACKS)
    crowd(place, trays(place, "rack-a")[1])
    place.create_pool("pair", **pair(place))
    eventually(lambda: sorted(map(is_scheduled, engines(place, "pair"))) == [False, True], "one of two is bound")
    assert [0] == assigned(place)
    eventually(lambda: 0 not in assigned(place), "the replica is given up", timeout_seconds=90)
    place.wait_ready("pair", seconds=90)
    assert set(nodes(place)) <= set(trays(place, "rack-b"))
    assert 4 == len([each for each in writes(place.weft.cluster) if is_creation(place, each)])


def test_two_pools_are_released_at_once_and_share_no_gpu(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """Both take whole trays of racks that hold them both, and each keeps to one clique."""
    place = weft.place("at-once", RACKS)
    for name in ("pair", "other"):
        place.create_pool(name, **pair(place))
    for name in ("pair", "other"):
        place.wait_ready(name)
    used = [pod["spec"]["nodeName"] for name in ("pair", "other") for pod in engines(place, name)]
    assert 4 == len(set(used)) == len(used)
    for name in ("pair", "other"):
        racks = {pod["spec"]["nodeName"].rsplit("-tray", 1)[0] for pod in engines(place, name)}
        assert 1 == len(racks)


def assigned(place: Place) -> list[int]:
    return [each["replica"] for each in place.status("pair").get("assignments") or ()]


def crowd(place: Place, node: str) -> None:
    """Somebody's pod that asks for processors alone."""
    body: Any = {
        "metadata": {"name": "crowd"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "job", "image": "job", "resources": {"requests": {"cpu": "100"}}}],
        },
    }
    with place.weft.cluster.api_client() as api:
        client.CoreV1Api(api).create_namespaced_pod(place.namespace, body)
    eventually(lambda: is_bound(place, "crowd"), "it runs")


def is_scheduled(pod: Json) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_creation(place: Place, each: Any) -> bool:  # noqa: ANN401 - a line of the audit log
    return (each.verb, each.resource, each.namespace, each.code) == ("create", "/pods", place.namespace, CREATED)
