"""One field, one owner: in Auto mode nobody else scales a pool, in External mode a real HPA does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from e2e.cluster.presets import h200_boards, nvl72_rack
from e2e.cluster.waiting import eventually
from e2e.operator_process import kubectl
from tests.installed import PLACE_LABEL
from tests.manifests import install
from tests.scenarios.custom_metrics import METRIC, CustomMetrics
from tests.scenarios.tenants import engines

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(150)

EXAMPLE = Path(__file__).parents[2] / "examples" / "autoscaling" / "hpa.yaml"
PER_REPLICA = 10  # requests in flight that the HPA wants on one


def test_kubectl_scale_of_an_auto_pool_is_refused_in_one_sentence(
    weft: InstalledWeft, operator: OperatorProcess
) -> None:
    """The sentence says why, and what to do instead."""
    place = weft.place("by-hand", h200_boards(1))
    place.create_pool("chat")
    place.wait_ready("chat")
    with pytest.raises(RuntimeError) as refusal:
        scale(place, "chat", 3)
    assert (
        "replicas must be absent while scaling.mode is Auto, because Weft decides the count: "
        "set scaling.mode to External to scale this pool by hand, HPA or KEDA"
    ) in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1
    assert len(engines(place, "chat")) == 1

    place.change_pool("chat", {"spec": {"scaling": {"mode": "External", "replicas": 1}}})
    scale(place, "chat", 2)
    place.wait_ready("chat", 2)


def test_an_hpa_drives_an_external_pool(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """Up and down, on a metric of first pods only: a replica of two pods counts once."""
    place = weft.place("by-hpa", nvl72_rack("rack", trays=6))
    place.create_pool(
        "chat",
        model={"id": "meta-llama/Llama-3.3-70B-Instruct"},
        shape={"tensorParallel": 8},
        placement={"accelerators": ["GB200"], "nodeSelector": {PLACE_LABEL: "by-hpa"}},
        scaling={"mode": "External", "replicas": 1, "maxReplicas": 3},
    )
    place.wait_ready("chat")
    with CustomMetrics(place, in_flight=3 * PER_REPLICA) as metrics, weft.cluster.api_client() as api:
        install(api, [autoscaler()], place.namespace)
        eventually(lambda: place.is_ready("chat", 3), "the HPA made three of one", timeout_seconds=60)
        assert len(engines(place, "chat")) == 6
        leaders = {name for name in names(place) if name.endswith("-0")}
        eventually(lambda: metrics.asked >= leaders, "the HPA looks at all three")
        assert metrics.asked == leaders
        metrics.in_flight = PER_REPLICA
        eventually(lambda: place.is_ready("chat", 1), "the HPA made one of three", timeout_seconds=60)
    kubectl(weft.cluster, "-n", place.namespace, "delete", "hpa", "chat")
    assert place.pool("chat")["spec"]["scaling"]["replicas"] == 1


def scale(place: Place, name: str, replicas: int) -> None:
    words = ("scale", "inferencepools.weft.dev", name, f"--replicas={replicas}")
    kubectl(place.weft.cluster, "-n", place.namespace, *words)


def names(place: Place) -> set[str]:
    return {pod["metadata"]["name"] for pod in engines(place, "chat")}


def autoscaler() -> dict[str, Any]:
    """The HPA of the example, with bounds beyond the pool's, in a hurry, and for small numbers."""
    _, body = yaml.safe_load_all(EXAMPLE.read_text())
    (metric,) = body["spec"]["metrics"]
    assert metric["pods"]["metric"]["name"] == METRIC
    metric["pods"]["target"]["averageValue"] = str(PER_REPLICA)
    del body["spec"]["behavior"]
    body["spec"]["maxReplicas"] = 5
    return dict(body)
