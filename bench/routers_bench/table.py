"""Figures of several seeds as a Markdown table."""

from __future__ import annotations

import statistics
from dataclasses import fields
from typing import TYPE_CHECKING

from bench.routers_bench.running import Figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.routers_bench.running import Case

_COLUMNS = (
    *("router", "traffic", "setting", "most requests more than another", "on average", "TTFT mean, s", "p95, s"),
    *("hits", "to the last", "requests", "failed", "late, s", "seeds"),
)


def head() -> str:
    """The first two lines."""
    return f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"


def line(case: Case, seeds: Sequence[int], found: Sequence[Figures]) -> str:
    """One line: medians over seeds, with the lowest and the highest where that differs from seed to seed."""
    told = Figures(*(statistics.median(getattr(each, one.name) for each in found) for one in fields(Figures)))
    cells = (
        *(case.router.name, case.traffic.name, case.setting.says(case.router)),
        _spread([each.most_more for each in found], 0),
        f"{told.mean_more:.1f}",
        _spread([each.ttft for each in found], 2),
        _spread([each.ttft_p95 for each in found], 2),
        *(f"{100 * told.hits:.0f} %", f"{100 * told.to_last:.0f} %", f"{told.requests:.0f}"),
        f"{sum(each.failed for each in found):.0f}",
        f"{max(each.late for each in found):.2f}",
        ", ".join(map(str, seeds)),
    )
    return f"| {' | '.join(cells)} |"


def one_run(case: Case, found: Figures) -> str:
    """How one run ended."""
    return (
        f"{case.router.name}, {case.traffic.name}, {case.setting.says(case.router)}, seed {case.seed}: at most "
        f"{found.most_more:.0f} requests more than another, TTFT {found.ttft:.2f} s, p95 {found.ttft_p95:.2f} s, "
        f"hits {100 * found.hits:.0f} %, late by {found.late:.2f} s"
    )


def _spread(values: Sequence[float], digits: int) -> str:
    lowest, middle, highest = (f"{each:.{digits}f}" for each in (min(values), statistics.median(values), max(values)))
    return middle if lowest == highest else f"{middle} ({lowest} to {highest})"
