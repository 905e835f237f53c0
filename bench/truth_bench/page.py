"""docs/twin.md, and the table on the screen, from the figures. The prose has no measured figure of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table

from bench.truth_bench.beside import WITHIN
from bench.truth_bench.scored import AIM, FIGURES, all_scored, summary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.truth_bench.scored import Scored

_HEADS = ("rows", "TPOT", "throughput", "TTFT", "TPOT by a line, no twin")
_MILLI = 1e3
_ORDER = ("tpot", "throughput", "ttft", "straight_tpot")

_TEXT = """\
# The twin beside real engines

Written by `python -m bench.twin_truth --engine --write` ({machine}). The twin is what `weft simulate` and the benchmark
of autoscaling run on: vLLM's scheduling rules over a table of step times
([ADR 0024](adr/0024-the-twins-engine-leaps.md)). This page answers one question: given how long steps take, does an
engine of the twin behave like a real one?

## Beside published measurements

A series is one deployment measured at several concurrencies: same model, GPU, engine, version, precision, parallelism,
lengths and day. Step times are fitted to every other concurrency, beginning with the lowest; the twin predicts the
rest, which the fit has not seen. It simulates closed loops (each user sends the next request when the last one is
answered) of {rounds} requests a user. Errors are absolute and relative to what was measured, median / 90th percentile
over rows.

![TPOT in the twin over TPOT that was measured, and how many rows are off by how much]({picture})

| |{heads}
|---|{rule}
{lines}

Aim: TPOT within {aim:.0%} in the median.

- **Fitted**: {fitted} rows of {series} series. The unknowns of a series are the time of a decode step at each fitted
  concurrency (linear in between and beyond), seconds for each token of a prompt, and seconds outside the engine. They
  are chosen so that the twin reproduces the fitted rows. Memory and seats in the batch are those of the catalog.
- **Left out**: {left_out}.
- **Throughput** was published for none of these rows. On both sides it is Little's law: users over TTFT and all TPOTs
  of one request.
- **By a line**: TPOT interpolated between the fitted rows, without a twin. That does as well where all users have a
  seat in the batch, because TPOT is nearly linear within a series. So these rows show that the twin keeps to the step
  times that it is given, and how it treats users who wait for a seat. They show nothing about other lengths.

{engine}
## What is known to be weak

- First tokens at high concurrency come later in these rows than in the twin. Why is not known: the rows do not say, and
  the twin's time outside the engine is the same for any number of users.
- Where memory is short the twin preempts, as vLLM does; TensorRT-LLM holds requests back until they fit to their end.
- A series has one pair of lengths, so that longer steps over longer contexts are part of the fit and not tested here.
"""


_ENGINE_TEXT = """\
## Beside a real engine

vLLM {version} on the CPU with the tiny Llama of the end-to-end suite, a process whose computing has one thread
({machine}). Other work ran on the same cores (load average {before:g} before and {after:g} after), so calibration and
loads ran in {turns} alternating turns, which all had the same neighbours. Prompts of {inputs} tokens and answers of
{outputs}, each drawn evenly from 0.8 of that to all of it; `{options}`.

**One calibration**: a closed loop of {users} users with {rounds} requests each, medians. The steps fitted
to it: a prompt of {inputs} tokens takes {prompt:.0f} ms, {outside:.0f} ms are outside the engine, and decode steps
take {steps}.

| users | requests | TTFT p50, ms: measured | twin | TPOT p50, ms: measured | twin |
|---|---|---|---|---|---|
{calibration}

**Three loads**, which the calibration has not seen: Poisson arrivals at parts of the throughput of {seats} users. The
twin gets the same requests at the same times. In brackets the medians of single turns, which show how much the
neighbours matter. Aim: within {within:.0%}; {inside} of {figures} are.

