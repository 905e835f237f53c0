"""docs/gpu.md from what was measured. The prose has no measured figure of its own."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench.on_gpu.compared import arrivals, loops, off_after, room, start

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.on_gpu.compared import Beside, Both, Loop, Measured, Open

_KNOWN_USERS = 16
_TEXT = """\
# Beside a GPU

Written by `python -m bench.on_gpu --write` from what `python -m bench.on_gpu.record` measured on one {gpu}
(driver {driver}) with vLLM {vllm}: {name} in BF16 with random weights, started as Weft renders it with
`{options}`, but without FlashInfer and DeepGEMM. Clients ran on the same
machine and sent numbers of tokens. Nothing of this was fitted: the table of the fit has no row of this model with vLLM
on this GPU. {note}

## Users who wait for their answers

Prompts and answers are drawn evenly from 0.8 of the nominal tokens to all of them. Medians in milliseconds, beside what
`weft predict` says and, in brackets, the interval in which four of five measurements of deployments that no fit has
seen should lie.

| tokens in / out | users | TTFT | expected | off | TPOT | expected | off |
|---|---|---|---|---|---|---|---|
{rows}

| median error | TTFT | TPOT |
|---|---|---|
| as predicted | {ttft:.0%} | {tpot:.0%} |
| once one load is known ({known}) | {ttft_after:.0%} | {tpot_after:.0%} |

{inside_ttft} of {count} first tokens and {inside_tpot} of {count} times per token are inside the interval. The engine
was {faster} than expected almost everywhere, so that a plan for it errs towards {errs} GPUs until live metrics
correct it ([ADR 0013](adr/0013-two-factors-per-pool-from-live-metrics.md)). Why first tokens of {most} users came so
late was not looked into: one API server streamed some {streamed:,.0f} tokens a second then.

## Arrivals at random

Beside the closed forms of the performance model, which know nothing of these measurements, and beside the twin, whose
steps were fitted to the closed loops above of the same lengths. Milliseconds.

| | requests/s | p50 measured | model | twin | p95 measured | model |
|---|---|---|---|---|---|---|
{arrivals}

## Memory, start and end

- **Room for KV**: {kv_measured:,} tokens, {kv_expected:,} expected ({kv_off:+.1%}). Of the memory, vLLM takes 92 % from
  0.20 on; 90 % are counted on.
- **Start**: {start_seconds:.0f} s from the process to the first healthy answer and {again:.0f} s once what is compiled
  is kept, without weights to read. {start_expected:.0f} s are expected before a start of the pool was measured.
- **End**: of {streams} streams that a SIGTERM met {whole} came whole; the process was gone after {leaving:.1f} s.

Halves of a split, other models and other engines have not run on a GPU.
"""


def as_page(told: Measured) -> str:
    """The whole page."""
    found, leaving = loops(told), told["leaving"]
    known = next(each for each in found if each.users == _KNOWN_USERS)
    crowd = max(found, key=lambda each: each.users)
    measured, wanted = room(told)
    slower_expected = median(each.tpot.off for each in found) > 0
    return _TEXT.format(
        gpu=told["gpu"]["name"],
        note=told.get("note", ""),
        driver=told["gpu"]["driver_version"],
        vllm=told["vllm"],
        name=told["name"],
        options=" ".join(told["options"]),
        rows="\n".join(map(_loop, found)),
        ttft=_median_error(each.ttft for each in found),
        tpot=_median_error(each.tpot for each in found),
        known=f"{known.input} in, {known.output} out, {known.users} users",
        ttft_after=off_after(known, found, "ttft"),
        tpot_after=off_after(known, found, "tpot"),
        inside_ttft=sum(_inside(each.ttft) for each in found),
        inside_tpot=sum(_inside(each.tpot) for each in found),
        count=len(found),
        faster="faster" if slower_expected else "slower",
        errs="more" if slower_expected else "fewer",
        most=crowd.users,
        streamed=round(1000.0 * crowd.users / crowd.tpot.measured, -3),
        arrivals="\n".join(map(_open, arrivals(told))),
        kv_measured=measured,
        kv_expected=wanted,
        kv_off=wanted / measured - 1.0,
        start_seconds=told["start_seconds"],
        again=told["start_again_seconds"],
        start_expected=start(told),
        streams=leaving["streams"],
        whole=leaving["whole"],
        leaving=leaving["seconds"],
    )


def _median_error(several: Iterable[Beside]) -> float:
    return median(abs(each.off) for each in several)


def _inside(each: Beside) -> bool:
    return each.low <= each.measured <= each.high


def _loop(loop: Loop) -> str:
    cells = [f"{loop.input} / {loop.output}", str(loop.users)]
    for each, digits in ((loop.ttft, 0), (loop.tpot, 1)):
        measured, wanted, low, high = (
            f"{value:.{digits}f}" for value in (each.measured, each.expected, each.low, each.high)
        )
        cells += [measured, f"{wanted} ({low} to {high})", f"{each.off:+.0%}"]
    return _row(cells)


def _open(loop: Open) -> str:
    ttft = _cells("TTFT", loop.rate, loop.ttft, loop.twin[0], 0)
    tpot = _cells("TPOT", loop.rate, loop.tpot, loop.twin[1], 1)
    return f"{_row(ttft)}\n{_row(tpot)}"


def _cells(name: str, rate: float, said: Both, twin: float, digits: int) -> list[str]:
    values = (*said["p50"], twin, *said["p95"])
    return [name, f"{rate:.1f}", *(f"{each:.{digits}f}" for each in values)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
