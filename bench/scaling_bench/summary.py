"""The first table of docs/scaling.md: Weft beside the cheapest rule that reacts, for each trace and level."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap
from typing import TYPE_CHECKING, Any

from bench.scaling_bench.frontiers import LEVELS, Cell, hours_at
from bench.scaling_bench.scenarios import FIXED_RATIO, ORACLE, OWN_RULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = dict[str, Any]
STATIC = "static"  # a fixed fleet, whose best size is known in hindsight alone
STARTUP_SECONDS = 120.0  # the start-up of which every trace has most rules
_NOT_REACTING = frozenset({OWN_RULE, ORACLE, STATIC, FIXED_RATIO})


@dataclass(frozen=True, slots=True)
class Rival:
    """The cheapest rule of others that reacts to traffic, at one level of requests within the SLO."""

    name: str
    gpu_hours: float


def summary(cells: Sequence[Cell]) -> str:
    """A table of every trace with starts of `STARTUP_SECONDS` that another rule was run on; empty where none was."""
    told = _compared(cells)
    if not told:
        return ""
    lines = (
        "| trace | within the SLO | Weft | cheapest rule that reacts | Weft against it | fixed fleet | oracle |",
        "|---|---|---|---|---|---|---|",
        *(line for cell in told for line in _lines(cell)),
    )
    return "\n".join(lines) + "\n"


def verdict(cells: Sequence[Cell]) -> str:
    """The table in two sentences: at how many levels Weft takes less than whom. Levels that Weft misses count too."""
    levels = [(cell, level) for cell in _compared(cells) for level in LEVELS]
    if not levels:
        return ""
    own = [hours_of(cell, OWN_RULE, level) for cell, level in levels]
    rivals = [rival.gpu_hours if rival else None for rival in starmap(cheapest, levels)]
    fixed = [hours_of(cell, STATIC, level) for cell, level in levels]
    alone = sum(ours is not None and theirs is None for ours, theirs in zip(own, rivals, strict=True))
    less = _below(own, rivals) - alone
    return (
        f"Weft takes less than every rule that reacts at {less} of {_reached(rivals)} levels that any of"
        f" these reaches, and is alone in reaching {alone} more. A fixed fleet of the best size takes less than Weft at"
        f" {_below(fixed, own)} of {_reached(fixed)} levels, but that size is known after the fact only."
    )


def hours_of(cell: Cell, policy: str, level: float) -> float | None:
    """GPU-hours of a rule for a level; None where it was not run or does not get there."""
    return hours_at(dict(cell.by_policy).get(policy, ()), level)


def _reached(hours: Sequence[float | None]) -> int:
    return sum(each is not None for each in hours)


def _below(hours: Sequence[float | None], others: Sequence[float | None]) -> int:
    """How often the first get there for less than the second, or alone."""
    pairs = zip(hours, others, strict=True)
    return sum(one is not None and (other is None or one < other) for one, other in pairs)


def _compared(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.startup == STARTUP_SECONDS and _reacting(cell)]


def cheapest(cell: Cell, level: float) -> Rival | None:
    """None where no rule of others reaches the level by reacting; of equals, to a tenth of a GPU-hour, the first."""
    hours = ((name, hours_at(rows, level)) for name, rows in _reacting(cell))
    found = [Rival(name, each) for name, each in hours if each is not None]
    return min(found, key=lambda rival: round(rival.gpu_hours, 1), default=None)


def _reacting(cell: Cell) -> list[tuple[str, list[Row]]]:
    return [(name, rows) for name, rows in cell.by_policy if name not in _NOT_REACTING]


def _lines(cell: Cell) -> Iterator[str]:
    """One a level that anybody reaches; the trace is named in the first."""
    title = cell.scenario + (f", first {cell.minutes:g} min" if cell.minutes else "")
    for level in LEVELS:
        own, fixed, oracle = (hours_of(cell, name, level) for name in (OWN_RULE, STATIC, ORACLE))
        rival = cheapest(cell, level)
        if all(each is None for each in (own, fixed, oracle, rival)):
            continue
        theirs = f"{rival.gpu_hours:.0f} (`{rival.name}`)" if rival else "none gets there"
        figures = " | ".join((told_hours(own), theirs, _against(own, rival), told_hours(fixed), told_hours(oracle)))
        yield f"| {title} | {level:.1%} | {figures} |"
        title = ""


def _against(own: float | None, rival: Rival | None) -> str:
    """What Weft takes more or less than the rival, to the whole percent."""
    if own is None or rival is None:
        return "-"
    more = round(100.0 * (own / rival.gpu_hours - 1.0))
    return f"{more:+d}%" if more else "as much"


def told_hours(hours: float | None) -> str:
    """To the whole GPU-hour; a dash where there is none."""
    return "-" if hours is None else f"{hours:.0f}"
