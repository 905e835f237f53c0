"""Prefill and decode on separate replicas, at fixed concurrency: prompts take no time from decode.

A user is in prefill, then in decode. While prefill keeps up, a prompt waits behind those that arrive with it. Once it
does not, or decode has no seat, users queue before it: as many decode as the rate of prefill sustains, and the others
wait, by Little's law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.perf.balance import balanced
from weft.perf.benchmarks.closed_loop import Latencies
from weft.perf.benchmarks.seats import seats
from weft.perf.handover import handed_over_seconds
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel


@dataclass(frozen=True, slots=True)
class Half:
    """Replicas of one role."""

    replica: ReplicaModel
    count: int


def disaggregated_latencies(
    prefill: Half, decode: Half, users: float, input_tokens: float, output_tokens: float
) -> Latencies:
    """Mean TTFT and TPOT in seconds of so many `users`, at mean lengths in tokens."""
    server = prefill.count * prefill.replica.shape.data_parallel
    part = input_tokens / prefill.replica.efficiency.batched_tokens
    prompt, queued = (stepper(prefill.replica).prefill(input_tokens, 0.0, n).seconds for n in (math.ceil(part), part))
    steps, context = stepper(decode.replica), input_tokens + output_tokens / 2.0

    def step_seconds(running: float) -> float:
        return steps.decode(max(1.0, running / decode.count), context).seconds

    room = decode.count * seats(decode.replica, input_tokens, output_tokens)
    sustained = server / queued  # requests a second
    running = balanced(lambda crowd: sustained * output_tokens * step_seconds(crowd), min(users, room))
    step = step_seconds(running)
    reached = prefill.replica.efficiency
    waiting = prompt * reached.at_once * users / server
    alone = reached.request_seconds + prompt + handed_over_seconds(prefill.replica, input_tokens) + step
    ttft = max(alone + waiting, (users - running) * output_tokens * step / running)
    return Latencies(ttft, step)
