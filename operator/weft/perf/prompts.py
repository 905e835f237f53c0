"""The cost of prompts to one data-parallel rank, over the distribution of their lengths.

A prompt alone in a step pays for reading all weights; prompts that share a step share that cost. The launch of a step
is counted with its decode, unless nothing decodes. Where GPUs wait for the host to launch a prompt, its own first token
does, and so does decode; no queue of prompts does: whoever comes meanwhile shares the next step, launched once.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from weft.perf.latency import PERCENTILES
from weft.perf.queueing import Moments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.perf.lengths import Lengths
    from weft.perf.stages import Stages
    from weft.perf.steps import Stepper, StepTime

_MOST_CACHED = 1.0 - 1e-6


class _Prompt(NamedTuple):
    """Prompts of one length: weight, seconds in steps of its own and in full ones, own launch seconds, and steps.

    `beyond` are the seconds of each step beyond the full ones, and `waits` those in which all of its own wait for the
    host.
    """

    weight: float
    alone: float
    shared: float
    launch: float
    steps: int
    full_steps: float
    beyond: float
    waits: float


class _Way(NamedTuple):
    """Prompts of one length: weight, seconds of their steps through the pipeline, and how many of these also decode."""

    weight: float
    seconds: float
    decodes: float


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of one workload: `per_step` mean prompts fill a step, and `mean` is the step time of a mean one.

    `steps` is the mean number of steps of a prompt alone, and `host` the seconds for which the host launches one that
    no graph holds; `launched` are those that it launches even alone, at more lengths than `kinds` has, as graphs end at
    one, and `graphed` the others. `lengths` are those of prompts, and the part of them that is computed. `ways` has the
    time of each length alone, and `long` that at each percentile of length.
    """

    kinds: tuple[_Prompt, ...]
    ways: tuple[_Way, ...]
    per_step: float
    mean: StepTime
    long: tuple[tuple[int, float, float], ...]
    steps: float
    host: float
    launched: tuple[_Prompt, ...]
    graphed: tuple[_Prompt, ...]
    lengths: tuple[Lengths, float]
    passed_by: float = math.inf

    def service(self, sharing: float, decode_seconds: float, beside: float) -> Moments:
        """Moments of a prompt's service seconds when `sharing` prompts share a step, each step with its part of decode.

        A pipeline works on `beside` prompts at a time. Behind a prompt that takes longer than `passed_by` seconds, only
        the arrivals of that time queue: then the replica has as many requests as others, and a front sends it no more.
        """
        first = second = third = 0.0
        for kind in self.kinds:
            steps = kind.steps / sharing
            cost = kind.shared + (steps - kind.full_steps) * kind.beyond if steps > kind.full_steps else kind.shared
            taken = (cost + decode_seconds * kind.full_steps) / beside
            queued = kind.weight * min(taken, self.passed_by) * taken
            first += kind.weight * taken
            second += queued
            third += queued * taken
        return Moments(first, second, third)

    def waits(self, sharing: float, decode_seconds: float, beside: float, joining: float) -> Moments:
        """What is added to the moments of `service` if GPUs wait until the host has launched each step.

        All `sharing` prompts of a step, which also decodes for `decode_seconds`, wait together. Of prompts that a graph
        holds alone, the fraction `joining` is in such a step. The more share one, the less its length varies.
        """
        taken, mean, parts, most = list[tuple[float, float, float]](), 0.0, 0.0, self.host - decode_seconds
        for kinds, part in ((self.launched, 1.0), (self.graphed, joining)) if joining else ((self.launched, 1.0),):
            for likely, _, shared, _, count, full, beyond, _ in kinds:
                steps, weight = count / sharing, part * likely
                cost = shared + (steps - full) * beyond if steps > full else shared
                lack = steps * most - cost
                taken.append((weight, cost, lack))
                mean, parts = mean + weight * lack, parts + weight
        mean, apart = mean / parts if parts else 0.0, 1.0 / math.sqrt(max(1.0, sharing))
        first = second = third = 0.0
        for weight, cost, lack in taken:
            if (waits := mean + apart * (lack - mean)) > 0.0:
                bare, held = cost / beside, (cost + waits) / beside
                first += weight * (held - bare)
                second += weight * (held**2 - bare**2)
                third += weight * (held**3 - bare**3)
        return Moments(first, second, third)

    def own(self, decode_seconds: float) -> tuple[float, float, tuple[tuple[int, float], ...]]:
        """A prompt's own time in its steps, in seconds: mean, variance, and percentiles.

        Each step but the last, which is counted elsewhere, also decodes.
        """
        times = [(weight, seconds + steps * decode_seconds) for weight, seconds, steps in self.ways]
        mean = sum([weight * seconds for weight, seconds in times])
        square = sum([weight * seconds * seconds for weight, seconds in times])
        long = tuple([(at, seconds + steps * decode_seconds) for at, seconds, steps in self.long])
        return mean, max(0.0, square - mean * mean), long


