"""How many requests a replica runs at once: what memory holds and the engine admits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.perf.memory import sequences_that_fit

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel

_KEPT_OF_OUTPUT = 0.6  # of an answer in the KV cache of a running request: ages are mixed, and older requests hold more


def seats(replica: ReplicaModel, input_tokens: float, output_tokens: float) -> float:
    """Concurrent requests on all ranks; at least one per rank, whatever the memory estimate says."""
    admitted = int(replica.efficiency.sequences) * replica.shape.data_parallel
    return min(_in_memory(replica, input_tokens + _KEPT_OF_OUTPUT * output_tokens), float(admitted))


def seats_together(replica: ReplicaModel, input_tokens: float, output_tokens: float) -> float:
    """Concurrent requests on all ranks if they start together, so that all are longest at the same time."""
    return _in_memory(replica, input_tokens + output_tokens)


def _in_memory(replica: ReplicaModel, tokens: float) -> float:
    return float(max(replica.shape.data_parallel, sequences_that_fit(replica, tokens)))
