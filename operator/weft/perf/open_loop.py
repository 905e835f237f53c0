"""Requests that come at random at a given rate: the batch in which they leave as fast as they come.

With B sequences running, rate x (OSL x t_decode(B) + B x t_prefill) = B. Prompts wait for one another as in M/D/1. A
rate above what the replica gives has no steady state: then what it does when full is told, and the wait of the first
minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.perf.closed_loop import KEPT_OF_OUTPUT, Latencies
from weft.perf.memory import sequences_that_fit
from weft.perf.queueing import mean_wait_seconds
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel
    from weft.perf.steps import Stepper

_HALVINGS = 30
_OBSERVED_SECONDS = 60.0
_BUSIEST = 0.98


def open_loop_latencies(replica: ReplicaModel, rate: float, input_tokens: float, output_tokens: float) -> Latencies:
    """Mean TTFT and TPOT of one replica, seconds."""
    steps, ranks = stepper(replica), replica.shape.data_parallel
    room = sequences_that_fit(replica, input_tokens + KEPT_OF_OUTPUT * output_tokens)
    most = float(min(max(ranks, room), int(replica.efficiency.sequences) * ranks))
    prompt = steps.prefill(input_tokens, 0.0, 1.0).seconds
    each = prompt / (ranks * replica.shape.pipeline_parallel)
    context = input_tokens + output_tokens / 2.0
    batch = _batch(steps, rate, most, (context, output_tokens, each))
    step = steps.decode(batch, context).seconds
    tpot = step + batch * each / output_tokens
    served = batch / (output_tokens * tpot)
    behind = max(0.0, rate - served) / rate * _OBSERVED_SECONDS / 2.0 if batch >= most else 0.0
    wait = mean_wait_seconds(min(_BUSIEST, rate * each), prompt, 0.0)
    return Latencies(replica.efficiency.request_seconds + prompt + step + wait + behind, tpot)


def _batch(steps: Stepper, rate: float, most: float, lengths: tuple[float, float, float]) -> float:
    """Running sequences at a rate, at most so many."""
    context, output_tokens, prompt = lengths
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle < rate * (output_tokens * steps.decode(middle, context).seconds + middle * prompt):
            low = middle
        else:
            high = middle
    return max(high, 1e-9)
