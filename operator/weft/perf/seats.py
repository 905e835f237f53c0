"""How many requests a replica runs at once: what memory holds and the engine admits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.perf.memory import sequences_that_fit

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel

_KEPT_OF_OUTPUT = 0.6  # of an answer, in the memory of a running request: they are of all ages, and the old need more


def seats(replica: ReplicaModel, input_tokens: float, output_tokens: float) -> float:
    """Requests on all ranks; at least one per rank, whatever its memory is thought to be."""
    ranks = replica.shape.data_parallel
    room = sequences_that_fit(replica, input_tokens + _KEPT_OF_OUTPUT * output_tokens)
    return float(min(max(ranks, room), int(replica.efficiency.sequences) * ranks))