| load | requests/s | requests | TTFT p50, ms: measured | twin | off by | TPOT p50, ms: measured | twin | off by |
|---|---|---|---|---|---|---|---|---|
{loads}
"""


def as_page(told: dict[str, Any], picture: str) -> str:
    """The whole page."""
    rows = told["rows"]
    return _TEXT.format(
        machine=told["machine"]["words"],
        rounds=rows["rounds"],
        picture=picture,
        heads="".join(f" {head} |" for head in _HEADS),
        rule="---|" * len(_HEADS),
        lines="\n".join(f"| {title} | {' | '.join(cells)} |" for title, cells in _lines(rows)),
        aim=AIM,
        fitted=sum(len(each["fitted"]) for each in rows["series"]),
        series=len(rows["series"]),
        left_out="; ".join(_left_out(rows)) or "nothing",
        engine=_engine(told["engine"]) if "engine" in told else "",
    )


def _engine(told: dict[str, Any]) -> str:
    *first, last = (f"{_MILLI * seconds:.1f} ms at {size}" for size, seconds in told["step_seconds"].items())
    *fewer, most = (f"{point['users']}" for point in told["calibration"])
    return _ENGINE_TEXT.format(
        **{name: told[name] for name in ("version", "options", "turns", "rounds")},
        machine=told["machine"]["words"],
        before=told["load_average"][0],
        after=told["load_average"][1],
        inputs=told["lengths"][0],
        outputs=told["lengths"][1],
        users=f"{', '.join(fewer)} and {most}",
        seats=most,
        prompt=_MILLI * told["prompt_seconds"],
        outside=_MILLI * told["outside_seconds"],
        steps=f"{', '.join(first)} and {last}",
        calibration="\n".join(f"| {' | '.join(_point(point))} |" for point in told["calibration"]),
        within=WITHIN,
        inside=sum(off <= WITHIN for off in _off(told)),
        figures=len(_off(told)),
        loads="\n".join(f"| {' | '.join(_load(load))} |" for load in told["loads"]),
    )


def _off(told: dict[str, Any]) -> list[float]:
    """Errors of all figures at all loads."""
    pairs = [(load["twin"][name], load["measured"][name]) for load in told["loads"] for name in ("ttft", "tpot")]
    return [abs(twin / real - 1.0) for twin, real in pairs]


def _point(point: dict[str, Any]) -> list[str]:
    pairs = [(point[name], point["twin"][name]) for name in ("ttft", "tpot")]
    return [f"{point['users']}", f"{point['requests']}", *(f"{_MILLI * each:.1f}" for pair in pairs for each in pair)]


def _load(load: dict[str, Any]) -> list[str]:
    cells = [f"{load['load']:.0%}", f"{load['requests_per_second']:.1f}", f"{load['requests']}"]
    for name in ("ttft", "tpot"):
        real, twin = load["measured"][name], load["twin"][name]
        turns = [_MILLI * turn[name] for turn in load["by_turn"]]
        span = f"({min(turns):.0f} to {max(turns):.0f})"
        cells += [f"{_MILLI * real:.1f} {span}", f"{_MILLI * twin:.1f}", f"{twin / real - 1.0:+.0%}"]
    return cells


def as_tables(told: dict[str, Any]) -> list[Table]:
    """The same figures for the screen."""
    return [_rows_table(told["rows"]), *([_engine_table(told["engine"])] if "engine" in told else [])]


def _engine_table(engine: dict[str, Any]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), title="beside a real engine, p50 in ms", title_justify="left")
    for heading in ("load", "requests/s", "requests", "TTFT", "twin", "", "TPOT", "twin", ""):
        shown.add_column(heading, justify="right")
    for load in engine["loads"]:
        shown.add_row(*_load(load))
    return shown


def _rows_table(rows: dict[str, Any]) -> Table:
    shown = Table(box=None, padding=(0, 2, 0, 0), title="errors, median / 90th percentile", title_justify="left")
    for heading in ("", *_HEADS):
        shown.add_column(heading, justify="right" if heading else "left")
    for title, cells in _lines(rows):
        shown.add_row(title.replace("*", ""), *cells)
    return shown


def _lines(rows: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Titles and cells: all scored rows, and what they are made of."""
    scored = all_scored(rows["series"])
    groups: dict[str, Sequence[Scored]] = {
        "**all scored rows**": scored,
        **{
            name: [row for row in scored if row["engine"] == name] for name in sorted({row["engine"] for row in scored})
        },
        "between fitted concurrencies": [row for row in scored if row["within"]],
        "above all of them": [row for row in scored if not row["within"]],
        "users wait for a seat, by the memory model": [row for row in scored if not row["seated"]],
    }
    for title, group in groups.items():
        if group:
            yield title, _cells(summary(group))
    if rows["other_way_round"]:
        yield "the other way round: what was scored is fitted", _cells(rows["other_way_round"])


def _cells(found: dict[str, dict[str, float]]) -> list[str]:
    spans = [f"{found[name]['median']:.1%} / {found[name]['p90']:.1%}" for name in _ORDER]
    return [f"{found[FIGURES[0]]['rows']}", *spans]


def _left_out(rows: dict[str, Any]) -> Iterator[str]:
    for reason, count in rows["left_out"].items():
        yield f"{count['series']} series with {count['rows']} rows, {reason}"
