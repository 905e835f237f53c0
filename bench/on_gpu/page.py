"""docs/gpu.md from what was measured. The prose has no measured figure of its own."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from bench.on_gpu.compared import arrivals, loops, off_after, room, start
from bench.on_gpu.halves_page import halves_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.on_gpu.compared import Beside, Both, Loop, Measured, Open

_KNOWN_USERS = 16
_TEXT = """\
# Beside a GPU

Written by `python -m bench.on_gpu --write` from what `python -m bench.on_gpu.record` measured on one {gpu}
(driver {driver}) with vLLM {vllm}: models with random weights, started as Weft renders them, but without FlashInfer and
DeepGEMM. Clients ran on the same machine and sent numbers of tokens. Nothing of this was fitted.

## {name}

In BF16 with `{options}`. The table of the fit has no row of this model with
vLLM on this GPU. {note}

### Users who wait for their answers

Prompts and answers are drawn evenly from 0.8 of the nominal tokens to all of them. Medians in milliseconds, beside what
`weft predict` says and, in brackets, the interval in which four of five measurements of deployments that no fit has
seen should lie.

{loops}

Why first tokens of {most} users came so late was not looked into: one API server streamed some {streamed:,.0f} tokens a
second then. A plan for an engine that is faster than expected errs towards more GPUs until live metrics correct it
([ADR 0013](adr/0013-two-factors-per-pool-from-live-metrics.md)).

### Arrivals at random

Beside the closed forms of the performance model, which know nothing of these measurements, and beside the twin, whose
steps were fitted to the closed loops above of the same lengths. Milliseconds.

| | requests/s | p50 measured | model | twin | p95 measured | model |
|---|---|---|---|---|---|---|
{arrivals}

### Memory, start and end

- **Room for KV**: {kv_measured:,} tokens, {kv_expected:,} expected ({kv_off:+.1%}). Of the memory, vLLM takes 92 % from
  0.20 on; 90 % are counted on.
- **Start**: {start_seconds:.0f} s from the process to the first healthy answer and {again:.0f} s once what is compiled
  is kept, without weights to read. {start_expected:.0f} s are expected before a start of the pool was measured.
- **End**: of {streams} streams that a SIGTERM met {whole} came whole; the process was gone after {leaving:.1f} s.

{experts}
{halves}
Other models and other engines have not run on a GPU.
"""
_EXPERTS = """\
## {name}

In BF16 with `{options}`. With random
weights a router sends tokens to experts as chance has it, and vLLM has no tuned kernel sizes for these experts on this
card. Users who wait, as above:

{loops}

Room for KV: {kv_measured:,} tokens, {kv_expected:,} expected ({kv_off:+.1%}): 90 % of the memory are counted on, and
3 GiB beside weights and KV, of which vLLM took 0.9 at its peak. A start took {start_seconds:.0f} s where
{start_expected:.0f} are expected. How it ends was not measured.
"""
_LOOPS = """\
| tokens in / out | users | TTFT | expected | off | TPOT | expected | off |
|---|---|---|---|---|---|---|---|
{rows}

| median error | TTFT | TPOT |
|---|---|---|
| as predicted | {ttft:.0%} | {tpot:.0%} |
| once one load is known ({known}) | {ttft_after:.0%} | {tpot_after:.0%} |

{inside_ttft} of {count} first tokens and {inside_tpot} of {count} times per token are inside the interval. At the
median of times per token the engine was {faster} than expected."""


def as_page(told: Measured, experts: Measured, pairs: Sequence[Measured]) -> str:
    """The whole page: of a dense model, of one with experts, and of pairs in the order of their pieces."""
    crowd = max(loops(told), key=lambda each: each.users)
    leaving = told["leaving"]
    return _TEXT.format(
        gpu=told["gpu"]["name"],
        driver=told["gpu"]["driver_version"],
        vllm=told["vllm"],
        note=told.get("note", ""),
        **_of_an_engine(told),
        most=crowd.users,
        streamed=round(1000.0 * crowd.users / crowd.tpot.measured, -3),
        arrivals="\n".join(map(_open, arrivals(told))),
        again=told["start_again_seconds"],
        streams=leaving["streams"],
        whole=leaving["whole"],
        leaving=leaving["seconds"],
        experts=_EXPERTS.format(**_of_an_engine(experts)),
        halves=halves_part(pairs),
    )


def _of_an_engine(told: Measured) -> dict[str, object]:
    measured, wanted = room(told)
    return {
        "name": told["name"],
        "options": " ".join(told["options"]),
        "loops": _closed(told),
        "kv_measured": measured,
        "kv_expected": wanted,
        "kv_off": wanted / measured - 1.0,
        "start_seconds": told["start_seconds"],
        "start_expected": start(told),
    }


def _closed(told: Measured) -> str:
    found = loops(told)
    known = next(each for each in found if each.users == _KNOWN_USERS)
    return _LOOPS.format(
        rows="\n".join(map(_loop, found)),
        ttft=_median_error(each.ttft for each in found),
        tpot=_median_error(each.tpot for each in found),
        known=f"{known.input} in, {known.output} out, {known.users} users",
        ttft_after=off_after(known, found, "ttft"),
        tpot_after=off_after(known, found, "tpot"),
        inside_ttft=sum(_inside(each.ttft) for each in found),
        inside_tpot=sum(_inside(each.tpot) for each in found),
        count=len(found),
        faster="faster" if median(each.tpot.off for each in found) > 0 else "slower",
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
