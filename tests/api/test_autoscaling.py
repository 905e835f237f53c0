"""The examples of autoscalers: valid for the real API server, or by KEDA's reference where that knows no such kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.monitoring.exported import unknown
from tests.structural import faults
from weft.api import parse_pool

if TYPE_CHECKING:
    from tests.api.server import Server

Json = dict[str, Any]

EXAMPLES = Path(__file__).parents[2] / "examples" / "autoscaling"
KEDA = next(yaml.safe_load_all((Path(__file__).parents[1] / "keda_crds.yaml").read_text()))
SCALED_OBJECT = KEDA["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
DRY_RUN = [("fieldValidation", "Strict"), ("dryRun", "All")]


def example(name: str) -> tuple[Json, Json]:
    """A pool and what scales it."""
    pool, scaler = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    return pool, scaler


def made_by_keda(scaled: Json) -> Json:
    """The HPA that KEDA writes for a ScaledObject."""
    spec, (trigger,) = scaled["spec"], scaled["spec"]["triggers"]
    target = {"type": trigger["metricType"], "averageValue": trigger["metadata"]["threshold"]}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": f"keda-hpa-{scaled['metadata']['name']}"},
        "spec": {
            "scaleTargetRef": spec["scaleTargetRef"],
            "minReplicas": spec["minReplicaCount"],
            "maxReplicas": spec["maxReplicaCount"],
            "metrics": [{"type": "External", "external": {"metric": {"name": "s0-prometheus"}, "target": target}}],
            "behavior": spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
        },
    }


@pytest.mark.parametrize("name", ["hpa", "keda"])
def test_pool_and_autoscaler_are_taken_and_fit_each_other(server: Server, name: str) -> None:
    pool, scaler = example(name)
    kept = server.create(pool).expect_taken()
    hpa = scaler if name == "hpa" else made_by_keda(scaler)
    path = f"/apis/autoscaling/v2/namespaces/{server.namespace}/horizontalpodautoscalers"
    server.send("POST", path, hpa, query=DRY_RUN).expect_taken()

    record, spec = parse_pool(kept), hpa["spec"]
    assert record.spec is not None
    assert record.problem is None
    assert spec["scaleTargetRef"] == {"apiVersion": kept["apiVersion"], "kind": kept["kind"], "name": record.key.name}
    bounds = record.spec.scaling
    assert bounds.min_replicas <= spec["minReplicas"] <= spec["maxReplicas"] <= bounds.max_replicas
    scale = server.send("GET", server.path("InferencePool", record.key.name, "scale")).expect_taken()
    assert scale["spec"]["replicas"] == pool["spec"]["scaling"]["replicas"]


def test_the_scaled_object_is_valid_and_follows_what_weft_recommends() -> None:
    """Divided by one, an average over replicas is the recommended count; without an answer it must not read zero."""
    pool, scaled = example("keda")
    assert [] == faults(SCALED_OBJECT, scaled)
    (trigger,) = scaled["spec"]["triggers"]
    asked = trigger["metadata"]
    assert [] == unknown(asked["query"])
    assert f'weft_pool_recommended_replicas{{namespace="default",pool="{pool["metadata"]["name"]}"}}' in asked["query"]
    assert (trigger["metricType"], asked["threshold"], asked["ignoreNullValues"]) == ("AverageValue", "1", "false")


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("minReplicas", 1, "/spec/minReplicas: is unknown"),
        ("maxReplicaCount", "8", "/spec/maxReplicaCount: is no integer"),
        ("triggers", [{"type": "prometheus"}], "/spec/triggers/0/metadata: is missing"),
    ],
)
def test_mistakes_in_a_scaled_object_are_found(field: str, value: object, fault: str) -> None:
    """Else the test above would hold for any object."""
    _, scaled = example("keda")
    scaled["spec"][field] = value
    assert [fault] == faults(SCALED_OBJECT, scaled)


def test_no_autoscaler_takes_a_pool_to_zero(server: Server) -> None:
    pool, _ = example("hpa")
    server.create(pool).expect_taken()
    server.merge("InferencePool", "chat", {"spec": {"replicas": 0}}, "scale").expect_refused("spec.scaling.replicas")


def test_git_may_leave_out_a_count_that_an_autoscaler_has_written(server: Server) -> None:
    """Who applies server-side, as Flux does, gives the field away and resets it no more; at first it must be there."""
    pool, _ = example("hpa")
    without = {**pool, "spec": {**pool["spec"], "scaling": {**pool["spec"]["scaling"]}}}
    del without["spec"]["scaling"]["replicas"]
    server.apply(without, "flux").expect_refused("replicas is required while scaling.mode is External")

    server.apply(pool, "flux").expect_taken()
    server.merge("InferencePool", "chat", {"spec": {"replicas": 5}}, "scale").expect_taken()
    kept = server.apply(without, "flux").expect_taken()
    assert kept["spec"]["scaling"]["replicas"] == 5
