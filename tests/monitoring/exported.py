"""What PromQL names, beside what the operator really exports."""

from __future__ import annotations

import re

from weft.control.metrics.pass_gauges import PassCollector
from weft.control.metrics.telemetry import Telemetry

# Of target or scrape, and of the rules and panels themselves.
OTHER_LABELS = frozenset({"le"})

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'")
_METRIC = re.compile(r"\b(weft_\w+)")
_MATCHERS = re.compile(r"\b(weft_\w+)\{([^}]*)\}")
_GROUPED = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right) ?\(([^)]*)\)")
_MADE = re.compile(r"label_replace\(.*?, *\"(\w+)\"")


def exported() -> dict[str, frozenset[str]]:
    """Labels by the names under which Prometheus stores the operator's metrics."""
    found: dict[str, frozenset[str]] = {}
    for collector, names in Telemetry().registry._collector_to_names.items():
        if isinstance(collector, PassCollector):
            found |= {each.name: frozenset(each._labelnames) for each in collector.describe()}
        else:
            labels = frozenset(collector._labelnames)  # type: ignore[attr-defined]
            found |= {name: labels for name in names if not name.endswith("_created")}
    return found


def unknown(expression: str) -> list[str]:
    """Metrics that the operator does not export, and labels that its metrics in this expression do not have."""
    known, made = exported(), set(_MADE.findall(expression))
    bare = _QUOTED.sub('""', expression)
    metrics = set(_METRIC.findall(bare))
    strange = sorted(metrics - known.keys())
    for metric, matchers in _MATCHERS.findall(bare):
        labels = set(re.findall(r"(\w+) *[=!]", matchers))
        strange += sorted(f"{metric}{{{label}}}" for label in labels - known.get(metric, frozenset()))
    together = frozenset().union(*(known.get(metric, frozenset()) for metric in metrics))
    grouped = {label.strip() for labels in _GROUPED.findall(bare) for label in labels.split(",")}
    return strange + sorted(grouped - together - OTHER_LABELS - made)
