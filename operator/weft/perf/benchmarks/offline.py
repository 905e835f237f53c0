"""Throughput of a replica when all requests are queued at once: the most tokens a second, at any latency.

The batch is what memory or the engine admits. By Little's law B sequences finish B / (OSL x t_decode + B x t_prefill)
requests a second, since every prompt takes its share of all sequences' time. Requests that start together end together:
prompts come in waves as large as the batch, which fill all steps and all stages of a pipeline, once the first is
through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.perf.benchmarks.seats import seats, seats_together
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel


@dataclass(frozen=True, slots=True)
class Throughput:
    """Output tokens per second of the whole replica, its batch, and the time per output token there."""

    output_tokens_per_second: float
    batch: float
    tpot_seconds: float


def offline_throughput(
    replica: ReplicaModel, input_tokens: float, output_tokens: float, most_users: float | None = None
) -> Throughput:
    """Throughput with all seats taken by requests of mixed ages; or of `most_users` requests started together.

    The engine is taken to be configured to admit that many, even beyond its default.
    """
    steps = stepper(replica)
    if most_users is None:
        batch = seats(replica, input_tokens, output_tokens)
    else:
        batch = min(seats_together(replica, input_tokens, output_tokens), most_users)
    decode = steps.decode(batch, input_tokens + output_tokens / 2.0).seconds
    part = input_tokens / replica.efficiency.batched_tokens  # prompts share steps
    ranks = replica.shape.data_parallel
    way = steps.work.stages.way(batch / ranks * part)
    prefill = steps.prefill(input_tokens, 0.0, part).seconds * way / ranks
    tpot = decode + batch * prefill / output_tokens
    return Throughput(batch / tpot, batch, tpot)
