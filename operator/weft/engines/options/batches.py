"""Limits on one engine step: what the plan assumes, what the engine is told, and what the user overrides (ADR 0047)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.model import GroupedAttention, LatentAttention, LinearAttention
from weft.domain.shape import EngineName
from weft.engines.options.given import given, number_above_zero, said
from weft.engines.options.graphs import captured_tokens
from weft.engines.options.memory import with_memory_told
from weft.engines.terms.mixers import mixers_of

if TYPE_CHECKING:
    from weft.catalog import Efficiency
    from weft.domain.model import Mixer
    from weft.domain.shape import Shape
    from weft.domain.spec import EngineSpec
    from weft.engines.terms.launch import LaunchRequest

Arguments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Limits of one data-parallel rank: tokens in a step, and sequences that run at once."""

    tokens: int
    sequences: int


@dataclass(frozen=True, slots=True)
class _Options:
    """Names of the two options that set a `Batch`; some engines count all data-parallel ranks together."""

    tokens: str
    sequences: str
    of_all_ranks: bool = False


_OPTIONS = {
    EngineName.VLLM: _Options("--max-num-batched-tokens", "--max-num-seqs"),
    EngineName.SGLang: _Options("--chunked-prefill-size", "--max-running-requests", of_all_ranks=True),
    EngineName.TensorRTLLM: _Options("--max_num_tokens", "--max_batch_size"),
}
_ZERO = re.compile(r"0+[kmgtKMGT]?", re.ASCII)
_TELLING = len("--max-num-")  # the common beginning of several options of an engine


def counted_on(efficiency: Efficiency, engine: EngineSpec, shape: Shape) -> Efficiency:
    """An engine's coefficients with the user's own batch limits, graphs and memory in place of what Weft expects."""
    if not engine.args or shape.accelerator == "cpu":
        return efficiency
    found = _batch(engine.args, shape, Batch(int(efficiency.batched_tokens), int(efficiency.sequences)))
    told = replace(efficiency, batched_tokens=float(found.tokens), sequences=float(found.sequences))
    captured = captured_tokens(engine.args) if shape.engine is EngineName.VLLM else None
    if captured is not None:
        told = replace(told, graph_tokens=captured, graph_sequences=math.inf)
    told = with_memory_told(told, engine.args, shape)
    return efficiency if told == efficiency else told  # the same object, which compares quickly


def batch_arguments(request: LaunchRequest) -> Arguments:
    """Options for the limits that the plan assumes, unless the user sets them or the engine has to find them itself.

    They follow from the shape and the arguments alone, so that all replicas of a revision are alike. The limits assumed
    for CPUs are for tests, and the engine is not given them.
    """
    shape, args = request.plan.shape, request.spec.engine.args
    if request.on_cpu or _is_the_engines_matter(request):
        return ()
    constants, options = load().performance[shape.engine].constants, _OPTIONS[shape.engine]
    found = _batch(args, shape, Batch(int(constants["batched_tokens"]), int(constants["sequences"])))
    sequences = found.sequences * (shape.data_parallel if options.of_all_ranks else 1)
    return (
        *((options.tokens, str(found.tokens)) if _tells_tokens(request) else ()),
        *((options.sequences, str(sequences)) if _tells_sequences(request) else ()),
    )


def batch_conflict(args: tuple[str, ...]) -> str | None:
    """Why vLLM would not start, or None: a step needs at least one token per sequence."""
    options = _OPTIONS[EngineName.VLLM]
    tokens, sequences = _own(args, options.tokens), _own(args, options.sequences)
    if tokens is None or sequences is None or sequences <= tokens:
        return None
    return (
        f"spec.engine.args {options.sequences} {sequences} with {options.tokens} {tokens}: each running sequence has a "
        f"token in a step; allowed: {options.sequences} up to {tokens}"
    )


