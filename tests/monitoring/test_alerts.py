"""The alerts fire when they should and not otherwise, by promtool, and say what to do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.exported import unknown

REPOSITORY = Path(__file__).parents[2]
RULES = REPOSITORY / "charts" / "weft" / "files" / "alerts.yaml"
SERIES = Path(__file__).parent / "alerts.yaml"
PAGE = "https://github.com/weft-dev/weft/blob/main/"
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"] if "alert" in rule
]


def promtool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, check=False, timeout=60)


def anchors(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_alert_fires_on_what_it_is_about_and_on_nothing_that_looks_alike() -> None:
    done = promtool("test", "rules", SERIES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_outage_goes_on_to_fire_after_a_day() -> None:
    done = promtool("test", "rules", SERIES.with_name("long_outage.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_without_an_alert_the_series_are_missed(alert: dict[str, Any], tmp_path: Path) -> None:
    """Else the test above would hold for an alert that nobody tries."""
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert") != alert["alert"]]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    series = {**yaml.safe_load(SERIES.read_text()), "rule_files": ["rules.yaml"]}
    (tmp_path / "series.yaml").write_text(yaml.safe_dump(series))
    assert alert["alert"] in promtool("test", "rules", tmp_path / "series.yaml").stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))
def test_an_alert_is_about_what_the_operator_exports_and_says_where_to_read_on(alert: dict[str, Any]) -> None:
    asked = re.findall(r"printf \"(.*?)\" \$labels", alert["annotations"]["description"])
    assert [] == [each for expression in (alert["expr"], *asked) for each in unknown(expression)]
    assert {"summary", "description", "runbook_url"} == alert["annotations"].keys()
    assert alert["labels"]["severity"] in {"critical", "warning"}
    page, _, anchor = alert["annotations"]["runbook_url"].removeprefix(PAGE).partition("#")
    assert anchor in anchors(REPOSITORY / page)


def test_the_page_lists_the_alerts_with_their_severity() -> None:
    page = (REPOSITORY / "docs" / "operations.md").read_text()
    listed = re.findall(r"^\| `(Weft\w+)` \| (\w+) \|", page, flags=re.MULTILINE)
    assert sorted((alert["alert"], alert["labels"]["severity"]) for alert in ALERTS) == sorted(listed)


@pytest.mark.parametrize(
    ("expression", "strange"),
    [
        ('max by (pool) (weft_pool_condition{condition="Ready"}) == 0', []),
        ("weft_pool_conditions == 0", ["weft_pool_conditions"]),
        ('weft_pool_condition{kind="Ready"}', ["weft_pool_condition{kind}"]),
        ("sum by (node) (weft_pool_gpus)", ["node"]),
        ('sum by (why) (label_replace(weft_pool_scale_reason, "why", "$1", "reason", "(.*)"))', []),
    ],
)
def test_what_does_not_exist_is_found(expression: str, strange: list[str]) -> None:
    """Else the test above would hold for any expression."""
    assert strange == unknown(expression)
