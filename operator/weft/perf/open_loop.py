"""Requests that come at random at a given rate: the batch in which they leave as fast as they come.

With B sequences running, rate x (OSL x t_decode(B) + B x t_prefill) = B. Prompts wait for one another as in M/D/1. A
rate above what the replica gives has no steady state: then what it does when full is told, and the wait of the first
minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.perf.balance import balanced
from weft.perf.closed_loop import Latencies
from weft.perf.queueing import mean_wait_seconds
from weft.perf.seats import seats
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel

_OBSERVED_SECONDS = 60.0
_BUSIEST = 0.98


@dataclass(frozen=True, slots=True)
class Served:
    """Mean latencies, and the requests that are answered in a second: those that come, or as many as can be."""

    latencies: Latencies
    requests_per_second: float


def open_loop(replica: ReplicaModel, rate: float, input_tokens: float, output_tokens: float) -> Served:
    """What one replica does of `rate` requests a second."""
    steps, most = stepper(replica), seats(replica, input_tokens, output_tokens)
    prompt = steps.prefill(input_tokens, 0.0, 1.0).seconds
    each = prompt / (replica.shape.data_parallel * replica.shape.pipeline_parallel)
    context = input_tokens + output_tokens / 2.0
    batch = balanced(lambda crowd: rate * (output_tokens * steps.decode(crowd, context).seconds + crowd * each), most)
    step = steps.decode(batch, context).seconds
    tpot = step + batch * each / output_tokens
    served = min(rate, batch / (output_tokens * tpot))
    behind = (rate - served) / rate * _OBSERVED_SECONDS / 2.0
    wait = mean_wait_seconds(min(_BUSIEST, rate * each), prompt, 0.0)
    ttft = replica.efficiency.request_seconds + prompt + step + wait + behind
    return Served(Latencies(ttft, tpot), served)