def empty_batch(args: tuple[str, ...], engine: EngineName) -> str | None:
    """The option with which no request would ever run, as it is given; None if none is. SGLang's chunks may be off."""
    options = _OPTIONS[engine]
    asked = (options.sequences,) if engine is EngineName.SGLang else (options.sequences, options.tokens)
    values = ((option, said(args, option, _TELLING)) for option in asked)
    return next((f"{option} {value}" for option, value in values if _ZERO.fullmatch(value)), None)


def _batch(args: tuple[str, ...], shape: Shape, planned: Batch) -> Batch:
    """The limits in effect: the user's if given. vLLM takes no more sequences than tokens, so one bounds the other."""
    options = _OPTIONS[shape.engine]
    ranks = shape.data_parallel if options.of_all_ranks else 1
    tokens, sequences = (_own(args, option) for option in (options.tokens, options.sequences))
    found = Batch(max(1, (tokens or 0) // ranks), max(1, (sequences or 0) // ranks))
    if shape.engine is EngineName.VLLM:
        planned = Batch(
            planned.tokens if sequences is None else max(planned.tokens, found.sequences),
            planned.sequences if tokens is None else min(planned.sequences, found.tokens),
        )
    return Batch(
        planned.tokens if tokens is None else found.tokens,
        planned.sequences if sequences is None else found.sequences,
    )


def _own(args: tuple[str, ...], option: str) -> int | None:
    """The user's number for an option; None if it is not given or is no number (an engine's own `-1`)."""
    return number_above_zero(said(args, option, _TELLING))


def _says(request: LaunchRequest, option: str) -> bool:
    return bool(said(request.spec.engine.args, option, _TELLING))


def _tells_tokens(request: LaunchRequest) -> bool:
    """Whether the engine is given the limit on tokens: not if the user sets it, nor in the two cases below.

    SGLang gathers the chunks of attention-DP ranks for its experts, and divides its own number by the ranks. vLLM
    must take the longest prompt in one step if chunked prefill is off, and knows how long that is.
    """
    shape, options = request.plan.shape, _OPTIONS[request.plan.shape.engine]
    if shape.engine is EngineName.VLLM and given(request.spec.engine.args, "--enable-chunked-prefill") == "false":
        return False
    gathered = options.of_all_ranks and shape.data_parallel > 1
    return not gathered and not _says(request, options.tokens)


def _tells_sequences(request: LaunchRequest) -> bool:
    """Whether the engine is given the limit on sequences, which is unsafe for models that keep a state per sequence.

    Engines reserve room for every sequence they are told of, or do not start. So does SGLang for sliding windows,
    and with drafts, where it takes 48 by itself. An unknown model may have either.
    """
    model, engine = request.spec.model, request.plan.shape.engine
    drafts = engine is EngineName.SGLang and request.spec.engine.speculative_json is not None
    if drafts or _says(request, _OPTIONS[engine].sequences):
        return False
    mixers, fits = mixers_of(model), _FITS.get(engine)
    return fits is None or (bool(mixers) and all(map(fits, mixers)))


def _grows(mixer: Mixer) -> bool:
    return not isinstance(mixer, LinearAttention)


def _grows_without_end(mixer: Mixer) -> bool:
    return isinstance(mixer, LatentAttention) or (isinstance(mixer, GroupedAttention) and mixer.window_tokens is None)


_FITS = {EngineName.VLLM: _grows, EngineName.SGLang: _grows_without_end}  # TensorRT-LLM is given its own default


def _is_the_engines_matter(request: LaunchRequest) -> bool:
    """Whether the user chose something for which vLLM picks batch limits of its own."""
    if request.plan.shape.engine is not EngineName.VLLM:
        return False
    backend = given(request.spec.engine.args, "--all2all-backend")
    backend = backend or dict(request.spec.engine.env).get("VLLM_ALL2ALL_BACKEND", "")
    return backend in _SMALL_STEPS or _says(request, "--performance-mode")


_SMALL_STEPS = frozenset({"deepep_low_latency", "nixl_ep"})  # with DP ranks and experts: 256 tokens, from 0.20 on
