"""Tables of docs/gpu.md: closed loops and arrivals at random, beside what is expected."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench.on_gpu.compared import off_after

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.on_gpu.compared import Beside, Both, Loop, Open

_KNOWN_USERS = 16
_LOOPS = """\
| tokens in / out | users | TTFT | expected | off | TPOT | expected | off |{names}
|---|---|---|---|---|---|---|---|{lines}
{rows}"""
_ERRORS = """\
| median error | TTFT | TPOT |
|---|---|---|
| as predicted | {ttft:.0%} | {tpot:.0%} |
| once one load is known ({known}) | {ttft_after:.0%} | {tpot_after:.0%} |"""
_INSIDE = """\
TTFT is inside the interval for {ttft} of {count} loads, TPOT for {tpot} of {count}. At the median TPOT
the engine was {faster} than expected."""
_SUMMARY = """\
| deployment | engine | GPU | loads | TTFT: median error | inside | TPOT: median error | inside |
|---|---|---|---|---|---|---|---|
{rows}"""
_ARRIVALS = """\
| | requests/s | p50 measured | model | twin | p95 measured | model |
|---|---|---|---|---|---|---|
{rows}"""


def loops_table(found: Sequence[Loop]) -> str:
    """A row a load."""
    return _LOOPS.format(names="", lines="", rows="\n".join(_row(_cells(each)) for each in found))


def loops_beside(found: Sequence[Loop], other: str, others: Sequence[Loop]) -> str:
    """As above, and what another engine needed for the same loads."""
    rows = "\n".join(_row([*_cells(each), *_measured(same_load(each, others))]) for each in found)
    return _LOOPS.format(names=f" {other}: TTFT | TPOT |", lines="---|---|", rows=rows)


def errors(found: Sequence[Loop]) -> str:
    """Median errors, as predicted and once the load of so many users is known."""
    known = next(each for each in found if each.users == _KNOWN_USERS)
    return _ERRORS.format(
        ttft=_median_error(each.ttft for each in found),
        tpot=_median_error(each.tpot for each in found),
        known=f"{known.input} in, {known.output} out, {known.users} users",
        ttft_after=off_after(known, found, "ttft"),
        tpot_after=off_after(known, found, "tpot"),
    )


def inside(found: Sequence[Loop]) -> str:
    """How many are in their intervals, in words."""
    return _INSIDE.format(
        ttft=sum(_inside(each.ttft) for each in found),
        tpot=sum(_inside(each.tpot) for each in found),
        count=len(found),
        faster="faster" if median(each.tpot.off for each in found) > 0 else "slower",
    )


def summary_table(several: Iterable[tuple[str, str, str, Sequence[Loop]]]) -> str:
    """A row for each deployment with its engine, GPU and closed loops."""
    return _SUMMARY.format(rows="\n".join(_row([*words, *_summed(found)]) for *words, found in several))


def arrivals_table(found: Sequence[Open]) -> str:
    """Two rows a rate."""
    return _ARRIVALS.format(rows="\n".join(map(_open, found)))


def same_load(loop: Loop, others: Sequence[Loop]) -> Loop:
    """That of another engine."""
    load = (loop.input, loop.output, loop.users)
    return next(each for each in others if (each.input, each.output, each.users) == load)


def _summed(found: Sequence[Loop]) -> Iterator[str]:
    yield str(len(found))
    for each in ([loop.ttft for loop in found], [loop.tpot for loop in found]):
        yield f"{_median_error(each):.0%}"
        yield f"{sum(map(_inside, each))} of {len(each)}"


def _median_error(several: Iterable[Beside]) -> float:
    return median(abs(each.off) for each in several)


def _inside(each: Beside) -> bool:
    return each.low <= each.measured <= each.high


def _cells(loop: Loop) -> list[str]:
    cells = [f"{loop.input} / {loop.output}", str(loop.users)]
    for measured, each, digits in zip(_measured(loop), (loop.ttft, loop.tpot), (0, 1), strict=True):
        wanted, low, high = (f"{value:.{digits}f}" for value in (each.expected, each.low, each.high))
        cells += [measured, f"{wanted} ({low} to {high})", f"{each.off:+.0%}"]
    return cells


def _measured(loop: Loop) -> list[str]:
    return [f"{loop.ttft.measured:.0f}", f"{loop.tpot.measured:.1f}"]


def _open(loop: Open) -> str:
    ttft = _of_both("TTFT", loop.rate, loop.ttft, loop.twin[0], 0)
    tpot = _of_both("TPOT", loop.rate, loop.tpot, loop.twin[1], 1)
    return f"{_row(ttft)}\n{_row(tpot)}"


def _of_both(name: str, rate: float, said: Both, twin: float, digits: int) -> list[str]:
    values = (*said["p50"], twin, *said["p95"])
    return [name, f"{rate:.1f}", *(f"{each:.{digits}f}" for each in values)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
