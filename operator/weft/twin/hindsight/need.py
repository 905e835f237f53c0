"""The replicas that a trace keeps busy in each bin, known in hindsight: a fluid need, in fractions of a replica.

The need is the work of a bin in seconds of one replica, over the bin's length, by the simulation's true step times:
- a prompt takes its tokens, except those that a cache without evictions would have, in steps of the best size;
- a token takes its share of a decode step of the largest batch that TPOT, the seats and the KV memory allow.

Nothing is lost to queues, to steps that are not full, to uneven routing or to prompts that are computed again, so real
replicas do at most that much. Work falls into the bin where it is done if answers are as slow as TPOT allows, which
makes peaks as flat as waiting for tokens can; prompts fall into the bin in which they arrive, though TTFT would let
them wait. That, and bins in which load is not even, are why peaks shorter than a bin or than TTFT are only near the
truth; work of longer ones is never overstated, and neither is that of all bins together. Which of it may be left undone
is not told here but in `weft.twin.hindsight.oracle`, where requests of one bin are alike.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from weft.domain.workload import Slo
    from weft.twin.engine.speed import EngineSpeed

    Column = NDArray[np.float64]

_CONTEXTS = 200  # points between which the time of a prompt token is interpolated
_HALVINGS = 10  # step sizes that are tried for prompts, from the largest one down


@dataclass(frozen=True, slots=True, eq=False)
class TraceDemand:
    """What a trace asks for, as columns with one value for each bin of `bin_seconds`.

    `requests` arrive in the bin with `inputs` prompt tokens, of which `computed` are in no cache; `decoded` counts
    tokens generated in it after the first one of each answer; `context` is the mean number of tokens that one of them
    reads, and `held` the part of it that it shares with no other sequence.
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
    """How decode batches are filled: a token may take `tpot_seconds`, of which prompts on the same replica take none.

    With `interrupted` they do: each sequence waits while prompts are computed. This is no bound, since bursts of
    prompts may interrupt fewer sequences, but nearer to what replicas do.
    """

    tpot_seconds: float = math.inf
    interrupted: bool = False


def demand(trace: Trace, bin_seconds: float, token_seconds: float = 0.0) -> TraceDemand:
    """Sum requests and tokens by bin until the last arrival; an answer's tokens come `token_seconds` apart.

    Tokens generated after the last bin are left out. Raises `ValueError` unless bins have a positive length.
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
    return TraceDemand(
        bin_seconds=bin_seconds,
        requests=_binned(where, np.ones(len(trace)), bins),
        inputs=_binned(where, trace.inputs.astype(np.float64), bins),
        computed=_binned(where, trace.inputs - cached, bins),
        decoded=decoded,
        context=np.maximum(1.0, read / every),
        held=np.maximum(1.0, held / every),
    )


def _binned(where: NDArray[np.intp], values: Column, bins: int) -> Column:
    """Sum values by bin."""
    return np.bincount(where, values, bins).astype(np.float64)


def _done_by(edges: Column, begins: Column, lasts: Column, work: Column) -> Column:
    """Return how much of each row of `work` is done by each edge, if work is done evenly while it lasts."""
    at_once = lasts <= 0.0
    pace = np.divide(work, lasts, out=np.zeros_like(work), where=~at_once)
    done = _summed(edges, begins[at_once], work[:, at_once])
    for moments, paces in ((begins, pace), (begins + lasts, -pace)):
        begun, since = np.split(_summed(edges, moments, np.concatenate([paces, paces * moments])), 2)
        done += edges * begun - since
    return np.maximum.accumulate(done, axis=1)


def _summed(edges: Column, moments: Column, rows: Column) -> Column:
    """Sum each row over the moments before each edge."""
    order = np.argsort(moments, kind="stable")
    sums = np.cumsum(np.pad(rows[:, order], ((0, 0), (1, 0))), axis=1)
    return np.asarray(sums[:, np.searchsorted(moments[order], edges)])


def cached_tokens(trace: Trace) -> Column:
    """Count for each prompt the tokens in a cache that all replicas share and that evicts nothing."""
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
    """Return the trace with requests that are too long for the engines replaced by ones of one token in and out.

    `speeds` are those of the engines through which a request goes: all but the last one generate one token.
    """
    kept = ~too_long(trace, speeds)
    if kept.all():
        return trace
    inputs, outputs = (np.where(kept, column, np.int32(1)) for column in (trace.inputs, trace.outputs))
    blocks = tuple(each if stays else () for each, stays in zip(trace.blocks, kept.tolist(), strict=False))
    return Trace(trace.arrivals, inputs, outputs, blocks, trace.block_tokens)


def too_long(trace: Trace, speeds: Sequence[EngineSpeed]) -> NDArray[np.bool_]:
    """Return for each request whether one of the engines that it goes through refuses it for its length."""
    found = np.zeros(len(trace), dtype=np.bool_)
    for place, speed in enumerate(speeds):
        tokens = trace.inputs.astype(np.int64) + (trace.outputs if place == len(speeds) - 1 else 1)
        found |= tokens > most_tokens(speed)
    return found


def most_tokens(speed: EngineSpeed) -> float:
    """Return the most tokens of prompt plus answer: by the model's context, and by what fits into an empty engine."""
    return min(speed.context_tokens or math.inf, speed.kv_blocks * speed.block_tokens + 1)


