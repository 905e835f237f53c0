"""docs/gpu.md from what was measured. The prose has no measured figure of its own."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.on_gpu.compared import arrivals, loops, room, start
from bench.on_gpu.halves_page import halves_part
from bench.on_gpu.second_card import SecondCard, second_card_part
from bench.on_gpu.tables import arrivals_table, errors, inside, loops_beside, loops_table, same_load, summary_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.on_gpu.compared import Loop, Measured

_TEXT = """\
# Beside a GPU

What Weft predicts, beside what was measured on one {gpu} and [one H200](#on-an-h200). Written by
`python -m bench.on_gpu --write` from the records of `python -m bench.on_gpu.record`. Times are medians over requests.

{summary}

*Inside* counts the loads of which the measured value is within the interval of the prediction. An interval should hold
four of five measurements of deployments that no fit has seen.

| how it was measured | |
|---|---|
| software | driver {driver}; vLLM {vllm}, without FlashInfer and DeepGEMM; SGLang {sglang}, without kernels of \
CUTLASS's DSL |
| models | random weights, engines started as Weft starts them |
| clients | on the same machine; they send numbers of tokens |
| fitted to this | nothing. After the first of these measurements the model was reviewed, and BF16 factors and \
launches of prompts were changed by other people's figures ([ADR \
0076](adr/0076-bf16-comes-nearer-to-the-data-sheet-than-fp8.md), \
[0082](adr/0082-prompts-of-experts-are-launched-layer-by-layer.md), \
[0100](adr/0100-a-prompt-takes-as-long-as-the-host-launches-it.md)) |

## {name}

vLLM in BF16 with `{options}`. The published rows that the model is fitted to
have none of this model with vLLM on this GPU. {note}

### Closed loops

Each user sends the next request when the last one is answered. Prompts and answers have 0.8 to 1 times the nominal
tokens, drawn evenly. Medians in milliseconds beside what `weft predict` expects, with the interval in brackets.

{loops}

{errors}

{inside}

Why first tokens of {most} users came so late is not known: one API server streamed about {streamed:,.0f} tokens a
second then. Where an engine is faster than expected, a plan has more GPUs than needed until live metrics correct it
([ADR 0013](adr/0013-two-factors-per-pool-from-live-metrics.md)).

### Arrivals at random

Poisson arrivals. The performance model knows nothing of these measurements; the steps of the twin were fitted to the
closed loops of the same lengths. Milliseconds.

{arrivals}

### Memory, start and end

| | measured | expected |
|---|---|---|
| room for KV, tokens | {kv_measured:,} (vLLM takes 92 % of the memory from 0.20 on) | {kv_expected:,} \
({kv_off:+.1%}; 90 % are assumed) |
| start until healthy, without weights to read | {start_seconds:.0f} s; {again:.0f} s once compiled code is cached | \
{start_expected:.0f} s before a start of the pool was measured |
| streams that end whole after a SIGTERM | {whole} of {streams}; the process ended after {leaving:.1f} s | all |

{fp8_part}
{sglang_part}
{experts_part}
{second_card_part}
{halves_part}
## What was not measured

KV between two machines, replicas of more than one GPU, SGLang's router and splits, TensorRT-LLM, and any other model.
On the H200 only vLLM ran, with the three deployments above.
"""
_FP8 = """\
## {model} in FP8

vLLM with `{options}`, which quantises weights while it reads them.
KV stays in BF16, as Weft asks for no other. Closed loops with {count} loads:

{loops}

{inside}

First tokens come later than expected for the reason in [what short prompts wait for](#what-short-prompts-wait-for).
Room for KV: {kv_measured:,} tokens, expected {kv_expected:,} ({kv_off:+.1%}). Start: {start_seconds:.0f} s, expected
{start_expected:.0f} s. Arrivals at random and the end were not measured.
"""
_SGLANG = """\
## {model} on SGLang

SGLang {sglang} in BF16 with `{options}` and the attention backend that
it chooses itself on this GPU (FlashAttention 3). Closed loops, beside what vLLM took for the same loads:

{loops}

{errors}

{inside} At the median of these loads
TTFT was {ttft_beside:.0%} of vLLM's, and TPOT {tpot_beside:.0%}.

Arrivals at random:

{arrivals}

| | measured | expected |
|---|---|---|
| room for KV, tokens | {kv_measured:,} (SGLang decides how much of the memory it takes) | {kv_expected:,} \
({kv_off:+.1%}) |
| start until healthy, without weights to read | {start_seconds:.0f} s; {again:.0f} s once compiled code is cached | \
{start_expected:.0f} s before a start of the pool was measured |
| streams that end whole after a SIGTERM | {whole} of {streams}; the process ended after {leaving:.1f} s | all |

SGLang compiles kernels while it captures graphs of prefill. Its own gauges of start and weight loading are zero in this
release; Weft takes that as not reported.
"""
_EXPERTS = """\
## {name}

vLLM in BF16 with `{options}`. With random
weights tokens go to experts at random, and vLLM has no tuned kernel sizes for these experts on this GPU. Closed loops:

{loops}

{errors}

{inside}

Room for KV: {kv_measured:,} tokens, expected {kv_expected:,} ({kv_off:+.1%}): the prediction assumes 90 % of the memory
and 3 GiB beside weights and KV, of which vLLM took 0.9 at its peak. Start: {start_seconds:.0f} s, expected
{start_expected:.0f} s. The end was not measured.
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
        summary=_summary(recorded),
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


def _summary(recorded: Recorded) -> str:
    """A row a deployment, on both cards."""
    first = (recorded.dense, recorded.fp8, recorded.sglang, recorded.experts)
    second = (recorded.second.dense, recorded.second.fp8, recorded.second.larger)
    return summary_table((_title(told), _engine(told), _card(told), loops(told)) for told in (*first, *second))


def _title(told: Measured) -> str:
    return f"{told.get('model', told['name'])} in {told.get('precision', 'BF16')}"


def _engine(told: Measured) -> str:
    return f"SGLang {told['sglang']}" if "sglang" in told else f"vLLM {told['vllm']}"


def _card(told: Measured) -> str:
    """`H100`, as its driver says `NVIDIA H100 80GB HBM3`."""
    return str(told["gpu"]["name"]).split()[1]


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
