"""docs/gpu.md from what was measured. The prose has no measured figure of its own."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.on_gpu.compared import arrivals, loops, room, start
from bench.on_gpu.halves_page import halves_part
from bench.on_gpu.second_card import SecondCard, second_card_part
from bench.on_gpu.tables import arrivals_table, errors, inside, loops_beside, loops_table, same_load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.on_gpu.compared import Loop, Measured

_TEXT = """\
# Beside a GPU

Written by `python -m bench.on_gpu --write` from what `python -m bench.on_gpu.record` measured on one {gpu}
(driver {driver}), and [on one H200](#on-an-h200), with vLLM {vllm} and SGLang {sglang}: models with random weights,
started as Weft renders them, but vLLM without FlashInfer and DeepGEMM, and SGLang without kernels of CUTLASS's DSL.
Clients ran on the same machine and sent numbers of tokens. Nothing of this was fitted, but it is why the model was
looked at again: factors of BF16 and how prompts are launched were changed after the first of these measurements, by
other people's figures
([ADR 0076](adr/0076-bf16-comes-nearer-to-the-data-sheet-than-fp8.md),
[ADR 0082](adr/0082-prompts-of-experts-are-launched-layer-by-layer.md),
[ADR 0100](adr/0100-a-prompt-takes-as-long-as-the-host-launches-it.md)).

## {name}

On vLLM in BF16 with `{options}`. The table of the fit has no row of this model
with vLLM on this GPU. {note}

### Users who wait for their answers

Prompts and answers are drawn evenly from 0.8 of the nominal tokens to all of them. Medians in milliseconds, beside what
`weft predict` says and, in brackets, the interval in which four of five measurements of deployments that no fit has
seen should lie.

{loops}

{errors}

{inside}

Why first tokens of {most} users came so late was not looked into: one API server streamed some {streamed:,.0f} tokens a
second then. A plan for an engine that is faster than expected errs towards more GPUs until live metrics correct it
([ADR 0013](adr/0013-two-factors-per-pool-from-live-metrics.md)).

### Arrivals at random

Beside the closed forms of the performance model, which know nothing of these measurements, and beside the twin, whose
steps were fitted to the closed loops above of the same lengths. Milliseconds.

{arrivals}

### Memory, start and end

- **Room for KV**: {kv_measured:,} tokens, {kv_expected:,} expected ({kv_off:+.1%}). Of the memory, vLLM takes 92 % from
  0.20 on; 90 % are counted on.
- **Start**: {start_seconds:.0f} s from the process to the first healthy answer and {again:.0f} s once what is compiled
  is kept, without weights to read. {start_expected:.0f} s are expected before a start of the pool was measured.
- **End**: of {streams} streams that a SIGTERM met {whole} came whole; the process was gone after {leaving:.1f} s.

{fp8_part}
{sglang_part}
{experts_part}
{second_card_part}
{halves_part}
Not measured: KV between two machines, replicas of more than one GPU, SGLang's router and splits of it, TensorRT-LLM,
and any other model. The H200 ran vLLM with three deployments, and nothing else of this.
"""
_FP8 = """\
## {model} in FP8

On vLLM with `{options}`, which quantises weights as it reads
them; KV stays in BF16, as Weft asks for no other. Users who wait, as above; {count} loads were asked:

{loops}

{inside}

Why first tokens come later than expected: [what short prompts wait for](#what-short-prompts-wait-for). Room for KV:
{kv_measured:,} tokens, {kv_expected:,} expected ({kv_off:+.1%}). A start took {start_seconds:.0f} s where
{start_expected:.0f} are expected. Arrivals at random, and how it ends, were not measured.
"""
_SGLANG = """\
## {model} on SGLang

SGLang {sglang} in BF16 with `{options}` and the attention that it chooses
by itself on this card (FlashAttention 3). Users who wait, as above, beside what vLLM needed for the same loads:

{loops}

{errors}

{inside} At the median of these loads
first tokens took {ttft_beside:.0%} of what they took vLLM, and times per token {tpot_beside:.0%}.

Arrivals at random, as above:

{arrivals}

- **Room for KV**: {kv_measured:,} tokens, {kv_expected:,} expected ({kv_off:+.1%}). Weft leaves to
  SGLang how much of the memory it takes.
- **Start**: {start_seconds:.0f} s from the process to the first healthy answer and {again:.0f} s once what is compiled
  is kept: it compiles kernels while it captures graphs of prefill. {start_expected:.0f} s are expected. Its own gauges
  of its start and of loading weights tell zero in this release, which Weft takes for not told.
- **End**: of {streams} streams that a SIGTERM met {whole} came whole; the process was gone after {leaving:.1f} s.
"""
_EXPERTS = """\
## {name}

On vLLM in BF16 with `{options}`. With random
weights a router sends tokens to experts as chance has it, and vLLM has no tuned kernel sizes for these experts on this
card. Users who wait, as above:

{loops}

{errors}

{inside}

Room for KV: {kv_measured:,} tokens, {kv_expected:,} expected ({kv_off:+.1%}): 90 % of the memory are counted on, and
3 GiB beside weights and KV, of which vLLM took 0.9 at its peak. A start took {start_seconds:.0f} s where
{start_expected:.0f} are expected. How it ends was not measured.
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that the page is of.

    That is a dense model in BF16, in FP8 and on SGLang, one with experts, pairs of halves in the order of their pieces,
    and a second card.
    """

    dense: Measured
    fp8: Measured
    sglang: Measured
    experts: Measured
    pairs: Sequence[Measured]
    second: SecondCard


def as_page(recorded: Recorded) -> str:
    """The whole page."""
    told = recorded.dense
    crowd = max(loops(told), key=lambda each: each.users)
    return _TEXT.format(
        gpu=told["gpu"]["name"],
        driver=told["gpu"]["driver_version"],
        vllm=told["vllm"],
        sglang=recorded.sglang["sglang"],
        note=told.get("note", ""),
        loops=loops_table(loops(told)),
        errors=errors(loops(told)),
        **_of_an_engine(told),
        **_to_its_end(told),
        most=crowd.users,
        streamed=round(1000.0 * crowd.users / crowd.tpot.measured, -3),
        fp8_part=_fp8(recorded.fp8),
        sglang_part=_sglang(recorded.sglang, told),
        experts_part=_experts(recorded.experts),
        halves_part=halves_part(recorded.pairs),
        second_card_part=second_card_part(recorded.second),
    )


def _fp8(told: Measured) -> str:
    """Without the error once a load is known: too few were asked."""
    found = loops(told)
    return _FP8.format(model=told["model"], count=len(found), loops=loops_table(found), **_of_an_engine(told))


def _sglang(told: Measured, of_vllm: Measured) -> str:
    found, others = loops(told), loops(of_vllm)
    return _SGLANG.format(
        model=told["model"],
        sglang=told["sglang"],
        loops=loops_beside(found, "vLLM", others),
        errors=errors(found),
        ttft_beside=_beside(found, others, "ttft"),
        tpot_beside=_beside(found, others, "tpot"),
        **_of_an_engine(told),
        **_to_its_end(told),
    )


def _experts(told: Measured) -> str:
    found = loops(told)
    return _EXPERTS.format(loops=loops_table(found), errors=errors(found), **_of_an_engine(told))


def _beside(found: Sequence[Loop], others: Sequence[Loop], name: str) -> float:
    """What it took over what the same took another engine, at the median load."""
    pairs = ((getattr(each, name), getattr(same_load(each, others), name)) for each in found)
    return float(median(one.measured / other.measured for one, other in pairs))


def _of_an_engine(told: Measured) -> dict[str, object]:
    measured, wanted = room(told)
    return {
        "name": told["name"],
        "options": " ".join(told["options"]),
        "inside": inside(loops(told)),
        "kv_measured": measured,
        "kv_expected": wanted,
        "kv_off": wanted / measured - 1.0,
        "start_seconds": told["start_seconds"],
        "start_expected": start(told),
    }


def _to_its_end(told: Measured) -> dict[str, object]:
    leaving = told["leaving"]
    return {
        "arrivals": arrivals_table(arrivals(told)),
        "again": told["start_again_seconds"],
        "streams": leaving["streams"],
        "whole": leaving["whole"],
        "leaving": leaving["seconds"],
    }
