"""Whether weights and one sequence fit into the memory of each GPU, and how much is missing otherwise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.domain.model import GroupedAttention
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName
from weft.domain.texts.units import GIB
from weft.engines.options.memory import memory_conflict, said_of_memory, said_of_size, told_in_tokens
from weft.perf import footprint, most_kv_bytes, sequence_bytes_per_gpu

if TYPE_CHECKING:
    from weft.shaping.case import ShapeCase

OF_MEMORY = frozenset({Reason.OutOfMemory, Reason.NoRoomForKV})


def the_users_memory_can_be_counted(case: ShapeCase) -> Explanation | None:
    """None where plans can count what the user's arguments give the KV cache, else which of them they cannot."""
    args, engine = case.request.spec.engine.args, case.option.shape.engine
    if not args or case.option.shape.accelerator == "cpu":
        return None
    why = memory_conflict(args, engine)
    in_tokens = told_in_tokens(args, engine)
    if why is None and in_tokens is not None and not _keeps_each_token_alike(case):
        name, instead = in_tokens
        model = case.request.architecture.model_id
        why = f"{name} cannot be counted for {model}, whose layers keep the KV of a token in other ways; use {instead}"
    return Explanation(Reason.ArgumentConflict, f"spec.engine.args {why}") if why is not None else None


def the_users_kv_cache_holds_a_sequence(case: ShapeCase) -> Explanation | None:
    """None where the size of the KV cache that arguments set holds the longest sequence and fits the GPU."""
    if not case.request.spec.engine.args:
        return None
    replica, context = case.replica, case.request.target_context_tokens
    told, needed = most_kv_bytes(replica), sequence_bytes_per_gpu(replica, context)
    if math.isinf(told):
        return None
    size = said_of_size(case.request.spec.engine.args, case.option.shape.engine)
    option, tokens = f"spec.engine.args {size}", replica.efficiency.kv_tokens
    if told < needed:
        in_bytes = math.isinf(tokens)
        left = f"{_gib(told)} of KV cache on each GPU" if in_bytes else f"a KV cache of {tokens:.0f} tokens"
        lacks = f"needs {_gib(needed)}" if in_bytes else "does not fit"
        return Explanation(
            Reason.ArgumentConflict, f"{option} leaves {left}, and a sequence of {context:.0f} tokens {lacks}"
        )
    weights, room = footprint(replica).weight_bytes, replica.memory_bytes - footprint(replica).weight_bytes
    if case.option.shape.engine is not EngineName.VLLM or told <= room or needed > room:
        return None
    return Explanation(
        Reason.ArgumentConflict,
        f"{option} takes {_gib(told)} of each GPU for the KV cache beside {_gib(weights)} of weights; allowed: less "
        f"than {_gib(room)}",
    )


def weights_fit(case: ShapeCase) -> Explanation | None:
    """None where weights fit on each GPU beside what the engine reserves, else why not."""
    memory = footprint(case.replica)
    if memory.room_bytes > 0:
        return None
    return Explanation(
        Reason.OutOfMemory,
        f"weights take {_gib(memory.weight_bytes)} of each GPU, and {_gib(memory.usable_bytes - memory.reserve_bytes)} "
        f"can be used{with_what_is_said(case)}",
    )


def one_sequence_fits_beside_them(case: ShapeCase) -> Explanation | None:
    """None where the KV cache of a sequence of the target context fits beside the weights, else why not."""
    replica, context = case.replica, case.request.target_context_tokens
    room, needed = footprint(replica).room_bytes, sequence_bytes_per_gpu(replica, context)
    if needed <= room:
        return None
    return Explanation(
        Reason.NoRoomForKV,
        f"a sequence of {context:.0f} tokens needs {_gib(needed)} of KV cache on each GPU, and {_gib(room)} is left"
        f"{with_what_is_said(case)}",
    )


def missing_bytes(case: ShapeCase) -> float:
    """Bytes that each GPU lacks for the weights and one sequence; for shapes that only memory rules out."""
    replica = case.replica
    return sequence_bytes_per_gpu(replica, case.request.target_context_tokens) - footprint(replica).room_bytes


def with_what_is_said(case: ShapeCase) -> str:
    """The option by which there is so much memory, to end a sentence with; empty if the user set none."""
    on_cpu = case.option.shape.accelerator == "cpu"
    said = "" if on_cpu else said_of_memory(case.request.spec.engine.args, case.option.shape.engine)
    return f" with spec.engine.args {said}" if said else ""


def _keeps_each_token_alike(case: ShapeCase) -> bool:
    """Whether every layer keeps all tokens, in blocks of the size that the user sets (vLLM sets that of latent KV)."""
    mixers = [block.mixer for block in case.request.architecture.blocks if block.mixer is not None]
    return all(isinstance(mixer, GroupedAttention) and mixer.window_tokens is None for mixer in mixers)


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.1f} GiB"
