"""Whether weights and one sequence fit into the memory of each GPU, and how much is missing otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.units import GIB
from weft.perf import footprint, sequence_bytes_per_gpu

if TYPE_CHECKING:
    from weft.shaping.case import ShapeCase

OF_MEMORY = frozenset({Reason.OutOfMemory, Reason.NoRoomForKV})


def weights_fit(case: ShapeCase) -> Explanation | None:
    """None where weights fit on each GPU beside what the engine reserves, else why not."""
    memory = footprint(case.replica)
    if memory.room_bytes > 0:
        return None
    return Explanation(
        Reason.OutOfMemory,
        f"weights take {_gib(memory.weight_bytes)} of each GPU, and {_gib(memory.usable_bytes - memory.reserve_bytes)} "
        "can be used",
    )


def one_sequence_fits_beside_them(case: ShapeCase) -> Explanation | None:
    """None where the KV cache of a sequence of the target context fits beside the weights, else why not."""
    replica, context = case.replica, case.request.target_context_tokens
    room, needed = footprint(replica).room_bytes, sequence_bytes_per_gpu(replica, context)
    if needed <= room:
        return None
    return Explanation(
        Reason.NoRoomForKV,
        f"a sequence of {context:.0f} tokens needs {_gib(needed)} of KV cache on each GPU, and {_gib(room)} is left",
    )


def missing_bytes(case: ShapeCase) -> float:
    """Bytes that each GPU lacks for the weights and one sequence; for shapes that only memory rules out."""
    replica = case.replica
    return sequence_bytes_per_gpu(replica, case.request.target_context_tokens) - footprint(replica).room_bytes


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
