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
from weft.engines.options.given import given, number_above_zero, spelled_out

if TYPE_CHECKING:
    from weft.catalog import Efficiency
    from weft.domain.shape import Shape

Arguments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryOption:
    """An option about memory; `telling` is the longest beginning of it that other options share.

    `takes_units` is whether its number may end with the letter of a unit, as in 25G. `may_be_none` is whether the
    engine takes `None`, or nothing behind `=`, for not said (`optional_type` in vLLM's `engine/arg_utils.py`).
    """

    name: str
    telling: str
    takes_units: bool = False
    may_be_none: bool = False

    def value(self, args: Arguments) -> str:
        """What it says, empty if it says nothing or is not given."""
        found = given(self._whole(args), self.name)
        return "" if found == "None" and self.may_be_none else found

    def number(self, args: Arguments) -> int | None:
        """The number above zero that it says; None for anything else, and if it is not given."""
        text = self.value(args)
        return number_above_zero(text) if self.takes_units or text.isdecimal() else None

    def last(self, args: Arguments) -> int:
        """The place where it is given last, -1 if it is not."""
        names = [argument.partition("=")[0].replace("_", "-") for argument in self._whole(args)]
        return max((place for place, name in enumerate(names) if name == self.name), default=-1)

    def is_given(self, args: Arguments) -> bool:
        """Whether the engine looks for a value of it, which may be missing."""
        return bool(self.value(args)) or (self.last(args) >= 0 and not self.may_be_none)

    def said(self, args: Arguments) -> str:
        """The option with its value; empty if it is not given."""
        value = self.value(args)
        return f"{self.name} {value:.60}" if value else ""

    def _whole(self, args: Arguments) -> Arguments:
        return spelled_out(args, self.name, len(self.telling))


_BLOCKS = MemoryOption("--num-gpu-blocks-override", "--num-", may_be_none=True)
_BLOCK_TOKENS = MemoryOption("--block-size", "--b")
_BYTES = MemoryOption("--kv-cache-memory-bytes", "--kv-cache-me", takes_units=True, may_be_none=True)
_TOKENS = MemoryOption("--max-total-tokens", "--max-t")
_FRACTIONS = {  # names of one and the same value: the last one counts
    EngineName.VLLM: (
        MemoryOption("--gpu-memory-utilization", "--g"),
        MemoryOption("--device-memory-utilization", "--device-"),
    ),
    EngineName.SGLang: (MemoryOption("--mem-fraction-static", "--me"),),
}
_COUNTS = {EngineName.VLLM: (_BLOCKS, _BYTES), EngineName.SGLang: (_TOKENS,)}  # in the order in which they count
_PART = "part of a GPU's memory"
_UNITS = ", which may end with k, m, g or t for thousands or K, M, G or T for 1024s"


def with_memory_told(efficiency: Efficiency, args: Arguments, shape: Shape) -> Efficiency:
    """Coefficients with what a user says of memory; what cannot be read counts as not said (`memory_conflict`)."""
    blocks, size, told, tokens = (option.number(args) for option in (_BLOCKS, _BLOCK_TOKENS, _BYTES, _TOKENS))
    if shape.engine is EngineName.VLLM and blocks and size:
        kept = (blocks - 1) * size * shape.decode_context_parallel  # one block is never used
        return replace(efficiency, memory_fraction=1.0, kv_tokens=float(kept))
    if shape.engine is EngineName.VLLM and told:
        return replace(efficiency, memory_fraction=1.0, kv_bytes=float(told))
    option = _fraction_option(args, shape.engine)
    fraction = _fraction(option.value(args)) if option is not None else None
    limit = float(tokens) if shape.engine is EngineName.SGLang and tokens else math.inf
    return replace(efficiency, memory_fraction=fraction or efficiency.memory_fraction, kv_tokens=limit)


def memory_conflict(args: Arguments, engine: EngineName) -> str | None:
    """Why a plan could not count what arguments say of memory, as text after `engine.args`, or None."""
    for option in _FRACTIONS.get(engine, ()):
        if option.is_given(args) and _fraction(value := option.value(args)) is None:
            return f"{_misses(option, value, _PART)}; allowed: above 0 and up to 1"
    for option in _COUNTS.get(engine, ()):
        if option.is_given(args) and option.number(args) is None:
            units = _UNITS if option.takes_units else ""
            return f"{_misses(option, option.value(args), 'whole number above 0')}; allowed: digits alone{units}"
    if engine is EngineName.VLLM and _BLOCKS.value(args) and _BLOCK_TOKENS.number(args) is None:
        return f"{_BLOCKS.name} needs {_BLOCK_TOKENS.name} beside it, as blocks differ in tokens; or use {_BYTES.name}"
    return None


def told_in_tokens(args: Arguments, engine: EngineName) -> tuple[str, str] | None:
    """The option that gives the KV cache in tokens, or blocks of them, and the one that gives it in bytes; or None."""
    if engine is EngineName.VLLM and _BLOCKS.value(args):
        return _BLOCKS.name, _BYTES.name
    if engine is EngineName.SGLang and _TOKENS.value(args):
        return _TOKENS.name, _FRACTIONS[engine][0].name
    return None


def said_of_size(args: Arguments, engine: EngineName) -> str:
    """The option that gives the size of the KV cache, with its value; empty if none does."""
    return next((said for option in _COUNTS.get(engine, ()) if (said := option.said(args))), "")


def said_of_memory(args: Arguments, engine: EngineName) -> str:
    """The options that decide how much the KV cache may take, with their values; empty if none does."""
    size, option = said_of_size(args, engine), _fraction_option(args, engine)
    fraction = option.said(args) if option is not None else ""
    if engine is EngineName.VLLM:
        return size or fraction
    return " and ".join(filter(None, (size, fraction)))


def _fraction_option(args: Arguments, engine: EngineName) -> MemoryOption | None:
    return max(_FRACTIONS.get(engine, ()), key=lambda option: option.last(args), default=None)


def _misses(option: MemoryOption, value: str, wanted: str) -> str:
    """What is wrong with an option whose value is none that it may have; `true` is what no value is looked up as."""
    return f"{option.name} has no value" if value in {"", "true"} else f"{option.name} {value:.60} is no {wanted}"


def _fraction(text: str) -> float | None:
    """A part of the whole as Python reads it, None for anything else."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0.0 < found <= 1.0 else None
