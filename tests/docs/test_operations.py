"""docs/operations.md: what it has people paste fits the API, the chart and the reasons as they are."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.charts.conftest import find_tools
from weft.domain.labels import API_VERSION
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
SCHEMAS: dict[str, Json] = {
    body["spec"]["names"]["kind"]: body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for path in sorted((REPOSITORY / "crds").glob("weft.dev_*.yaml"))
    for body in [yaml.safe_load(path.read_text(encoding="utf-8"))]
}
FIELDS_OF_STATUS = frozenset.intersection(
    *(frozenset(schema["properties"]["status"]["properties"]) for schema in SCHEMAS.values())
)
CONDITIONS = {"Ready", "Stalled", "Reconciling"}
OF_ARGO_CD = {"Healthy", "Progressing", "Degraded", "Suspended", "True"}


def blocks(language: str = "yaml") -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    return [text for named, text in fenced if named == language]


def defaults_in_lists(schema: Json, path: str, *, inside: bool = False) -> Iterator[str]:
    """Paths of fields that the API server fills in within items of lists."""
    if inside and "default" in schema:
        yield path
    for name, member in schema.get("properties", {}).items():
        yield from defaults_in_lists(member, f"{path}.{name}".lstrip("."), inside=inside)
    if "items" in schema:
        yield from defaults_in_lists(schema["items"], f"{path}[]", inside=True)


@pytest.mark.parametrize("kind", SCHEMAS)
def test_each_default_inside_a_list_is_told(kind: str) -> None:
    """Argo CD compares lists as wholes: a resource with such a list is never in sync with Git."""
    (row,) = [line for line in PAGE.splitlines() if line.startswith("| a default inside a list")]
    named = re.findall(r"`([\w.\[\]]+)`", row.split("|")[1])
    parents = [each.rpartition(".")[0] for each in named]
    told = {f"{parents[at - 1]}{each}" if each.startswith(".") else each for at, each in enumerate(named)}
    assert told == set(defaults_in_lists(SCHEMAS[kind]["properties"]["spec"], ""))


def test_the_health_check_of_argo_cd_is_for_both_kinds_and_uses_words_that_exist() -> None:
    (config,) = [yaml.safe_load(block)["data"] for block in blocks() if "resource.customizations" in block]
    assert {f"resource.customizations.health.weft.dev_{kind}" for kind in SCHEMAS} == config.keys()
    (script,) = set(config.values())
    words = set(re.findall(r'"(\w+)"', script))
    assert words <= CONDITIONS | OF_ARGO_CD | {reason.value for reason in Reason}
    fields = set(re.findall(r"status\.(\w+)", script)) - {"status"}
    assert fields <= FIELDS_OF_STATUS


def test_the_health_check_of_flux_asks_for_what_the_status_has() -> None:
    (kustomization,) = [yaml.safe_load(block)["spec"] for block in blocks() if "healthCheckExprs" in block]
    (check,) = kustomization["healthCheckExprs"]
    asked = " ".join(check[word] for word in ("inProgress", "failed", "current"))
    assert {"Ready", "Stalled"} == set(re.findall(r"e\.type == '(\w+)'", asked))
    assert set(re.findall(r"status\.(\w+)", asked)) - {"status"} <= FIELDS_OF_STATUS
    assert check["apiVersion"] == API_VERSION
    assert check["kind"] in SCHEMAS


def test_what_gitops_shall_not_compare_is_the_field_that_scale_writes() -> None:
    specs = [yaml.safe_load(block)["spec"] for block in blocks() if block.startswith("spec:")]
    (application,) = [spec for spec in specs if "ignoreDifferences" in spec]
    (kustomization,) = [spec for spec in specs if "ignore" in spec]
    (ignored,), (rule,) = application["ignoreDifferences"], kustomization["ignore"]
    assert rule == {
        "paths": ignored["jsonPointers"],
        "target": {"group": ignored["group"], "kind": ignored["kind"]},
    }
    definition = yaml.safe_load((REPOSITORY / "crds" / "weft.dev_inferencepools.yaml").read_text(encoding="utf-8"))
    scale = definition["spec"]["versions"][0]["subresources"]["scale"]
    assert ignored == {
        "group": definition["spec"]["group"],
        "kind": definition["spec"]["names"]["kind"],
        "jsonPointers": [scale["specReplicasPath"].replace(".", "/")],
    }


@pytest.mark.timeout(300)
def test_the_values_of_the_chart_are_those_that_it_has() -> None:
    """The command as it stands, rendered in place of an upgrade."""
    (command,) = [block for block in blocks("") if block.startswith("helm upgrade")]
    assert " --reuse-values" not in command  # it would leave out defaults of values that are new in the chart
    words = shlex.split(command.replace("\\\n", " "))
    settings = [after for word, after in pairwise(words) if word == "--set"]
    objects = find_tools().render_chart(*settings)
    kinds = ("ServiceMonitor", "PodMonitor", "PrometheusRule")
    selected = [body["metadata"]["labels"]["release"] for (kind, _, _), body in objects.items() if kind in kinds]
    assert ["kube-prometheus-stack"] * len(kinds) == selected
    (container,) = objects["Deployment", "weft-system", "weft-controller"]["spec"]["template"]["spec"]["containers"]
    assert "--prometheus-url=http://prometheus-operated.monitoring.svc:9090" in container["args"]
