"""What a newcomer feels: how soon the demo's first pool is Ready, and what the operator needs for all of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.commands import run
from bench.result import Result

REPOSITORY = Path(__file__).parents[1]
FIGURES = REPOSITORY / "build" / "demo.json"
FIRST_READY_LIMIT_SECONDS = 60.0
RESIDENT_LIMIT_BYTES = 200e6


def measure() -> tuple[Result, ...]:
    """Run the whole demo; binaries that are missing are built first, and building does not count."""
    FIGURES.unlink(missing_ok=True)  # those of an earlier run
    ended = run([sys.executable, "-m", "e2e.demo", "--figures", str(FIGURES)], REPOSITORY)
    return results(read(FIGURES), ended.problem)


def read(path: Path) -> dict[str, Any]:
    """What the demo has written; nothing when it did not come so far."""
    figures: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return figures


def results(figures: dict[str, Any], problem: str | None) -> tuple[Result, ...]:
    """The demo's own figures against their floors."""
    first, resident = figures.get("first_ready_seconds"), figures.get("operator_peak_resident_bytes")
    details = {key: figures[key] for key in ("first_ready_after_apply_seconds", "seconds") if figures.get(key)}
    not_ready = problem or ("no pool became Ready" if first is None else None)
    not_there = problem or ("the operator had ended before the demo did" if resident is None else None)
    return (
        Result("demo-first-ready", first, "s", FIRST_READY_LIMIT_SECONDS, details, not_ready),
        Result("demo-operator-peak-resident", resident, "bytes", RESIDENT_LIMIT_BYTES, problem=not_there),
    )