def prompt_seconds(trace: Trace, speed: EngineSpeed, bin_seconds: float) -> Column:
    """Return the seconds of one replica that the prompts arriving in each bin take."""
    where = (trace.arrivals // bin_seconds).astype(np.intp)
    return _binned(where, _each_prompt(trace, speed), int(trace.seconds // bin_seconds) + 1)


def _each_prompt(trace: Trace, speed: EngineSpeed) -> Column:
    """Return the seconds of one replica that each prompt takes."""
    cached = cached_tokens(trace)
    return (trace.inputs - cached) * _over_contexts((cached + trace.inputs) / 2.0, partial(_token_seconds, speed))


def _over_contexts(lengths: Column, seconds: Callable[[float], float]) -> Column:
    """Interpolate seconds at many lengths from those at a few."""
    contexts = np.geomspace(1.0, max(2.0, float(lengths.max())), _CONTEXTS)
    return np.interp(lengths, contexts, [seconds(context) for context in contexts.tolist()])


def _token_seconds(speed: EngineSpeed, context: float) -> float:
    """Return the seconds of one prompt token in a step of the best size; a decode step pays for the launch."""
    sizes = {max(1, speed.batched_tokens >> halving) for halving in range(_HALVINGS)}
    return min((speed.steps.prompts(size, context) - speed.steps.launch_seconds) / size for size in sizes)


def decode_seconds(wanted: TraceDemand, speed: EngineSpeed, batching: Batching, prompts: Column) -> Column:
    """Return the seconds of one replica for the tokens decoded in each bin, beside `prompts` seconds of prompts."""
    delays = np.divide(prompts, wanted.decoded, out=np.zeros_like(prompts), where=wanted.decoded > 0.0)
    delays *= batching.interrupted
    seconds = np.zeros_like(prompts)
    for at in np.flatnonzero(wanted.decoded).tolist():
        context, most = float(wanted.context[at]), _fitting(speed, float(wanted.held[at]))
        size = _batch(speed, context, most, (batching.tpot_seconds, float(delays[at])))
        seconds[at] = wanted.decoded[at] * speed.steps.batch(size).at(context) / size
    return seconds


def _fitting(speed: EngineSpeed, held: float) -> int:
    """Count the sequences for which there are seats and memory, at least one."""
    return max(1, min(speed.max_batch, int(speed.kv_tokens / held)))


def _batch(speed: EngineSpeed, context: float, most: int, target: tuple[float, float]) -> int:
    """Return the largest batch that meets `target`: a TPOT, and by how much prompts delay each token per sequence.

    Where even one sequence misses it, no number of replicas helps: then the target limits nothing.
    """
    tpot, delay = target

    def is_late(size: int) -> bool:
        return speed.steps.batch(size).at(context) + size * delay > tpot

    return bisect_right(range(1, most + 1), 0, key=is_late) or most


def attainable(trace: Trace, speed: EngineSpeed, slo: Slo) -> float:
    """Return the fraction of requests that meet the SLO alone on a replica: no number of replicas reaches more.

    Each request is held against the targets of the highest percentiles. An answer of one token has no TPOT.
    """
    tpot = _over_contexts(trace.inputs + trace.outputs / 2.0, speed.steps.batch(1).at)
    in_time = _each_prompt(trace, speed) + speed.request_seconds <= _strictest(slo.ttft)
    return float(np.mean(in_time & ((trace.outputs == 1) | (tpot <= _strictest(slo.tpot)))))


def replicas_needed(
    trace: Trace, speed: EngineSpeed, slo: Slo, bin_seconds: float, *, interrupted: bool = False
) -> Column:
    """Return the replicas for prompts and answers together, by bin, with fractions; `interrupted` as in `Batching`."""
    batching = Batching(_strictest(slo.tpot), interrupted)
    wanted, prompts = _wanted(trace, slo, bin_seconds), prompt_seconds(trace, speed, bin_seconds)
    return (prompts + decode_seconds(wanted, speed, batching, prompts)) / bin_seconds


def split_needed(
    trace: Trace, prefill: EngineSpeed, decode: EngineSpeed, slo: Slo, bin_seconds: float
) -> tuple[Column, Column]:
    """Return the replicas of both pools of a split by bin; decode also needs enough links to transfer the KV."""
    wanted, prompts = _wanted(trace, slo, bin_seconds), prompt_seconds(trace, prefill, bin_seconds)
    decoding = decode_seconds(wanted, decode, Batching(_strictest(slo.tpot)), np.zeros_like(prompts))
    links = wanted.computed * decode.transfer_seconds_per_token
    return prompts / bin_seconds, np.maximum(decoding, links) / bin_seconds


def _wanted(trace: Trace, slo: Slo, bin_seconds: float) -> TraceDemand:
    """Return the demand if answers come as slowly as the SLO allows."""
    tpot = _strictest(slo.tpot)
    return demand(trace, bin_seconds, tpot if math.isfinite(tpot) else 0.0)


def _strictest(targets: tuple[tuple[int, float], ...]) -> float:
    """Return the seconds that each request is held against: the target of the highest percentile, or infinity."""
    return targets[-1][1] if targets else math.inf
