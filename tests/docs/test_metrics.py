"""docs/metrics.md names what the operator exports, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from weft.control.telemetry import Telemetry

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_the_page_has_every_metric_with_its_labels() -> None:
    described = {
        name: frozenset(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `(weft_\w+)` \| (.*?) ?\|", PAGE, flags=re.MULTILINE)
    }
    collectors = Telemetry().registry._collector_to_names
    exported = {
        next(name for name in names if name in described or name == names[-1]): frozenset(collector._labelnames)  # type: ignore[attr-defined]
        for collector, names in collectors.items()
    }
    per_pool = {"namespace", "pool"}
    assert {name: labels - per_pool for name, labels in exported.items()} == described


def test_labels_of_pools_are_told_once() -> None:
    assert "carry `namespace` and `pool`" in PAGE
