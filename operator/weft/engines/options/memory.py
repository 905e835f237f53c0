"""Device memory that a user's own arguments leave to the KV cache, which plans count on like batches (ADR 0047).

Read from vLLM's package 0.32.0 (`v1/worker/gpu_worker.py`, `v1/core/kv_cache_utils.py`): a number of blocks goes before
one of bytes, and both before the fraction, of which neither takes notice. SGLang (`_apply_token_constraints`) takes its
number of tokens as a limit to what the fraction leaves. Each data-parallel rank has so much. TensorRT-LLM's fraction
is Weft's to set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.shape import EngineName
from weft.engines.options.given import number_above_zero, said

if TYPE_CHECKING:
    from weft.catalog import Efficiency
    from weft.domain.shape import Shape

Arguments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryOption:
    """An option about memory; `telling` is the longest beginning of it that other options share."""

    name: str
    telling: str

    def value(self, args: Arguments) -> str:
        """What it says, empty if it is not given."""
        return said(args, self.name, len(self.telling))


_BLOCKS = MemoryOption("--num-gpu-blocks-override", "--num-")
_BLOCK_TOKENS = MemoryOption("--block-size", "--b")
_BYTES = MemoryOption("--kv-cache-memory-bytes", "--kv-cache-me")
_TOKENS = MemoryOption("--max-total-tokens", "--max-t")
_FRACTIONS = {
    EngineName.VLLM: (
        MemoryOption("--gpu-memory-utilization", "--g"),
        MemoryOption("--device-memory-utilization", "--device-"),
    ),
    EngineName.SGLang: (MemoryOption("--mem-fraction-static", "--me"),),
}
_COUNTS = {EngineName.VLLM: (_BLOCKS, _BYTES), EngineName.SGLang: (_TOKENS,)}  # in the order in which they count


def with_memory_told(efficiency: Efficiency, args: Arguments, shape: Shape) -> Efficiency:
    """Coefficients with what a user says of memory; what cannot be read counts as not said (`memory_conflict`)."""
    blocks, size = (number_above_zero(option.value(args)) for option in (_BLOCKS, _BLOCK_TOKENS))
    told, tokens = number_above_zero(_BYTES.value(args)), number_above_zero(_TOKENS.value(args))
    if shape.engine is EngineName.VLLM and blocks and size:
        kept = (blocks - 1) * size * shape.decode_context_parallel  # one block is never used
        return replace(efficiency, memory_fraction=1.0, kv_tokens=float(kept))
    if shape.engine is EngineName.VLLM and told:
        return replace(efficiency, memory_fraction=1.0, kv_bytes=float(told))
    fractions = (_fraction(option.value(args)) for option in _FRACTIONS.get(shape.engine, ()))
    fraction = next((each for each in fractions if each is not None), efficiency.memory_fraction)
    limit = float(tokens) if shape.engine is EngineName.SGLang and tokens else math.inf
    return replace(efficiency, memory_fraction=fraction, kv_tokens=limit)


def memory_conflict(args: Arguments, engine: EngineName) -> str | None:
    """Why a plan could not count what arguments say of memory, as text after `engine.args`, or None."""
    for option in _FRACTIONS.get(engine, ()):
        value = option.value(args)
        if value and _fraction(value) is None:
            return f"{option.name} {value:.60} is no part of a GPU's memory; allowed: above 0 and up to 1"
    for option in _COUNTS.get(engine, ()):
        if (value := option.value(args)) and number_above_zero(value) is None:
            return f"{option.name} needs a number above 0"
    if engine is EngineName.VLLM and _BLOCKS.value(args) and number_above_zero(_BLOCK_TOKENS.value(args)) is None:
        return f"{_BLOCKS.name} needs {_BLOCK_TOKENS.name} beside it, as blocks differ in tokens; or use {_BYTES.name}"
    return None


def told_in_tokens(args: Arguments, engine: EngineName) -> tuple[str, str] | None:
    """The option that gives the KV cache in tokens, or blocks of them, and the one that gives it in bytes; or None."""
    if engine is EngineName.VLLM and _BLOCKS.value(args):
        return _BLOCKS.name, _BYTES.name
    if engine is EngineName.SGLang and _TOKENS.value(args):
        return _TOKENS.name, _FRACTIONS[engine][0].name
    return None


def said_of_memory(args: Arguments, engine: EngineName) -> str:
    """The option that decides how much the KV cache may take, with its value; empty if none does."""
    options = (*_COUNTS.get(engine, ()), *_FRACTIONS.get(engine, ()))
    return next((f"{option.name} {value:.60}" for option in options if (value := option.value(args))), "")


def _fraction(text: str) -> float | None:
    """A part of the whole as Python reads it, None for anything else."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0.0 < found <= 1.0 else None
