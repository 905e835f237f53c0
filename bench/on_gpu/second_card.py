"""The part of docs/gpu.md about a second GPU: whether predictions carry over, and what short prompts wait for."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench.on_gpu.compared import loops, replica_of, room, start
from bench.on_gpu.tables import errors, inside, loops_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from bench.on_gpu.compared import Loop, Measured

_MILLI = 1e3
_TEXT = """\
## On an H200

One {gpu} (driver {driver}) with vLLM {vllm}: the same processor as the H100 with more and faster memory, which
Weft knew only from its data sheet and published rows. Fewer loads than on the H100; arrivals at random and a second
start were not measured.
{parts}
### What short prompts wait for

With these options vLLM captures graphs of steps of up to {graph} tokens; larger steps are launched kernel by kernel.
That is why prompts of 512 and 768 tokens were measured. The table was measured by hand on the same GPU: one request
at a time with an answer of {answer} tokens, until the answer was complete; and a trace by torch's profiler, which
slows launches, of prompts of {traced} tokens with the step of their second token. Medians in milliseconds.

| | {lengths} | a trace from its first kernel to its last | GPU busy | kernels |
|---|{lines}---|---|---|
{rows}

From {floor_from} to {floor_to} tokens a prompt takes about the same time, whatever its length and precision: the host
takes longer to launch kernels than the GPU to compute them. Weft therefore expects at least {launch:.1f} ms a layer
for a step without a graph, which is aiconfigurator's figure ([ADR
0100](adr/0100-a-prompt-takes-as-long-as-the-host-launches-it.md)). Where computing takes longer, as for a lone prompt
of {long_tokens} tokens, predicted first tokens are within {long:.0%} in both precisions. How long launches take
depends on the CPUs, here those of virtual machines: both GPUs ask for somewhat more.

First tokens of 64 users come later than expected in BF16 with both models, and those of four users with prompts of
{long_tokens} tokens with the smaller one. In these loops prompts keep the GPU busy most of the time. *Prompts fill* is
the users times the wait of a lone one, over the time from one request to the next; it is above 100 % where prompts
share a step, which is launched once.

| | tokens in / out | users | prompts fill | TTFT off | TPOT off | part of a request spent waiting |
|---|---|---|---|---|---|---|
{loads}

How many prompts wait for each other is fitted to published loops, most of them with answers of 1,024 tokens or more,
and depends on the number of users only. Where a request waits for a large part of its time, prompts of others arrive
in that time and delay its first token. The model counts them as lengthening its answer, so it predicts TPOT too long.
"""
_PART = """
### {name} in {precision} on the H200

vLLM with `{options}`{how}. Closed loops:

{loops}

{errors}

{inside}

Room for KV: {kv_measured:,} tokens, expected {kv_expected:,} ({kv_off:+.1%}). Start: {start_seconds:.0f} s, expected
{start_expected:.0f} s. After a SIGTERM {whole} of {streams} streams ended whole; the process ended after
{leaving:.1f} s.
"""
_GRAPH = 512  # twice the sequences, and at most so many
_FLOOR = (520, 920)  # tokens between which the host is what takes so long
_LONG = 8192
_MEAN = 0.9  # of the nominal length of an answer


@dataclass(frozen=True, slots=True)
class SecondCard:
    """A dense model in BF16 and in FP8, a larger one, and how long lone prompts of the first one took."""

    dense: Measured
    fp8: Measured
    larger: Measured
    alone: Measured


def second_card_part(card: SecondCard) -> str:
    """With every part that was recorded."""
    alone, told = card.alone, card.dense
    lengths = [each["input"] for each in alone["precisions"][0]["alone"]]
    return _TEXT.format(
        gpu=told["gpu"]["name"],
        driver=told["gpu"]["driver_version"],
        vllm=told["vllm"],
        parts="".join(map(_part, (card.dense, card.fp8, card.larger))),
        graph=_GRAPH,
        answer=alone["answer_tokens"],
        traced=alone["precisions"][0]["traced"]["input"],
        lengths=" | ".join(map(str, lengths)),
        lines="---|" * len(lengths),
        rows="\n".join(map(_row, alone["precisions"])),
        floor_from=_FLOOR[0],
        floor_to=_FLOOR[1],
        launch=_MILLI * replica_of(told, told["closed"][0]).efficiency.host_layer_seconds,
        loads="\n".join(row for each in (card.dense, card.fp8, card.larger) for row in _loads(each)),
        long_tokens=_LONG,
        long=max(abs(off) for each in (card.dense, card.fp8) for off in _off_alone(each)),
    )


def _part(told: Measured) -> str:
    found, (measured, wanted), leaving = loops(told), room(told), told["leaving"]
    return _PART.format(
        name=told.get("model", told["name"]),
        precision=told.get("precision", "BF16"),
        options=" ".join(told["options"]),
        how=", which quantises weights while it reads them" if "precision" in told else "",
        loops=loops_table(found),
        errors=errors(found),
        inside=inside(found),
        kv_measured=measured,
        kv_expected=wanted,
        kv_off=wanted / measured - 1.0,
        start_seconds=told["start_seconds"],
        start_expected=start(told),
        streams=leaving["streams"],
        whole=leaving["whole"],
        leaving=leaving["seconds"],
    )


def _off_alone(told: Measured) -> list[float]:
    """What is off at first tokens of a lone user's long prompts."""
    return [each.ttft.off for each in loops(told) if (each.input, each.users) == (_LONG, 1)]


def _loads(told: Measured) -> list[str]:
    """Rows of the loops of several users whose prompts a lone user asked too."""
    found = loops(told)
    alone = {each.input: each.ttft.measured for each in found if each.users == 1}
    name = f"{told.get('model', told['name'])} in {told.get('precision', 'BF16')}"
    return [_load(name, each, alone[each.input]) for each in found if each.users > 1 and each.input in alone]


def _load(name: str, loop: Loop, alone: float) -> str:
    whole = loop.ttft.measured + _MEAN * loop.output * loop.tpot.measured
    filled, waiting = loop.users * alone / whole, loop.ttft.measured / whole
    cells = (
        *(name, f"{loop.input} / {loop.output}", str(loop.users), f"{filled:.0%}"),
        *(f"{loop.ttft.off:+.0%}", f"{loop.tpot.off:+.0%}", f"{waiting:.0%}"),
    )
    return f"| {' | '.join(cells)} |"


def _row(of: Mapping[str, Any]) -> str:
    steps: Sequence[Mapping[str, float]] = of["traced"]["steps"]
    alone = (f"{median(each['milliseconds']):.0f}" for each in of["alone"])
    traced = (f"{median(each[name] for each in steps):.1f}" for name in ("milliseconds", "busy"))
    return f"| {' | '.join((of['precision'], *alone, *traced, str(steps[0]['kernels'])))} |"
