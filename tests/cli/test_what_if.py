"""`--what-if`: fields by their path, before the schema sees them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.terminal import pool
from weft.cli.ends.failure import CommandFailure
from weft.cli.files.what_if import changed


def spec(*wishes: str) -> Any:  # noqa: ANN401 - YAML
    body = pool(slo={"ttft": {"p95": "500ms"}}, placement={"accelerators": ["H100", "H200"]})
    return changed(body, wishes)["spec"]


def test_a_field_is_changed_and_its_neighbours_stay() -> None:
    found = spec("spec.slo.ttft.p95=1s", "spec.workload.requestsPerSecond=9")
    assert {"p95": "1s"} == found["slo"]["ttft"]
    assert 9 == found["workload"]["requestsPerSecond"]
    assert {"mean": 1000} == found["workload"]["inputTokens"]


def test_objects_on_the_way_are_made() -> None:
    assert {"p50": "20ms"} == spec("spec.slo.tpot.p50=20ms")["slo"]["tpot"]
    assert 30 == spec("spec.scaling.maxReplicas=30")["scaling"]["maxReplicas"]


def test_a_value_is_yaml_and_null_takes_a_field_out() -> None:
    assert {"p99": "2s"} == spec("spec.slo.ttft={p99: 2s}")["slo"]["ttft"]
    assert "slo" not in spec("spec.slo=null")
    assert ["H100", "GB200"] == spec("spec.placement.accelerators.1=GB200")["placement"]["accelerators"]
    assert "a=b" == spec("spec.model.id=a=b")["model"]["id"]


def test_the_resource_itself_stays_as_it_was() -> None:
    body = pool()
    changed(body, ("spec.model.id=other",))
    assert pool() == body


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("spec.slo.ttft.p95", "must be KEY=VALUE"),
        ("slo.ttft.p95=1s", "below spec"),
        ("metadata.name=x", "below spec"),
        ("spec=1", "below spec"),
        ("spec..x=1", "below spec"),
        ("=1", "below spec"),
        ("spec.model.id.x=1", "spec.model.id has no fields"),
        ("spec.placement.accelerators.7=H100", "no entry 7"),
        ("spec.placement.accelerators.x.y=1", "has no fields"),
        ("spec.slo.ttft.p95=", "has no value: give one, or null to take the field out"),
        ("spec.slo={", "the value is no YAML"),
        ("spec.slo={a: 1, a: 2}", "the value is no YAML"),
        ("spec.slo=!!python/name:os.system", "the value is no YAML"),
        ("spec.scaling={minReplicas:3}", "write a space after the colon of 'minReplicas:3'"),
        ("spec.slo=" + "[" * 5000, "at most 4096"),
    ],
)
def test_what_names_no_field_is_refused(wish: str, words: str) -> None:
    with pytest.raises(CommandFailure) as refused:
        spec(wish)
    assert words in refused.value.message
