"""One measured figure against its floor, and all figures of one run as a document."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.machine import Machine

MEGA = 1e6


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured; `value` has to stay under `limit`. None: nothing could be measured, and `problem` says why.

    A value with a problem counts as missed too. `details` say under which conditions it was taken.
    """

    name: str
    value: float | None
    unit: str
    limit: float
    details: dict[str, float | str] = field(default_factory=dict)
    problem: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the floor holds."""
        return self.problem is None and self.value is not None and self.value < self.limit


def document(machine: Machine, results: Iterable[Result]) -> dict[str, Any]:
    """All figures for programs."""
    told = [{**asdict(result), "passed": result.passed} for result in results]
    return {"machine": asdict(machine), "passed": all(one["passed"] for one in told), "results": told}


def table(machine: Machine, results: Sequence[Result]) -> Table:
    """The same for people."""
    shown = Table(box=None, padding=(0, 2, 0, 0), title=str(machine), title_justify="left", title_style="dim")
    for heading in ("figure", "value", "under", "", ""):
        shown.add_column(heading, justify="right" if heading in {"value", "under"} else "left")
    for result in results:
        verdict = "[green]passed[/]" if result.passed else "[red]missed[/]"
        value, limit = in_words(result.value, result.unit), in_words(result.limit, result.unit)
        shown.add_row(result.name, value, limit, verdict, result.problem or "")
    return shown


def in_words(value: float | None, unit: str) -> str:
    """A figure as people read it: memory in megabytes."""
    if value is None:
        return "-"
    return f"{value / MEGA:.1f} MB" if unit == "bytes" else f"{value:.1f} {unit}"
