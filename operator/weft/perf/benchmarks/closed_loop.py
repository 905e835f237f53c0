"""What a benchmark at fixed concurrency measures: every user sends the next request when the last one is answered.

Most published measurements are of this kind. TPOT is a decode step at the batch that memory allows, plus the prefills
of the others, which take time from it: t_decode + (B-1)/OSL x t_prefill. B/OSL prompts come in a step, and share the
next. TTFT is the prompt's own time after those of the users that ask at the same moment: with lengths that differ
little, users stay synchronised and part of them asks at once; up to eight, of equal lengths, come in consecutive steps.
In the first round all users ask at the same moment and are answered in full steps, one after the other: what is fitted
has that in a tenth of its requests, as both of its sources ask ten times. A mean over fewer rounds has more of it, one
over more has less, and a loop that is measured once it has settled has none.
Users beyond the number of seats wait for one: Little's law. Where answers are so short that more prompts come in a step
than it has room for, they queue for their first token, and steps are full: what the others take is then part of TTFT.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.perf.benchmarks.seats import seats
from weft.perf.sharing import prompts_of_a_step
from weft.perf.steps import bubble_seconds, decode_seconds, larger, prefill_seconds
from weft.perf.work import workshop

if TYPE_CHECKING:
    from weft.catalog import Efficiency
    from weft.perf.replica import ReplicaModel
    from weft.perf.steps import Seconds
    from weft.perf.work import Work

# Requests of a user in InferenceX (`--num-prompts` of its scripts) and in aiconfigurator's sweeps (`--request-count` of
# `eval/benchmarks/genai_perf_runner.py`): how often the rows that are fitted ask
USUAL_ROUNDS = 10.0
_USUAL_FIRSTS = 1.0 / USUAL_ROUNDS
_AT_ONCE_WHEN_EQUAL = 8.0  # users who still ask at the same time when all lengths are equal


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Users of one replica. Lengths are mean tokens; `equal_lengths` if no request differs from another.

    The engine polls for new requests once in `looks_every` decode steps. Latencies are means over `rounds` requests of
    each user, all of whom begin at once (infinite: over requests that come once the loop has settled).
    """

    users: float
    input_tokens: float
    output_tokens: float
    equal_lengths: bool
    looks_every: float = 1.0
    rounds: float = USUAL_ROUNDS


@dataclass(frozen=True, slots=True)
class ClosedLoopWork:
    """All that the prediction needs but efficiency: `running` of all `users` hold a seat, on `ranks` ranks.

    Work of a prompt: `prefill` at the average sharing of steps, `alone` in steps of its own, which take the fraction
    `way` of their sum through a pipeline. A pipeline works on `beside` prompts at a time at this arrival pattern, and
    on `stages` at most; `at_once` prompts come before one at the same time to the same stage. Ranks go in lockstep,
    `together` of them with a prompt. The engine polls for requests every `looks_every` steps. `decoding` of those
    with a seat are past their prompt at a time: no more prompts have room in the steps of an answer. Of prompts that
    all come at once and fill steps, `queued` each, the mean one is answered after `first` others. `firsts` is the first
    round's part of all requests.
    """

    decode: Work
    prefill: Work
    alone: Work
    queued: Work
    way: float
    users: float
    running: float
    ranks: float
    together: float
    beside: float
    stages: float
    output_tokens: float
    at_once: float
    first: float
    firsts: float
    looks_every: float
    decoding: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """Mean TTFT and TPOT in seconds."""

    ttft: float
    tpot: float


