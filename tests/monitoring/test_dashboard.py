"""Every panel of the dashboard draws something of what an operator exports, with a unit on its axis."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.monitoring.exported import unknown
from tests.monitoring.operating import scraped

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

FILE = Path(__file__).parents[2] / "charts" / "weft" / "files" / "dashboard.json"
BOARD: Json = json.loads(FILE.read_text())
PANELS: list[Json] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [
    *((panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]),
    *((each["name"], each["expr"]) for each in BOARD["annotations"]["list"]),
]
CHOSEN = {"$namespace": ".*", "$pool": ".*", "$__rate_interval": "5s"}
PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scraped(tmp_path_factory.mktemp("dashboard")) as url:
        yield url


def answered(url: str, query: str) -> list[Json]:
    """Series of an instant query; a query that Prometheus does not understand is an error."""
    asked = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - our own http address
        found: list[Json] = json.load(answer)["data"]["result"]
    return found


def eventually(url: str, query: str) -> list[Json]:
    """The same, once there is something: rates need two scrapes."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (found := answered(url, query)) and time.monotonic() < end:
        time.sleep(0.1)
    return found


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_each_query_finds_series(prometheus: str, title: str, expression: str) -> None:
    assert [] == unknown(expression)
    for variable, value in CHOSEN.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression.replace('"$1"', ""), title
    assert eventually(prometheus, expression), title


def test_pools_keep_their_namespace_and_the_operator_has_its_own(prometheus: str) -> None:
    """Without `honor_labels` a pool would be in `exported_namespace`, and nothing would be drawn."""
    assert {"team"} == {each["metric"]["namespace"] for each in eventually(prometheus, "weft_pool_desired_replicas")}
    (age,) = eventually(prometheus, "weft_snapshot_age_seconds")
    assert age["metric"]["namespace"] == "weft-system"


def test_what_is_chosen_above_is_exported() -> None:
    chosen = [each for each in BOARD["templating"]["list"] if each["type"] == "query"]
    assert ["namespace", "pool"] == [each["name"] for each in chosen]
    assert [] == [each for one in chosen for each in unknown(one["query"].removeprefix("label_values(").split(",")[0])]


def test_labels_in_legends_are_those_of_the_series(prometheus: str) -> None:
    """A label that no series has is drawn as nothing."""
    for panel in PANELS:
        for target in panel["targets"]:
            named = {word.split("}}")[0] for word in target.get("legendFormat", "").split("{{")[1:]}
            query = target["expr"]
            for variable, value in CHOSEN.items():
                query = query.replace(variable, value)
            missing = [each["metric"] for each in eventually(prometheus, query) if not named <= each["metric"].keys()]
            assert [] == missing, panel["title"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_axes_have_units_and_panels_do_not_overlap(panel: Json) -> None:
    if panel["type"] == "timeseries":
        assert panel["fieldConfig"]["defaults"]["unit"] in {"s", "reqps", "wps", "short", "percentunit"}
    taken = [spot for other in BOARD["panels"] if other["id"] != panel["id"] for spot in _spots(other)]
    assert not set(_spots(panel)) & set(taken)
    assert len({each["id"] for each in BOARD["panels"]}) == len(BOARD["panels"])


def _spots(panel: Json) -> list[tuple[int, int]]:
    at = panel["gridPos"]
    assert at["x"] + at["w"] <= 24
    return [(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
