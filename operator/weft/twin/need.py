"""How many replicas the traffic of a trace keeps busy, bin by bin, for who knows it all: a fluid need, with fractions.

It is the work of a bin in seconds of one replica, over the bin, from the steps that are true in the simulation:
- a prompt takes its tokens, without those that a cache which forgets nothing has, in steps of the best size;
- a token takes its part of a decode step of the largest batch that TPOT, the seats and the KV memory allow.

Nothing is lost to queues, to steps that are not full, to uneven routing or to prompts that are computed again, so real
replicas do at most that much. Work falls into the bin where it is done if answers are as slow as TPOT allows, which
makes peaks as flat as waiting for tokens can; prompts fall into the bin in which they arrive, though TTFT would let
them wait. That, and bins in which load is not even, are why peaks shorter than a bin or than TTFT are only near the
truth; work of longer ones is never overstated, and neither is that of all bins together. Which of it may be left undone
is not told here but in `weft.twin.oracle`, where requests of one bin are alike.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from weft.twin.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from weft.domain.workload import Slo
    from weft.twin.speed import EngineSpeed

    Column = NDArray[np.float64]

_CONTEXTS = 200  # points between which the time of a prompt's token is taken as straight
_HALVINGS = 10  # of the size of a step with prompts, from the largest allowed one


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """What a trace asks for, as columns with one value for each bin of `bin_seconds`.

    `requests` that arrive and their `inputs` in tokens, of which `computed` are in no cache; `decoded` tokens that are
    made there after the first one of each answer, the mean `context` in tokens that one of them reads, and what of
    it no other sequence `held` too.
    """

    bin_seconds: float
    requests: Column
    inputs: Column
    computed: Column
    decoded: Column
    context: Column
    held: Column


@dataclass(frozen=True, slots=True)
class Batching:
    """How decode batches are filled: `tpot_seconds` a token may take, of which prompts on the same replica take none.

    `interrupted`: they do, each sequence waits while prompts are computed. This is no bound, since bursts of prompts
    may interrupt fewer, but nearer to what replicas do.
    """

    tpot_seconds: float = math.inf
    interrupted: bool = False


def demand(trace: Trace, bin_seconds: float, token_seconds: float = 0.0) -> Demand:
    """Requests and tokens by bin until the last arrival; tokens of an answer are made so many seconds apart.

    What is made after the last bin is left out. Raises `ValueError` for bins without length.
    """
    if bin_seconds <= 0.0:
        raise ValueError("a bin has a length")
    bins = int(trace.seconds // bin_seconds) + 1
    where = (trace.arrivals // bin_seconds).astype(np.intp)
    cached, tokens = cached_tokens(trace), trace.outputs.astype(np.float64) - 1.0
    middle = (trace.inputs + trace.outputs / 2.0).astype(np.float64)
    edges = bin_seconds * np.arange(bins + 1.0)
    work = tokens * np.stack([np.ones(len(trace)), middle, middle - cached])
    decoded, read, held = np.diff(_done_by(edges, trace.arrivals, tokens * token_seconds, work))
    every = np.maximum(decoded, 1e-9)
    return Demand(
        bin_seconds=bin_seconds,
        requests=_binned(where, np.ones(len(trace)), bins),
        inputs=_binned(where, trace.inputs.astype(np.float64), bins),
        computed=_binned(where, trace.inputs - cached, bins),
        decoded=decoded,
        context=np.maximum(1.0, read / every),
        held=np.maximum(1.0, held / every),
    )


def _binned(where: NDArray[np.intp], values: Column, bins: int) -> Column:
    """Sums by bin."""
    return np.bincount(where, values, bins).astype(np.float64)


def _done_by(edges: Column, begins: Column, lasts: Column, work: Column) -> Column:
    """Rows of work, as far as done by each of some moments, if each column is done evenly over the time it lasts."""
    at_once = lasts <= 0.0
    pace = np.divide(work, lasts, out=np.zeros_like(work), where=~at_once)
    done = _summed(edges, begins[at_once], work[:, at_once])
    for moments, paces in ((begins, pace), (begins + lasts, -pace)):
        begun, since = np.split(_summed(edges, moments, np.concatenate([paces, paces * moments])), 2)
        done += edges * begun - since
    return np.maximum.accumulate(done, axis=1)


def _summed(edges: Column, moments: Column, rows: Column) -> Column:
    """Sums of each row over what comes before each edge."""
    order = np.argsort(moments, kind="stable")
    sums = np.cumsum(np.pad(rows[:, order], ((0, 0), (1, 0))), axis=1)
    return np.asarray(sums[:, np.searchsorted(moments[order], edges)])


def cached_tokens(trace: Trace) -> Column:
    """For each prompt the tokens that a cache would have which all replicas share and which forgets nothing."""
    if not trace.blocks:
        return np.zeros(len(trace))
    known: set[int] = set()
    found = np.zeros(len(trace))
    for row, (blocks, tokens) in enumerate(zip(trace.blocks, trace.inputs.tolist(), strict=True)):
        most = (tokens - 1) // trace.block_tokens  # the last token of a prompt is always computed
        hits = next((place for place, block in enumerate(blocks[:most]) if block not in known), len(blocks[:most]))
        found[row] = hits * trace.block_tokens
        known.update(blocks)
    return found


def answerable(trace: Trace, speeds: Sequence[EngineSpeed]) -> Trace:
    """The trace, where requests that the engines refuse, as they are too long for them, ask for one token instead.

    `speeds` are those of the engines through which a request goes: all but the last one are asked for one token.
    """
    kept = ~too_long(trace, speeds)
    if kept.all():
        return trace
    inputs, outputs = (np.where(kept, column, np.int32(1)) for column in (trace.inputs, trace.outputs))
    blocks = tuple(each if stays else () for each, stays in zip(trace.blocks, kept.tolist(), strict=False))
    return Trace(trace.arrivals, inputs, outputs, blocks, trace.block_tokens)


def too_long(trace: Trace, speeds: Sequence[EngineSpeed]) -> NDArray[np.bool_]:
    """For each request whether one of the engines through which it goes refuses it for its length."""
    found = np.zeros(len(trace), dtype=np.bool_)
    for place, speed in enumerate(speeds):
        tokens = trace.inputs.astype(np.int64) + (trace.outputs if place == len(speeds) - 1 else 1)
        found |= tokens > most_tokens(speed)
    return found


def most_tokens(speed: EngineSpeed) -> float:
    """What a request may have, prompt and answer together: its model's context, and what fits into an empty engine."""
    return min(speed.context_tokens or math.inf, speed.kv_blocks * speed.block_tokens + 1)