def closed_loop_work(replica: ReplicaModel, load: ClosedLoop) -> ClosedLoopWork:
    """The work of prefill and decode steps at the batch that has seats."""
    work, ranks = workshop(replica), float(replica.shape.data_parallel)
    stages = work.stages
    running = min(load.users, seats(replica, load.input_tokens, load.output_tokens))
    at_once = min(max(1.0, running / ranks / stages.count), _AT_ONCE_WHEN_EQUAL)
    came, full = running / ranks / load.output_tokens, load.input_tokens / replica.efficiency.batched_tokens
    own = math.ceil(full)
    sharing = prompts_of_a_step(came / stages.count, 1.0 / full)
    together = work.ranks_together(came * own / stages.count / sharing)
    decoding = running / max(1.0, came * full / stages.even)
    return ClosedLoopWork(
        decode=work.decode(decoding, load.input_tokens + load.output_tokens / 2.0),
        prefill=work.prefill(load.input_tokens, 0.0, max(full, own / sharing), together),
        alone=work.prefill(load.input_tokens, 0.0, own, together),
        queued=work.prefill(load.input_tokens, 0.0, full),
        way=stages.way(own),
        users=load.users,
        running=running,
        ranks=ranks,
        together=together,
        beside=stages.beside(came * own / sharing),
        stages=stages.even,
        output_tokens=load.output_tokens,
        at_once=(at_once - 1.0) / 2.0 if load.equal_lengths else 0.0,
        first=_answered_before(running / ranks / stages.even, 1.0 / full),
        firsts=1.0 / load.rounds,
        looks_every=load.looks_every,
        decoding=decoding,
    )


def _answered_before(prompts: float, per_step: float) -> float:
    """How many of so many prompts at once the mean one is answered after, if `per_step` fill a step and end with it."""
    return max(0.0, min(prompts, (prompts + max(1.0, per_step)) / 2.0) - 1.0)


def closed_loop_latencies(work: ClosedLoopWork, efficiency: Efficiency) -> Latencies:
    """TTFT and TPOT; plain arithmetic, so that it also works on arrays of many rows."""
    step_parts = decode_seconds(work.decode, efficiency)
    step = sum(step_parts) + bubble_seconds(work.decode, step_parts, efficiency)
    alone = prefill_seconds(work.alone, efficiency, step)
    prompt = _besides_launch(prefill_seconds(work.prefill, efficiency, step))
    admitted = work.decoding / work.running
    others = (work.running - 1.0) * prompt / (work.together * work.beside)
    tpot = step + admitted * others / work.output_tokens
    queue = (1.0 - admitted) * others + (1.0 / admitted - 1.0) * work.output_tokens * step
    looked = step * (1.0 + work.looks_every) / 2.0
    own = efficiency.request_seconds + looked + work.way * sum(alone) + admitted * _waiting(work, efficiency, step)
    ttft = larger(own, efficiency.request_seconds + tpot) + queue  # no first token comes before the end of its step
    rounds = work.users / work.running - 1.0
    return Latencies(ttft + rounds * (ttft + work.output_tokens * tpot), tpot)


def _waiting(work: ClosedLoopWork, efficiency: Efficiency, step: float) -> float:
    """Seconds that the mean prompt waits for those that come with it.

    Who waits behind a prompt that the host launches waits for all of its step, also for what that decodes meanwhile.
    What is fitted is of the usual number of rounds: it dwindles with more of them, and with fewer there is more of the
    first one.
    """
    before, behind = (_besides_launch(prefill_seconds(each, efficiency)) for each in (work.alone, work.prefill))
    in_step = work.at_once * efficiency.equal_at_once * before
    at_once = efficiency.at_once * work.running / work.ranks / work.stages * behind
    first = work.first * (sum(prefill_seconds(work.queued, efficiency)) + work.queued.steps * step)
    more = larger(work.firsts - _USUAL_FIRSTS, 0.0)
    fewer = larger(_USUAL_FIRSTS - work.firsts, 0.0)
    return in_step + (1.0 - fewer / _USUAL_FIRSTS) * at_once + more * larger(first - in_step, 0.0)


def _besides_launch(parts: Seconds) -> float:
    """All seconds of a prompt but its launch, which decode has already."""
    return sum(parts) - parts.launch
