"""docs/metrics.md names what the operator exports, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from tests.monitoring.exported import exported

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
PARTS = ("_bucket", "_sum", "_count")  # of a histogram, which has one row


def test_the_page_has_every_metric_with_its_labels() -> None:
    described = {
        name: frozenset(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `(weft_\w+)` \| (.*?) ?\|", PAGE, flags=re.MULTILINE)
    }
    stored, per_pool = exported(), {"namespace", "pool"}
    rows = {name for name in stored if not name.endswith(PARTS) and f"{name}_total" not in stored}
    assert {name: stored[name] - per_pool for name in rows} == described


def test_labels_of_pools_are_told_once() -> None:
    assert "carry `namespace` and `pool`" in PAGE