def prompts(
    steps: Stepper, inputs: Lengths, prefix_hit: float, together: float | None = None, beside: float = 0.0
) -> Prompts:
    """Costs of prompts of which the fraction `prefix_hit` is in the prefix cache; at least one token is computed.

    `together` data-parallel ranks (None: all) have a prompt at the same time. Steps decode for `beside` seconds, which
    are counted elsewhere.
    """
    budget, hit = steps.replica.efficiency.batched_tokens, min(prefix_hit, _MOST_CACHED)
    kinds = []
    for weight, tokens in inputs.points:
        new = max(1.0, tokens * (1.0 - hit))
        cached, count = new * hit / (1.0 - hit), math.ceil(new / budget)
        alone, shared = (steps.prefill(new, cached, each, together, beside) for each in (count, new / budget))
        kinds.append(_prompt(weight, alone, shared, count, new / budget))
    new = max(1.0, inputs.mean * (1.0 - hit))
    mean = steps.prefill(new, new * hit / (1.0 - hit), new / budget, together, beside)
    stages = steps.work.stages
    ways = tuple(
        _Way(kind.weight, *_through(stages, kind.alone + kind.launch + kind.waits, kind.full_steps)) for kind in kinds
    )
    long = tuple(
        (at, *_through(stages, alone, full)) for at, alone, full in _long(steps, inputs, hit, together, beside)
    )
    taken = sum(kind.weight * kind.steps for kind in kinds)
    host = steps.host_seconds
    fits = steps.work.graph_tokens * steps.work.prompt_groups / budget
    apart = list(_apart(kinds, [each * (1.0 - hit) / budget for each in inputs.alike])) if host else []
    launched = tuple(each for each in apart if each.full_steps > each.steps * fits)
    graphed = tuple(each for each in apart if each.full_steps <= each.steps * fits)
    return Prompts(tuple(kinds), ways, budget / new, mean, long, taken, host, launched, graphed, (inputs, 1.0 - hit))


def _through(stages: Stages, seconds: float, full_steps: float) -> tuple[float, float]:
    """(seconds, steps that also decode) of one prompt with so many full steps through a pipeline.

    Engines fill steps: the last one has what is left, and no prompt is cut evenly to be sooner through the stages.
    """
    return stages.way(full_steps) * seconds, (math.ceil(full_steps) - 1) / stages.even


def _prompt(weight: float, alone: StepTime, shared: StepTime, count: int, full: float) -> _Prompt:
    own, least = (each.seconds - each.launch - each.waits for each in (alone, shared))
    beyond = (own - least) / (count - full) if count > full else 0.0
    return _Prompt(weight, own, least, alone.launch, count, full, beyond, alone.waits)


def _apart(kinds: list[_Prompt], full_steps: list[float]) -> Iterator[_Prompt]:
    """Yield prompts of equally likely lengths in full steps (or of `kinds`, if all are alike).

    What prompts between two `kinds` take is between what those do.
    """
    if not full_steps:
        yield from kinds
    known = [kind.full_steps for kind in kinds]
    for full in full_steps:
        place = min(max(1, bisect_left(known, full)), len(known) - 1)
        low, high = kinds[place - 1], kinds[place]
        part = (full - low.full_steps) / (high.full_steps - low.full_steps) if high.full_steps > low.full_steps else 0.0
        shared, beyond = low.shared + part * (high.shared - low.shared), low.beyond + part * (high.beyond - low.beyond)
        weight = 1.0 / len(full_steps)
        yield _Prompt(weight, low.alone, shared, low.launch, math.ceil(full), full, beyond, low.waits)


def _long(
    steps: Stepper, inputs: Lengths, hit: float, together: float | None, beside: float
) -> Iterator[tuple[int, float, float]]:
    """Yield (percentile, seconds, full steps) of prompts at percentiles of length; all equal if there is one."""
    alike: tuple[float, float] | None = None
    for percentile in PERCENTILES:
        if alike is None or len(inputs.points) > 1:
            new = max(1.0, inputs.at(percentile) * (1.0 - hit))
            full = new / steps.replica.efficiency.batched_tokens
            alike = steps.prefill(new, new * hit / (1.0 - hit), math.ceil(full), together, beside).seconds, full
        yield percentile, *alike
