"""What happened during a demo run, sampled once a second: the content of the report."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("report.html")


@dataclass(frozen=True, slots=True)
class ReportedPool:
    """One line of the report. `ttft` and `tpot` are (percentile, target in seconds), or None without a target."""

    name: str
    subtitle: str
    ttft: tuple[int, float] | None
    tpot: tuple[int, float] | None


@dataclass(slots=True)
class Timeline:
    """Samples, fabric states and reasons of one run; times are seconds since its start."""

    lead: str = ""
    pools: list[ReportedPool] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    fabric: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    tiles: list[tuple[str, str]] = field(default_factory=list)
    became_ready: set[str] = field(default_factory=set)  # names of pools; one that failed later stays

    @property
    def never_ready(self) -> list[str]:
        """Names of the pools that no look found Ready."""
        return [pool.name for pool in self.pools if pool.name not in self.became_ready]

    def add_fabric(self, moment: float, domains: list[dict[str, Any]]) -> None:
        """Keep a fabric state only when something moved."""
        if not self.fabric or self.fabric[-1]["domains"] != domains:
            self.fabric.append({"t": round(moment, 1), "domains": domains})

    def attainment(self, pool: ReportedPool) -> float | None:
        """Fraction of sampled seconds with traffic in which every measured percentile met its target."""
        judged = [self._met(pool, sample["pools"].get(pool.name, {})) for sample in self.samples]
        known = [met for met in judged if met is not None]
        return sum(known) / len(known) if known else None

    @staticmethod
    def _met(pool: ReportedPool, sample: dict[str, Any]) -> bool | None:
        pairs = [(sample.get("ttft"), pool.ttft), (sample.get("tpot"), pool.tpot)]
        measured = [(value, target[1]) for value, target in pairs if value is not None and target is not None]
        return all(value <= target for value, target in measured) if measured else None

    def write(self, path: Path) -> None:
        """One self-contained HTML file."""
        data = {
            "lead": self.lead,
            "pools": [
                {"name": pool.name, "subtitle": pool.subtitle, "ttft": pool.ttft, "tpot": pool.tpot}
                for pool in self.pools
            ],
            "samples": self.samples,
            "fabric": self.fabric,
            "events": self.events,
            "marks": self.marks,
            "tiles": self.tiles,
        }
        text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
        path.write_text(TEMPLATE.read_text().replace("__DATA__", text))
