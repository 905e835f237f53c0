"""Steps that outgrow a captured graph, by what they decode beside all prompts in them: the host launches them.

Steps are a chain of two states, replayed and launched. In a launched one, which takes as long as the host does, more
prompts come, so that the next outgrows the graph more likely. At a given batch the chain has one stationary state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.perf.lengths import Lengths

_NEVER, _HARDLY = 1e-9, 1e-4  # chances that are treated as none (once in months), and that hardly take any time
_MOST_PROMPTS = 100  # in a step: more are treated as too many
_TOO_MANY = 600.0  # prompts that come in a step: hundreds more than ever fit
_ROUNDS, _CLOSE, _LONGEST = 40, 3e-4, 1.0 - 1e-6


class Outgrown(NamedTuple):
    """The `part` of steps that are launched, prompts of one (`sharing`), and the part of prompts in any (`joining`).

    Of those that come in a replayed and in a launched step, the parts `joins` are in a launched one. `lasts` is the
    correlation of a step with the next one, in whether it is launched. Such steps take `longer` seconds than what GPUs
    compute in them, and `beyond` seconds more than decode alone. The part `alone` of prompts outgrows a graph without
    others, and `singly` of them do while no other ranks are held up.
    """

    part: float
    sharing: float
    joining: float
    joins: tuple[float, float]
    lasts: float
    longer: float = 0.0
    beyond: float = 0.0
    alone: float = 1.0
    singly: float = 1.0

    def variance(self, steps: float) -> float:
        """Of the mean of so many steps in a row, in s^2: the chain returns to its mean by a factor `lasts` a step."""
        once, kept = self.part * (1.0 - self.part) * self.beyond**2, max(0.0, self.lasts)
        apart = 1.0 - kept
        return once / steps * ((1.0 + kept) / apart - 2.0 * kept * (1.0 - math.pow(kept, steps)) / (steps * apart**2))

    def waits(self, step: float) -> LaunchWait:
        """What a prompt waits for launches: for the rest of the one that it comes in, if any, and for its own.

        Beyond what it waits for in any step of `step` seconds, and those that outgrow a graph alone for their own.
        """
        met = self.part * (step + self.longer) / (step + self.part * self.longer)
        short, long = (max(0.0, each - self.alone) for each in self.joins)
        return LaunchWait(self.longer, (1.0 - met) * short, met * (1.0 - long), met * long)


class LaunchWait(NamedTuple):
    """A wait for launches of `each` seconds, and parts of prompts that wait for theirs, for a rest, and for both."""

    each: float
    own: float
    rest: float
    both: float

    @property
    def mean(self) -> float:
        """Mean seconds."""
        return self.each * (self.own + self.rest / 2.0 + 1.5 * self.both)

    def at(self, percentile: int) -> float:
        """Seconds within which so many percent of prompts stay: of a rest, any part is equally likely."""
        beyond = self.own + self.rest + self.both - (1.0 - percentile / 100.0)
        if beyond <= 0.0:
            return 0.0
        if beyond < self.rest:
            return self.each * beyond / self.rest
        if beyond <= self.rest + self.own or not self.both:
            return self.each
        return self.each * (1.0 + (beyond - self.rest - self.own) / self.both)


NEVER = Outgrown(0.0, 1.0, 0.0, (0.0, 0.0), 0.0)


@made_often
@dataclass(frozen=True, slots=True)
class GraphRoom:
    """Chances that no, one, two, ... prompts fit a graph, in a step that decodes; more never do. On each of `ranks`.

    `terms` are those chances over the factorials of the numbers, of the most prompts first.
    """

    terms: tuple[float, ...]
    ranks: float

    def outgrows(self, came: float) -> float:
        """The chance that a step is too large, if as many prompts came at random in the last one, on average.

        Ranks in lockstep are launched together.
        """
        if came > _TOO_MANY:
            return 1.0
        fits = 0.0
        for term in self.terms:
            fits = fits * came + term
        fits *= math.exp(-came)
        return 1.0 - (fits if self.ranks == 1.0 else math.pow(fits, self.ranks))

    def joins(self, came: float) -> float:
        """The part of prompts that are in a step which is too large: one has as many others as come at random."""
        if came > _TOO_MANY:
            return 1.0
        fits = slope = 0.0
        for term in self.terms:
            slope = slope * came + fits
            fits = fits * came + term
        once = math.exp(-came)
        return 1.0 - once * (slope if self.ranks == 1.0 else slope * math.pow(once * fits, self.ranks - 1.0))


class StepPace(NamedTuple):
    """The prompts that come in a mean step, and seconds: of a step without any, of a launched one, and of a prompt."""

    came: float
    step: float
    launch: float
    prompt: float


def fitting(prompts: tuple[Lengths, float], room: float, batch: float, ranks: float) -> GraphRoom:
    """The prompts (lengths, and the part that is computed) that fit `room` tokens beside `batch` sequences on average.

    Tokens of several prompts are taken for log-normal, and the batch for a Poisson number. That gives a few prompts too
    long a tail: they fit at least as likely as more do.
    """
    inputs, new = prompts
    rare, mean = (0.0 if inputs.rare is None else inputs.rare[0]), max(1.0, inputs.usual * new)
    spread, left, chances = mean * mean * math.expm1(inputs.deviation**2), room - batch, [1.0]
    while chances[-1] > _HARDLY and len(chances) <= _MOST_PROMPTS and left > 0.0:
        number = len(chances)
        narrow = max(_NEVER, math.log1p((number * spread + batch) / (number * mean) ** 2))
        beyond = (math.log(number * mean / left) - narrow / 2.0) / math.sqrt(2.0 * narrow)
        chances.append(0.5 * math.erfc(beyond) * (1.0 - rare) ** number)
    chances = [*accumulate(reversed(chances), max)][::-1]
    terms, every = [1.0], 1.0
    for number in range(1, len(chances)):
        every *= number
        terms.append(chances[number] / every)
    return GraphRoom(tuple(reversed(terms)), ranks)


def outgrown(fits: GraphRoom, pace: StepPace) -> Outgrown:
    """The stationary state of the chain at a pace: as many prompts come in a mean step, whatever steps take."""
    high = _following(fits, pace, 0.0)
    if high < _NEVER:
        return NEVER
    part = _balanced(fits, pace, high) if high > _HARDLY else high
    short, long = _coming(pace, part)
    joins = fits.joins(short), fits.joins(long)
    joining = ((1.0 - part) * short * joins[0] + part * long * joins[1]) / pace.came
    lasts = min(_LONGEST, fits.outgrows(long) - fits.outgrows(short))
    return Outgrown(part, pace.came * joining / part, joining, joins, lasts)


def _coming(pace: StepPace, part: float) -> tuple[float, float]:
    """Prompts that come in a replayed step and in a launched one, of which there is such a part."""
    came, step, launch, prompt = pace
    rate = came / ((1.0 - part) * (step + came * prompt) + part * launch)
    return rate * min(launch, step / (1.0 - rate * prompt)), rate * launch


def _following(fits: GraphRoom, pace: StepPace, part: float) -> float:
    """The part of steps that are launched, if as many prompts come in steps as where `part` of them are.

    The more are launched, the fewer come in each.
    """
    short, long = _coming(pace, part)
    begins = fits.outgrows(short)
    return begins / (begins + 1.0 - fits.outgrows(long)) if begins > _NEVER else 0.0


def _balanced(fits: GraphRoom, pace: StepPace, high: float) -> float:
    """The part that agrees with what follows from it, up to `high`.

    By false position; an end that stays twice in a row counts half (Illinois).
    """
    low, under, over, part, side = 0.0, high, _following(fits, pace, high) - high, high, 0
    for _ in range(_ROUNDS):
        part = low + (high - low) * min(1.0 - _CLOSE, max(_CLOSE, under / (under - over)))
        found = _following(fits, pace, part) - part
        if abs(found) < _CLOSE * part:
            break
        if found > 0.0:
            low, under, over, side = part, found, over / 2.0 if side > 0 else over, 1
        else:
            high, over, under, side = part, found, under / 2.0 if side < 0 else under, -1
    return part
