"""Measurements of one half of serving alone: prompts without answers, or decode in which no prompt interferes.

Published figures of large expert groups are of this kind: the decode half is filled with sequences, and its steps are
timed. The note of a row says it.
"""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import TYPE_CHECKING

from weft.perf.balance import balanced
from weft.perf.benchmarks.closed_loop import Latencies
from weft.perf.benchmarks.open_loop import Served
from weft.perf.benchmarks.seats import seats
from weft.perf.steps import larger, stepper

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel
    from weft.perf.steps import StepTime

_NAMED = re.compile(r"\b(prefill|decode)[- ]only\b", re.IGNORECASE)


class MeasuredHalf(StrEnum):
    """The half that was measured."""

    Prefill = "prefill"
    Decode = "decode"


def alone_in(note: str) -> MeasuredHalf | None:
    """The half that a note says was measured alone (`decode-only`); None if it says no such thing."""
    named = _NAMED.search(note)
    return MeasuredHalf(named[1].casefold()) if named is not None else None


def prompts_alone(replica: ReplicaModel, users: float, input_tokens: float, *, overlapped: bool = False) -> Served:
    """Prompts of so many `users`, each of whom sends the next one when the last is computed.

    They fill the steps, so that the lone prompt of a user who comes to an idle engine takes longer than its part. Where
    they are `overlapped`, a full step is two batches of half the tokens, each launched by itself.
    """
    part = input_tokens / replica.efficiency.batched_tokens
    prompt, queued = (stepper(replica).prefill(input_tokens, 0.0, n).seconds for n in (math.ceil(part), part))
    if overlapped:
        queued = _overlapped_seconds(stepper(replica).prefill(input_tokens, 0.0, 2.0 * part))
    server = float(replica.shape.data_parallel)
    ttft = max(replica.efficiency.request_seconds + prompt, users * queued / server)
    return Served(Latencies(ttft, 0.0), users / ttft)


def _overlapped_seconds(prompt: StepTime) -> float:
    """Seconds of a prompt, the longer of computing one batch and of the way of the other's tokens to experts and back.

    As stages of both alternate in SGLang's `two_batch_overlap.py` (sgl-project/sglang pull request 4068).
    """
    exchanging = prompt.parts.exchanges * prompt.seconds / sum(prompt.parts)
    return larger(prompt.seconds - exchanging, exchanging)


def decode_alone(replica: ReplicaModel, users: float, rate: float, input_tokens: float, output_tokens: float) -> Served:
    """Decode with so many `users` (0: as many as have a seat), or requests per second; prompts take no time from it.

    The TTFT is that of a user who waits for a seat, and 0 where all have one.
    """
    steps, context = stepper(replica), input_tokens + output_tokens / 2.0
    room = seats(replica, input_tokens, output_tokens)

    def step_seconds(running: float) -> float:
        return steps.decode(max(1.0, running), context).seconds

    running = min(users or room, room)
    if math.isfinite(rate) and rate > 0.0:
        running = balanced(lambda crowd: rate * output_tokens * step_seconds(crowd), running)
    step = step_seconds(running)
    waiting = max(0.0, users / running - 1.0) * output_tokens * step
    return Served(Latencies(waiting, step), running / (output_tokens * step))