def prompt_seconds(trace: Trace, speed: EngineSpeed, bin_seconds: float) -> Column:
    """Seconds of one replica for the prompts that arrive in each bin."""
    where = (trace.arrivals // bin_seconds).astype(np.intp)
    return _binned(where, _each_prompt(trace, speed), int(trace.seconds // bin_seconds) + 1)


def _each_prompt(trace: Trace, speed: EngineSpeed) -> Column:
    """Seconds of one replica for each prompt."""
    cached = cached_tokens(trace)
    return (trace.inputs - cached) * _over_contexts((cached + trace.inputs) / 2.0, partial(_token_seconds, speed))


def _over_contexts(lengths: Column, seconds: Callable[[float], float]) -> Column:
    """Seconds at each of many lengths, from those at some of them."""
    contexts = np.geomspace(1.0, max(2.0, float(lengths.max())), _CONTEXTS)
    return np.interp(lengths, contexts, [seconds(context) for context in contexts.tolist()])


def _token_seconds(speed: EngineSpeed, context: float) -> float:
    """Of one prompt token in a step of the best size, whose launch a decode step pays."""
    sizes = {max(1, speed.batched_tokens >> halving) for halving in range(_HALVINGS)}
    return min((speed.steps.prompts(size, context) - speed.steps.launch_seconds) / size for size in sizes)


def decode_seconds(wanted: Demand, speed: EngineSpeed, batching: Batching, prompts: Column) -> Column:
    """Seconds of one replica for the tokens made in each bin, beside so many seconds of `prompts`."""
    delays = np.divide(prompts, wanted.decoded, out=np.zeros_like(prompts), where=wanted.decoded > 0.0)
    delays *= batching.interrupted
    seconds = np.zeros_like(prompts)
    for at in np.flatnonzero(wanted.decoded).tolist():
        context, most = float(wanted.context[at]), _fitting(speed, float(wanted.held[at]))
        size = _batch(speed, context, most, (batching.tpot_seconds, float(delays[at])))
        seconds[at] = wanted.decoded[at] * speed.steps.batch(size).at(context) / size
    return seconds


def _fitting(speed: EngineSpeed, held: float) -> int:
    """Sequences for which there are seats and memory, at least one."""
    return max(1, min(speed.max_batch, int(speed.kv_tokens / held)))


def _batch(speed: EngineSpeed, context: float, most: int, target: tuple[float, float]) -> int:
    """The largest batch within a target of TPOT, where prompts delay each token by so much for each sequence.

    Where even one sequence misses it no count of replicas helps, and it limits nothing.
    """
    tpot, delay = target

    def is_late(size: int) -> bool:
        return speed.steps.batch(size).at(context) + size * delay > tpot

    return bisect_right(range(1, most + 1), 0, key=is_late) or most


def attainable(trace: Trace, speed: EngineSpeed, slo: Slo) -> float:
    """The part of requests that would meet the SLO if each had a replica for itself: no count of replicas reaches more.

    Targets are those of the highest percentiles, which each is held against. An answer of one token has no TPOT.
    """
    tpot = _over_contexts(trace.inputs + trace.outputs / 2.0, speed.steps.batch(1).at)
    in_time = _each_prompt(trace, speed) + speed.request_seconds <= _strictest(slo.ttft)
    return float(np.mean(in_time & ((trace.outputs == 1) | (tpot <= _strictest(slo.tpot)))))


def replicas_needed(
    trace: Trace, speed: EngineSpeed, slo: Slo, bin_seconds: float, *, interrupted: bool = False
) -> Column:
    """Replicas that serve prompts and answers, by bin, with fractions; see `Batching` for `interrupted`."""
    batching = Batching(_strictest(slo.tpot), interrupted)
    wanted, prompts = _wanted(trace, slo, bin_seconds), prompt_seconds(trace, speed, bin_seconds)
    return (prompts + decode_seconds(wanted, speed, batching, prompts)) / bin_seconds


def split_needed(
    trace: Trace, prefill: EngineSpeed, decode: EngineSpeed, slo: Slo, bin_seconds: float
) -> tuple[Column, Column]:
    """Replicas of both pools of a split by bin; those that decode also need the links that bring them their KV."""
    wanted, prompts = _wanted(trace, slo, bin_seconds), prompt_seconds(trace, prefill, bin_seconds)
    decoding = decode_seconds(wanted, decode, Batching(_strictest(slo.tpot)), np.zeros_like(prompts))
    links = wanted.computed * decode.transfer_seconds_per_token
    return prompts / bin_seconds, np.maximum(decoding, links) / bin_seconds


def _wanted(trace: Trace, slo: Slo, bin_seconds: float) -> Demand:
    """As slow as allowed."""
    tpot = _strictest(slo.tpot)
    return demand(trace, bin_seconds, tpot if math.isfinite(tpot) else 0.0)


def _strictest(targets: tuple[tuple[int, float], ...]) -> float:
    """Seconds that each request is held against: those of the highest percentile."""
    return targets[-1][1] if targets else math.inf
