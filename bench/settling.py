"""`python -m bench settling [--histories N]`: how often a second call of `decide` with the same input changes anything.

Crowded random histories of four kinds, the same each time, in which every pass is decided twice: the second time with
what the first one decided in the statuses, and with the same pods, nodes and clock. A history counts once, whatever
happens in it how often. `which` names those histories, so that one of them can be looked at.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from rich.console import Console

from bench.result import Result
from bench.settling_bench.histories import KINDS, moments
from bench.settling_bench.looks import OTHERS, PARTS, looked_at_twice
from weft.catalog import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.settling_bench.crowd import Crowd
    from bench.settling_bench.histories import Kind
    from weft.catalog import Catalog

    Look = Callable[[Crowd, Catalog], frozenset[str]]

HISTORIES = 100
TOLD = 4  # times, of each kind
LIMIT_PERCENT = 5.0


@dataclass(slots=True)
class Tally:
    """What was found in the histories of one kind so far."""

    histories: int = 0
    passes: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    which: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        parts = ", ".join(f"{name} in {self.changed[name]}" for name in (*PARTS, OTHERS) if self.changed[name])
        told = f": {parts}" if parts else ""
        return f"{len(self.which)} of {self.histories} histories changed{told}; {self.seconds:.0f} s"


def measure(histories: int = HISTORIES) -> tuple[Result, ...]:
    """So many histories of each kind; the percentage of those in which a second call changed anything."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    return tuple(result(kind, tallied(kind, histories, looked_at_twice, console)) for kind in KINDS)


def tallied(kind: Kind, histories: int, look: Look, console: Console) -> Tally:
    """Every moment of so many histories, looked at."""
    tally, catalog, began = Tally(), load(), perf_counter()
    for number in range(histories):
        found = [look(crowd, catalog) for crowd in moments(kind, number)]
        changed = frozenset[str]().union(*found)
        tally.changed.update(changed)
        tally.which += [number] * bool(changed)
        tally.histories, tally.passes = number + 1, tally.passes + len(found)
        tally.seconds = perf_counter() - began
        if tally.histories % max(1, histories // TOLD) == 0:
            console.print(f"  {kind.name}: {tally}", markup=False)
    return tally


def result(kind: Kind, tally: Tally) -> Result:
    """The percentage, beside everything that was counted."""
    parts: dict[str, float | str] = {name: tally.changed[name] for name in (*PARTS, OTHERS)}
    counted = {"histories": tally.histories, "passes": tally.passes, "changed": len(tally.which), **parts}
    details = {**counted, "which": " ".join(map(str, tally.which)), "seconds": round(tally.seconds, 1)}
    percent = 100.0 * len(tally.which) / tally.histories
    return Result(f"settling-{kind.name}", round(percent, 2), "%", LIMIT_PERCENT, details)
