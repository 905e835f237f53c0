"""What a replica gives when all requests are queued at once: the most tokens a second, at whatever latency.

The batch is what memory or the engine admits. By Little's law B sequences finish B / (OSL x t_decode + B x t_prefill)
requests a second, since every prompt takes its part of all sequences' time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.perf.seats import seats
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
    """What all seats give; `most_users` limits the batch further."""
    steps, shape, batch = stepper(replica), replica.shape, seats(replica, input_tokens, output_tokens)
    if most_users is not None:
        batch = min(batch, most_users)
    decode = steps.decode(batch, input_tokens + output_tokens / 2.0).seconds
    part = input_tokens / replica.efficiency.batched_tokens  # prompts share steps
    prefill = steps.prefill(input_tokens, 0.0, part).seconds / (shape.data_parallel * shape.pipeline_parallel)
    tpot = decode + batch * prefill / output_tokens
    return Throughput(batch / tpot, batch, tpot)
