"""What the chart adds for Prometheus and Grafana, if asked: valid, and the same as the plain files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.charts.conftest import CHART
from tests.structural import faults

if TYPE_CHECKING:
    from tests.charts.conftest import Objects, Tools

DEFINITIONS = Path(__file__).parents[1] / "monitoring_crds.yaml"
SCHEMAS: dict[str, Any] = {
    body["spec"]["names"]["kind"]: body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for body in yaml.safe_load_all(DEFINITIONS.read_text())
}
ALL = ("serviceMonitor", "podMonitor", "prometheusRule", "dashboard")
KINDS = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
SERVICE = ("Service", "weft-system", "weft-controller")


@pytest.fixture(scope="module")
def chart(tools: Tools) -> Objects:
    return tools.render_chart(*(f"{name}.enabled=true" for name in ALL), *(f"{name}.labels.team=x" for name in ALL))


@pytest.mark.timeout(300)
def test_they_are_left_out_unless_asked_for(tools: Tools) -> None:
    """Without the Prometheus Operator's CRDs an install would fail."""
    assert not {kind for kind, _, _ in tools.render_chart()} & {*KINDS, "ConfigMap"}


@pytest.mark.timeout(300)
def test_they_are_valid_by_the_published_reference_and_carry_the_labels_that_select_them(chart: Objects) -> None:
    found = {kind: body for (kind, _, _), body in chart.items() if kind in {*KINDS, "ConfigMap"}}
    assert {*KINDS, "ConfigMap"} == found.keys()
    assert [] == [fault for kind in KINDS for fault in faults(SCHEMAS[kind], found[kind])]
    assert {"x"} == {body["metadata"]["labels"]["team"] for body in found.values()}
    assert found["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"


@pytest.mark.timeout(300)
def test_alerts_and_dashboard_are_those_of_the_plain_files(chart: Objects) -> None:
    plain = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    assert plain == chart["PrometheusRule", "weft-system", "weft"]["spec"]
    drawn = chart["ConfigMap", "weft-system", "weft-dashboard"]["data"]["weft.json"]
    assert json.loads((CHART / "files" / "dashboard.json").read_text()) == json.loads(drawn)


@pytest.mark.timeout(300)
def test_the_operator_is_scraped_through_its_service_and_pools_keep_their_namespace(chart: Objects) -> None:
    """Without `honorLabels` the namespace of a pool would be called `exported_namespace`."""
    monitor, service = chart["ServiceMonitor", "weft-system", "weft-controller"], chart[SERVICE]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert endpoint["honorLabels"] is True
    (entrance,) = chart["NetworkPolicy", "weft-system", "weft-controller"]["spec"]["ingress"]
    assert {"ports": [{"protocol": "TCP", "port": service["spec"]["ports"][0]["port"]}]} == entrance


@pytest.mark.timeout(300)
def test_engines_are_looked_for_where_weft_serves(tools: Tools, chart: Objects) -> None:
    here = tools.render_chart("podMonitor.enabled=true", "namespaces={a,b}")
    engines = ("PodMonitor", "weft-system", "weft-engines")
    assert here[engines]["spec"]["namespaceSelector"] == {"matchNames": ["a", "b"]}
    assert chart[engines]["spec"]["namespaceSelector"] == {"any": True}
