"""One replica under open-loop load: latencies as distributions, at the batch that a request rate leads to.

Little's law ties the two: B sequences on a rank mean rate x (OSL x t_decode(B+1) + backlog + B x t_prefill) = B, since
a sequence meets B others, prompts take time from all, and one that starts behind a queue of prompts waits for them
first. Prompts queue per data-parallel rank; where ranks go in lockstep, those of one delay all others. Where prompts
queue, all stages of a pipeline have one; the time that they take from decode overlaps only as far as they come in the
same round (`stages`).

TPOT of a request varies with the batch during its life, and with the prompts that come in that time (a delayed busy
period: prompts that come while it is delayed delay it further). `tests/perf/test_percentiles.py` holds all of this
against a simulation step by step; `python -m bench percentiles` prints how far off it is.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.domain.made_often import made_often
from weft.domain.workload import Role
from weft.perf.backlog import RankLoad, backlog, balanced_rate, unheld
from weft.perf.balance import agreed
from weft.perf.handover import NO_LINK, handed_over_seconds, link
from weft.perf.latency import Latency, Waited
from weft.perf.lengths import Lengths, lengths, with_rare_ones
from weft.perf.memory import sequences_that_fit
from weft.perf.prompts import Prompts, prompts
from weft.perf.queueing import NO_WAIT, Moments, Wait, at_the_gate, for_a_seat, in_line
from weft.perf.sharing import Company, prompts_of_a_launch, prompts_of_a_step
from weft.perf.steps import Stepper, StepTime, stepper

if TYPE_CHECKING:
    from weft.domain.workload import Workload
    from weft.perf.handover import Link
    from weft.perf.replica import ReplicaModel
    from weft.perf.stages import Stages

_MOST_ROUNDS, _CLOSE = 60, 1e-3
_STEEPEST = 0.98  # growth of a step with its batch: beyond this, the batch would have no steady state
_NOTHING = Moments(0.0, 0.0, 0.0)
_NO_TIME = 1e-9  # the least fraction of time that prompts leave to decode


@made_often
@dataclass(frozen=True, slots=True)
class Point:
    """A replica at one load: requests a second, decoding sequences, step times, and latencies in seconds.

    `utilisation` is the fraction of a rank's time for prompts and the decode steps that they share, `sending` that of a
    half's links for KV.
    """

    rate: float
    batch: float
    decode: StepTime | None
    prefill: StepTime
    utilisation: float
    ttft: Waited
    tpot: Latency
    sending: float = 0.0


@dataclass(frozen=True)
class Service:
    """A replica as a server of one workload. `seats` are sequences on all ranks, by memory and by the engine.

    A replica that only prefills hands each prompt's KV over, which takes `handover_seconds`, and both halves have a
    `link` for it. `prompts` are the costs when all ranks have a prompt at once, and `lone` those when one rank of a
    group in lockstep has.
    """

    steps: Stepper
    role: Role
    inputs: Lengths
    outputs: Lengths
    prompts: Prompts
    lone: Prompts | None
    seats: int
    burstiness: float
    context_tokens: float
    handover_seconds: float = 0.0
    link: Link = NO_LINK
    known: dict[float, StepTime] = field(default_factory=dict, compare=False)

    @cached_property
    def apart(self) -> Moments:
        """Service time of a prompt that has its steps for itself."""
        return self.prompts.service(1.0, 0.0, 1.0)

    @cached_property
    def highest(self) -> float:
        """Requests a second of one rank with every seat taken."""
        full = self.seats / self._ranks
        return self._load(full, self._decode(full + 1.0)).rate

    @property
    def decodes(self) -> bool:
        """Whether answers are made here."""
        return self.role is not Role.Prefill

    @property
    def prefills(self) -> bool:
        """Whether prompts are computed here."""
        return self.role is not Role.Decode

    def at_batch(self, batch: float) -> Point:
        """The point at which so many sequences decode on average; raises `ValueError` if the replica only prefills."""
        if not self.decodes:
            raise ValueError("a replica that only prefills has no batch")
        ranks = self._ranks
        step = self._decode(batch / ranks + 1.0)
        load = self._load(batch / ranks, step)
        ttft, utilisation = self._ttft(load, batch, step.step_seconds)
        return Point(
            rate=load.rate * ranks,
            batch=batch,
            decode=step,
            prefill=self.prompts.mean,
            utilisation=utilisation,
            ttft=ttft,
            tpot=self._tpot(load, batch / ranks, step.seconds),
            sending=self.link.busy(load.rate),
        )

    def at_utilisation(self, utilisation: float) -> Point:
        """The point at which a replica that only prefills is busy for this fraction of its time."""
        service = self._prompts_apart()
        load = RankLoad(utilisation / service.mean, Company(1.0, 1.0, float(self._ranks)), service, service, NO_WAIT)
        ttft, _ = self._ttft(load, 0.0, 0.0)
        rate, sending = load.rate * self._ranks, self.link.busy(load.rate)
        return Point(rate, 0.0, None, self.prompts.mean, utilisation, ttft, Latency(0.0, 0.0), sending)

    def kv_at(self, point: Point) -> Waited:
        """The time of a KV transfer between the halves at a point, as far as it depends on this half's links."""
        return self.link.taken(point.rate / self._ranks)

    def at_rate(self, rate: float, close: float = _CLOSE) -> Point | None:
        """The point at so many requests a second, within the fraction `close` of it; None if that is too many.

        Of the replica, or of its links.
        """
        if self.link.busy(rate / self._ranks) >= 1.0:
            return None
        if not self.decodes:
            utilisation = rate / self._ranks * self._prompts_apart().mean
            return self.at_utilisation(utilisation) if utilisation < 1.0 else None
        if self.seats == 0 or self.highest * self._ranks < rate:
            return None
        return self.at_batch(self._batch_at(rate, close))

    def _batch_at(self, rate: float, close: float) -> float:
        """The batch at a rate: the rate is a concave function of the batch, so false position finds it."""
        low, high, ranks = (0.0, -rate), (float(self.seats), self.highest * self._ranks - rate), self._ranks
        for _ in range(_MOST_ROUNDS):
            batch = low[0] + (high[0] - low[0]) * min(0.9, max(1e-9, low[1] / (low[1] - high[1])))
            over = self._load(batch / ranks, self._decode(batch / ranks + 1.0)).rate * ranks - rate
            if abs(over) < close * rate:
                return batch
            if over < 0.0:
                low = (batch, over)
            else:
                high, low = (batch, over), (low[0], low[1] / 2.0)
        return high[0]

    @property
    def _ranks(self) -> int:
        return self.steps.replica.shape.data_parallel

    @property
    def _stages(self) -> Stages:
        return self.steps.work.stages

    def _decode(self, batch_of_rank: float) -> StepTime:
        found = self.known.get(batch_of_rank)
        if found is None:
            found = self.steps.decode(batch_of_rank * self._ranks, self.context_tokens)
            self.known[batch_of_rank] = found
        return found

    def _prompts_apart(self) -> Moments:
        """Service time of a prompt where nothing decodes: the launch is part of it."""
        kinds = self.prompts.kinds
        launch = sum(kind.weight * kind.launch for kind in kinds) / self._stages.even
        bare = self.prompts.service(1.0, 0.0, self._stages.even)
        grown = (bare.mean + launch) / bare.mean
        return Moments(bare.mean * grown, bare.square * grown**2, bare.cube * grown**3)

    def _load(self, batch: float, step: StepTime) -> RankLoad:
        """The requests a second that keep `batch` sequences of a rank busy, by Little's law."""
        answer, whole = max(1.0, self.outputs.mean) * step.seconds, step.step_seconds
        if not self.prefills:
            alone = Company(1.0, 1.0, float(self._ranks))
            return RankLoad(batch / answer, alone, _NOTHING, _NOTHING, NO_WAIT)
        pause = whole * -math.expm1(-batch)

        def with_company(came: float) -> tuple[float, tuple[float, Company, Moments, Moments]]:
            fewest = self._company(came)
            most_stolen = self._stolen(fewest)
            held = self._held(fewest, came, whole, most_stolen)
            life = answer + batch * (held.mean - most_stolen.mean)
            if self._stages.count == 1.0:
                rate = balanced_rate(batch, life, lambda _: most_stolen, whole, self.burstiness)
                return rate * pause / max(_NO_TIME, 1.0 - rate * held.mean), (rate, fewest, most_stolen, held)

            def at(rate: float) -> tuple[Company, Moments]:
                company = self._beside(fewest, rate, pause)
                return company, most_stolen if company == fewest else self._stolen(company)

            rate = balanced_rate(batch, life, lambda rate: at(rate)[1], whole, self.burstiness)
            company, stolen = at(rate)
            held = self._held(company, came, whole, stolen)
            return rate * pause / max(_NO_TIME, 1.0 - rate * held.mean), (rate, company, stolen, held)

        rate, company, stolen, held = agreed(with_company, batch * pause / answer)
        return RankLoad(rate, company, stolen, held, backlog(rate, stolen, whole, self.burstiness))

    def _company(self, came: float) -> Company:
        """The prompts that share steps when `came` arrive per round (or microbatch), whatever else lengthens rounds."""
        came /= self._stages.count
        sharing = prompts_of_a_step(came, self.prompts.per_step)
        chance = came * self.prompts.steps / sharing
        company = Company(sharing, 1.0, self.steps.work.ranks_together(chance))
        if self._stages.count == 1.0:
            return company
        return company._replace(beside=self._stages.beside(chance * self._stages.count * self._times(company)))

    def _beside(self, company: Company, rate: float, pause: float) -> Company:
        """The company where prompts arrive at random, so that a pipeline works on more of them at a time.

        Prompts lengthen the rounds in which others join them: averaged over many rounds there would be fewer together.
        """
        steps = rate * self._times(company) * self.prompts.steps / company.sharing
        beside = self._stages.beside_at_random(steps, pause, self.apart.mean)
        return company._replace(beside=max(company.beside, beside))

    def _times(self, company: Company) -> float:
        """Steps with prompts that delay a rank, per own such step: in lockstep, those of other ranks count too."""
        return 1.0 if self.lone is None else self._ranks / company.together

    def _stolen(self, company: Company) -> Moments:
        """The time that a prompt, and those of other ranks with it, takes from decode."""
        cost = self._cost(company, 0.0)
        return cost if self.lone is None else cost.met(self._times(company))

    def _held(self, company: Company, came: float, step_seconds: float, stolen: Moments) -> Moments:
        """What prompts take from decode, where all that share a step may wait together for its launch."""
        if self.prompts.host <= step_seconds:
            return stolen
        ranks = 1.0 if self.lone is None else float(self._ranks)  # in lockstep, all wait for one launch
        came, most = came * ranks / self._stages.count, self.prompts.per_step * ranks
        launched = prompts_of_a_launch(came, most, step_seconds, self.prompts.host)
        sharing = launched * self._times(company) / ranks
        asked = (max(company.sharing, sharing), step_seconds, company.beside)
        waits = self.prompts.waits(*asked)
        if self.lone is not None:
            waits = self.lone.waits(*asked).towards(waits, self._met(company)).met(self._times(company))
        return stolen.plus(waits)

    def _cost(self, company: Company, pause: float) -> Moments:
        """The time of a prompt's own steps; expert work in them grows with the number of ranks that have a prompt."""
        everywhere = self.prompts.service(company.sharing, pause, company.beside)
        if self.lone is None:
            return everywhere
        return self.lone.service(company.sharing, pause, company.beside).towards(everywhere, self._met(company))

    def _own(self, company: Company, pause: float) -> tuple[float, float, tuple[tuple[int, float], ...]]:
        """Mean, variance and percentiles of a prompt's own time."""
        mean, variance, long = self.prompts.own(pause)
        if self.lone is None:
            return mean, variance, long
        part, (least, steadiest, shortest) = self._met(company), self.lone.own(pause)
        between = tuple((at, low + part * (high - low)) for (at, low), (_, high) in zip(shortest, long, strict=True))
        return least + part * (mean - least), steadiest + part * (variance - steadiest), between

    def _met(self, company: Company) -> float:
        """How many other ranks have a prompt, from none (0) to all of them (1)."""
        return (company.together - 1.0) / (self._ranks - 1.0)

    def _tpot(self, load: RankLoad, batch: float, step_seconds: float) -> Latency:
        answer, free = max(1.0, self.outputs.mean), load.free
        shorter, square = self.outputs.shortness, load.held.square * unheld(load.rate, load.stolen) ** 2
        mean = (step_seconds + load.backlog.mean * shorter / answer) / free
        idle = load.idle  # whoever comes while the host launches shares the next step, and takes no more for it
        stolen = load.rate * square * (1.0 + self.burstiness) * step_seconds * shorter / answer / free**2 / idle
        behind = load.backlog.variance * (shorter / answer / free) ** 2
        variance = stolen + behind + self._swing(batch, step_seconds) / idle**2
        return Latency(mean, variance, self._decode(1.0).seconds)

    def _swing(self, batch: float, step_seconds: float) -> float:
        """Variance of the decode step over a request's life, as the batch fluctuates by B / (1 - e) around its mean.

        e is the growth of a step relative to that of the batch, over one deviation of the batch, as stages that begin
        to wait for each other are a kink. Averaged over a life, which is as long as the batch is correlated.
        """
        if batch <= 0.0:
            return 0.0
        further = math.sqrt(batch)
        slope = (self._decode(batch + further + 1.0).seconds - step_seconds) / further
        slack = 1.0 - min(_STEEPEST, slope * batch / step_seconds)
        kept = 2.0 * (slack + math.expm1(-slack)) / slack**2
        return slope**2 * batch / slack * (1.0 + self.burstiness / 2.0) * kept

    def _ttft(self, load: RankLoad, batch: float, step_seconds: float) -> tuple[Waited, float]:
        """TTFT, and the utilisation by prompts."""
        always = self.steps.replica.efficiency.request_seconds + step_seconds + self.handover_seconds
        seat = self._seat(load, batch)
        if not self.prefills:
            return self.link.taken(load.rate).after(always, Latency(seat.mean, seat.variance)), 0.0
        pause = step_seconds * -math.expm1(-batch / self._ranks)
        company = Company(load.company.sharing, self._stages.even, load.company.together)
        server = self._cost(company, pause) if self.decodes else load.stolen
        utilisation = load.rate * server.mean
        mean, variance, own = self._own(company, pause)
        if utilisation >= 1.0:
            return Waited(always, mean, variance, own, Latency(math.inf, 0.0)), utilisation
        wait = self._wait(load, server, pause)
        return Waited(
            always, mean, variance, own, Latency(wait.mean + seat.mean, wait.variance + seat.variance)
        ), utilisation

    def _wait(self, load: RankLoad, server: Moments, pause: float) -> Wait:
        """The wait for one's turn, and for those who share one's step; or until the next step, which then takes all.

        Who comes while one waits shares the step, up to one more prompt: that is as much work as comes in that time.
        Behind a few far longer prompts the mean wait does not tell: who waits at all waits until the step is shared.
        """
        line = in_line(load.rate, server, self.burstiness)
        turn = pause / 2.0 + line.mean
        room = min(1.0, max(0.0, self.prompts.per_step - 1.0))
        most = load.stolen.once
        beside = load.rate * server.mean * room * (most if self.prompts.passed_by < math.inf else min(most, turn))
        gate = self._gate(load, pause)
        return Wait(
            max(gate.mean, turn + beside),
            line.variance + gate.variance + 2.0 * beside * most,
        )

    def _gate(self, load: RankLoad, pause: float) -> Wait:
        """The wait for the next step; prompts of other ranks delay a rank by one of their steps, not by all of them."""
        own, alone = load.stolen.own, unheld(load.rate, load.stolen)
        one = own.mean * load.company.sharing / self.prompts.steps
        return at_the_gate(load.rate, own, pause / alone, self.burstiness, (1.0 - alone) * one)

    def _seat(self, load: RankLoad, batch: float) -> Wait:
        """The wait until memory, or the engine's limit, admits a request."""
        if not self.decodes or self.seats == 0:
            return NO_WAIT
        free = (self.highest - load.rate) * self._ranks
        variation = (1.0 + self.burstiness + self.outputs.growth) / 2.0
        return for_a_seat(self.seats, batch, free, variation)


