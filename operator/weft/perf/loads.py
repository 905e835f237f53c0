"""The load of a rank: the requests a second that keep a batch, beside prompts that share steps and take time from all.

Little's law: B sequences on a rank mean rate x (steps x t_decode(B+1) + backlog + B x t_prefill) = B, since a sequence
meets B others, prompts take time from all, and one that starts behind a queue of prompts waits for them first. The
first token comes with the prompt, so that an answer takes one step less than it has tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from weft.domain.values.remembered import LastAnswers
from weft.perf.backlog import AnswerPace, RankLoad, backlog, balanced_rate
from weft.perf.balance import agreed
from weft.perf.latency import apart
from weft.perf.outgrown import NEVER, GraphRoom, Outgrown, StepPace, fitting, outgrown
from weft.perf.queueing import Moments
from weft.perf.sharing import Company, for_one_more, prompts_of_a_step

if TYPE_CHECKING:
    from weft.perf.prompts import Prompts
    from weft.perf.stages import Stages
    from weft.perf.wandering import Wandering
    from weft.perf.work import Workshop

_NONE = Moments(0.0, 0.0, 0.0)
_MOST = 0.5  # of prompts: where more outgrow a graph alone, a batch beside them changes little
_NO_TIME = 1e-9  # the least fraction of time that prompts leave to decode
_REMEMBERED = 128  # loads: a search looks at about twenty, and other targets at the idle and the full one again


class _Taken(NamedTuple):
    """The time that prompts take from decode: of GPUs that work on them, and with what these wait for launches.

    One `waits` for so many seconds on average, or for as many `within` the bounds of a mean step.
    """

    stolen: Moments
    held: Moments
    waits: float
    within: float


class _Step(NamedTuple):
    """A mean step: prompts that come in it, its seconds without them, and the bounds of those with them."""

    came: float
    seconds: float
    least: float
    most: float


@dataclass(frozen=True)
class Loads:
    """Loads of one rank of a replica that computes prompts and makes answers.

    `prompts` are the costs when all ranks have a prompt at once, and `lone` those when one rank of a group in lockstep
    has. `burstiness` is the squared variation of the time between arrivals less 1.
    """

    work: Workshop
    prompts: Prompts
    lone: Prompts | None
    burstiness: float
    known: LastAnswers[tuple[float, float], RankLoad] = field(
        default_factory=lambda: LastAnswers(_REMEMBERED), compare=False, repr=False
    )

    def at(self, batch: float, steps: float, whole: float, wandering: Wandering | None = None) -> RankLoad:
        """The load of `batch` sequences, whose answers take `steps` steps of `whole` seconds each without prompts.

        Where a batch wanders, launches take what time its rate leaves.
        """
        return self.known.ask(
            (batch, wandering), (steps, whole), lambda answer: self._balanced(batch, *answer, wandering)
        )

    def looked_at(self, batch: float, steps: float, whole: float) -> RankLoad:
        """The load of a batch that does not wander, for who looks how far it does: it asks for no batch twice."""
        return self._balanced(batch, steps, whole, None)

    def _balanced(self, batch: float, steps: float, whole: float, wandering: Wandering | None) -> RankLoad:
        pause, answer = whole * -math.expm1(-batch), (steps, whole)
        step = _Step(
            batch / steps, whole, *(wandering.bounds(batch, steps) if wandering is not None else (0.0, math.inf))
        )
        most = batch * pause / (steps * whole)
        first = self._sharing(most)
        launches = self._launches(batch, step, first[1].once) if whole < self.prompts.host else NEVER
        waits = self._waits(first[0], launches, whole) if launches.part else _NONE

        def with_company(came: float) -> tuple[float, tuple[float, Company, _Taken, AnswerPace]]:
            fewest, longest = first if came == most else self._sharing(came)
            taken = self._taken(waits, longest, step)
            pace = self._pace(answer, fewest, came, taken)
            if self._stages.count == 1.0:
                rate = balanced_rate(batch, lambda _: (longest, pace), self.burstiness)
                return _came(rate, pause, taken), (rate, fewest, taken, pace)

            def at(rate: float) -> tuple[Company, _Taken, AnswerPace]:
                company = self._beside(fewest, rate, pause)
                if company == fewest and not launches.part:
                    return fewest, taken, pace
                stolen = longest if company == fewest else self._stolen(company)
                held = self._taken(self._waits(company, launches, whole) if launches.part else _NONE, stolen, step)
                return company, held, self._pace(answer, company, came, held)

            def paced(rate: float) -> tuple[Moments, AnswerPace]:
                _, held, pace = at(rate)
                return held.stolen, pace

            rate = balanced_rate(batch, paced, self.burstiness)
            found = at(rate)
            return _came(rate, pause, found[1]), (rate, *found)

        rate, company, taken, pace = agreed(with_company, most)
        launches = self._taking(launches, taken, step) if taken.waits else NEVER
        left = backlog(rate, taken.stolen, pace, self.burstiness)
        return RankLoad(rate, company, taken.stolen, taken.held, launches, pace, left)

    def _pace(self, answer: tuple[float, float], company: Company, came: float, taken: _Taken) -> AnswerPace:
        """The pace of an `answer` (steps, and seconds of each) beside prompts, of which `came` arrive per step."""
        (steps, whole), once, lean = answer, taken.held.once, self._lean / company.beside
        more = lean + (once - lean) * for_one_more(came / self._stages.count) if lean < once else once
        full = max(self._full, self.prompts.host - whole if taken.waits else 0.0)
        return AnswerPace(steps, whole, full, more, self._room, taken.held.mean - taken.stolen.mean)

    @cached_property
    def _lean(self) -> float:
        """Seconds of a mean prompt in full steps."""
        return sum(kind.weight * kind.shared for kind in self.prompts.kinds)

    @cached_property
    def _full(self) -> float:
        """Seconds of the prompts that fill a step."""
        return self._lean * self.prompts.per_step * self._stages.count / self._stages.even

    @cached_property
    def _room(self) -> float:
        """The part of one prompt more that finds room in a step with another."""
        return min(1.0, max(0.0, self.prompts.per_step - 1.0))

    def _company(self, came: float) -> Company:
        """The prompts that share steps when `came` arrive per round (or microbatch), whatever else lengthens rounds."""
        came /= self._stages.count
        sharing = prompts_of_a_step(came, self.prompts.per_step)
        chance = came * self.prompts.steps / sharing
        company = Company(sharing, 1.0, self.work.ranks_together(chance))
        if self._stages.count == 1.0:
            return company
        return company._replace(beside=self._stages.beside(chance * self._stages.count * self._times(company)))

    def _beside(self, company: Company, rate: float, pause: float) -> Company:
        """The company where prompts arrive at random, so that a pipeline works on more of them at a time.

        Prompts lengthen the rounds in which others join them: averaged over many rounds there would be fewer together.
        """
        steps = rate * self._times(company) * self.prompts.steps / company.sharing
        beside = self._stages.beside_at_random(steps, pause, self._apart)
        return company._replace(beside=max(company.beside, beside))

    def _times(self, company: Company) -> float:
        """Steps with prompts that delay a rank, per own such step: in lockstep, those of other ranks count too."""
        return 1.0 if self.lone is None else self.work.ranks / company.together

    def _sharing(self, came: float) -> tuple[Company, Moments]:
        """The company of prompts of which `came` arrive per round, and the time that one takes from decode."""
        company = self._company(came)
        return company, self._stolen(company)

    def _stolen(self, company: Company) -> Moments:
        """The time that a prompt, and those of other ranks with it, takes from decode."""
        cost = self.cost(company, 0.0)
        return cost if self.lone is None else cost.met(self._times(company))

    @property
    def can_outgrow(self) -> bool:
        """Whether most prompts fit a graph alone, but may outgrow it together."""
        return self.prompts.host > 0.0 and self._graphed > _MOST

    @cached_property
    def _graphed(self) -> float:
        """The part of prompts that a graph holds alone."""
        return sum(kind.weight for kind in self.prompts.graphed)

    def _launches(self, batch: float, step: _Step, each: float) -> Outgrown:
        """The steps that outgrow a graph. By Little's law, as many prompts come in one as answers end.

        GPUs work on a prompt for `each` seconds.
        """
        stages = self._stages.count
        came = step.came / stages
        launch = max(self.prompts.host, step.seconds + came * each)
        return outgrown(self._fitting(batch / stages), StepPace(came, step.seconds, launch, each * self._graphed))

    def _fitting(self, batch: float) -> GraphRoom:
        """How many prompts fit a graph beside a batch; ranks in lockstep all wait for one launch."""
        ranks = 1.0 if self.lone is None else self.work.ranks
        return fitting(self.prompts.lengths, self.work.graph_tokens * self.work.prompt_groups, batch, ranks)

    def _taken(self, waits: Moments, stolen: Moments, step: _Step) -> _Taken:
        """What prompts take from decode, where all that share a step may wait together for its launch."""
        whole = waits.mean
        if not whole:
            return _Taken(stolen, stolen, 0.0, 0.0)
        if not step.least and step.most == math.inf:
            return _Taken(stolen, stolen.plus(waits), whole, whole)
        least, most = (max(0.0, (each - step.seconds) / step.came - stolen.mean) for each in (step.least, step.most))
        taken = min(most, max(least, whole))
        return _Taken(stolen, stolen.plus(_NONE.towards(waits, taken / whole)), whole, taken)

    def _taking(self, launches: Outgrown, taken: _Taken, step: _Step) -> Outgrown:
        """Launched steps as many and as long as they have to be for what GPUs wait for them."""
        longer = step.came * max(taken.within, taken.waits / launches.part)
        beyond, part = longer + launches.sharing * taken.stolen.mean, step.came * taken.within / longer
        alone = 1.0 - self._graphed
        singly = alone if self.lone is None else 0.0
        return Outgrown(
            part, launches.sharing, launches.joining, launches.joins, launches.lasts, longer, beyond, alone, singly
        )

    def _waits(self, company: Company, launches: Outgrown, step_seconds: float) -> Moments:
        """The time for which GPUs wait for launches, by prompt."""
        times, joining = self._times(company), 0.0
        if self._graphed:
            joining = max(0.0, launches.joining - (1.0 - self._graphed)) / self._graphed
        asked = (max(1.0, min(launches.sharing, self.prompts.per_step) * times), step_seconds, company.beside, joining)
        waits = self.prompts.waits(*asked)
        if self.lone is None:
            return waits
        return self.lone.waits(*asked).towards(waits, self._met(company)).met(times)

    def cost(self, company: Company, pause: float) -> Moments:
        """The time of a prompt's own steps; expert work in them grows with the number of ranks that have a prompt."""
        everywhere = self.prompts.service(company.sharing, pause, company.beside)
        if self.lone is None:
            return everywhere
        return self.lone.service(company.sharing, pause, company.beside).towards(everywhere, self._met(company))

    def own(self, load: RankLoad, pause: float) -> tuple[float, float, tuple[tuple[int, float], ...]]:
        """Mean, variance and percentiles of a prompt's own time, with what it waits for launches beside others.

        The variance is without those waits, which end with the next launch.
        """
        mean, variance, long = self.prompts.own(pause)
        if self.lone is not None:
            part, (least, steadiest, shortest) = self._met(load.company), self.lone.own(pause)
            long = tuple((at, low + part * (high - low)) for (at, low), (_, high) in zip(shortest, long, strict=True))
            mean, variance = least + part * (mean - least), steadiest + part * (variance - steadiest)
        if not load.launches.part:
            return mean, variance, long
        waits = load.launches.waits(pause)
        whole = mean + waits.mean
        return (
            whole,
            variance,
            tuple((at, whole + apart(each - mean, waits.at(at) - waits.mean)) for at, each in long),
        )

    def _met(self, company: Company) -> float:
        """How many other ranks have a prompt, from none (0) to all of them (1)."""
        return (company.together - 1.0) / (self.work.ranks - 1.0)

    @cached_property
    def _apart(self) -> float:
        """Service seconds of a mean prompt that has its steps for itself."""
        return self.prompts.service(1.0, 0.0, 1.0).mean

    @property
    def _stages(self) -> Stages:
        return self.work.stages


def _came(rate: float, pause: float, taken: _Taken) -> float:
    """The prompts that arrive in a step, which is as much longer than the `pause` as they take."""
    return rate * pause / max(_NO_TIME, 1.0 - rate * taken.held.mean)