def service(replica: ReplicaModel, workload: Workload, role: Role) -> Service:
    """A replica as a server of a workload; `requests_per_second` of it does not matter."""
    return _service(replica, at_any_rate(workload), role)


def at_any_rate(workload: Workload) -> Workload:
    """The workload without its rate and who declared its lengths: the key under which predictions are cached."""
    return changed(workload, requests_per_second=1.0, input_p95_declared=False, output_p95_declared=False)


@functools.lru_cache(maxsize=64)  # each keeps its timed steps: 20 kB
def _service(replica: ReplicaModel, workload: Workload, role: Role) -> Service:
    """The cached service: it is asked for at capacity and at the demanded rate, one after the other."""
    steps = stepper(replica)
    longest = min(workload.longest_tokens, float(replica.architecture.max_context_tokens))
    half = role.is_half
    rare = None if half else workload.rare_prompts
    inputs = lengths(workload.input_tokens, workload.input_tokens_p95, longest)
    if rare is not None:
        inputs = with_rare_ones(workload.input_tokens, rare, longest)
    outputs = lengths(workload.output_tokens, workload.output_tokens_p95, longest)
    kept = workload.input_tokens + (0.0 if role is Role.Prefill else workload.output_tokens)
    limit = int(replica.efficiency.sequences) * replica.shape.data_parallel
    context = inputs.mean + outputs.mean * outputs.growth / 2.0
    least = 0.0 if role is Role.Prefill else steps.decode(1.0, context).step_seconds
    costs = prompts(steps, inputs, workload.prefix_hit, beside=least)
    if rare is not None:
        costs = replace(costs, passed_by=max(1.0, outputs.mean) * steps.decode(1.0, context).seconds)
    return Service(
        steps=steps,
        role=role,
        inputs=inputs,
        outputs=outputs,
        prompts=costs,
        lone=prompts(steps, inputs, workload.prefix_hit, 1.0, least) if steps.work.in_lockstep else None,
        seats=min(sequences_that_fit(replica, kept), limit),
        burstiness=workload.squared_arrival_variation - 1.0,
        context_tokens=context,
        handover_seconds=handed_over_seconds(replica, inputs.mean) if role is Role.Prefill else 0.0,
        link=link(replica, inputs, workload.prefix_hit) if half else NO_LINK,
    )
