"""One replica under open-loop load: latencies as distributions, at the batch that a request rate leads to.

`loads` has the rate that keeps a batch. Prompts queue per data-parallel rank; where ranks go in lockstep, those of one
delay all others. Where prompts queue, all stages of a pipeline have one; the time that they take from decode overlaps
only as far as they come in the same round (`stages`).

TPOT of a request varies with the batch during its life, and with the prompts that come in that time (`answers`).
`tests/perf/test_percentiles.py` holds all of this against a simulation step by step; `python -m bench percentiles`
prints how far off it is.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often
from weft.domain.workload import Role
from weft.perf.answers import Swings, per_token, swing
from weft.perf.backlog import AnswerPace, RankLoad, unheld
from weft.perf.handover import NO_LINK, handed_over_seconds, link
from weft.perf.latency import Latency, Waited
from weft.perf.lengths import Lengths, lengths, with_rare_ones
from weft.perf.loads import Loads
from weft.perf.memory import sequences_that_fit
from weft.perf.outgrown import NEVER
from weft.perf.prompts import Prompts, prompts
from weft.perf.queueing import NO_WAIT, Moments, Wait, at_the_gate, either, for_a_seat, in_line, pooled
from weft.perf.sharing import Company
from weft.perf.steps import Stepper, StepTime, stepper
from weft.perf.wandering import Wandering, wandering

if TYPE_CHECKING:
    from weft.domain.workload import Workload
    from weft.perf.handover import Link
    from weft.perf.replica import ReplicaModel
    from weft.perf.stages import Stages

_MOST_ROUNDS, _CLOSE, _STEEP = 60, 1e-3, 1e-4
_FEW = 0.5  # prompts that come while the host launches a step: fewer do not make launches go on
_NOTHING = Moments(0.0, 0.0, 0.0)
_NO_ANSWER = AnswerPace(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


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
    group in lockstep has. Requests come to each rank at random; or, where `in_one_queue` replicas are told, the next
    free rank of any of them takes the one that came first, which is the least that a front can let them wait. The part
    `astray` of them comes to a rank at random all the same. `dispersion` is that of how many come while an answer is
    made (`regular`), which where they come to one queue may be another.
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
    in_one_queue: int | None = None
    astray: float = 0.0
    dispersion: float = 1.0
    known: dict[float, StepTime] = field(default_factory=dict, compare=False)

    @cached_property
    def loads(self) -> Loads:
        """Loads of one rank that computes prompts and makes answers."""
        return Loads(self.steps.work, self.prompts, self.lone, self.burstiness)

    @cached_property
    def gaps(self) -> tuple[float, float]:
        """Steps of an answer that are made here, and their shortness: with the prompt comes the first token."""
        return self.outputs.gaps if self.prefills else (max(1.0, self.outputs.mean), self.outputs.shortness)

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
            tpot=self._tpot(load, batch / ranks, step),
            sending=self.link.busy(load.rate),
        )

    def at_utilisation(self, utilisation: float) -> Point:
        """The point at which a replica that only prefills is busy for this fraction of its time."""
        service = self._prompts_apart()
        alone = Company(1.0, 1.0, float(self._ranks))
        load = RankLoad(utilisation / service.mean, alone, service, service, NEVER, _NO_ANSWER, NO_WAIT)
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
        return self.at_batch(self._batch_at(rate, min(close, _STEEP) if self.wandering else close))

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
        steps, whole = self._answer(step)
        if self.prefills:
            return self.loads.at(batch, steps, whole, self.wandering)
        alone, pace = Company(1.0, 1.0, float(self._ranks)), AnswerPace(steps, whole, 0.0, 0.0, 0.0, 0.0)
        return RankLoad(batch / (steps * whole), alone, _NOTHING, _NOTHING, NEVER, pace, NO_WAIT)

    @cached_property
    def wandering(self) -> Wandering | None:
        """How far a rank's batch wanders where steps begin to outgrow captured graphs."""
        if not self.prefills or not self.loads.can_outgrow:
            return None
        steps, whole = self._answer(self._decode(1.0))
        few = max(1.0, _FEW * steps * whole / self.prompts.host)
        return wandering(self._looked_at, few, self.seats / self._ranks, self.prompts.host)

    def _looked_at(self, batch: float) -> RankLoad:
        step = self.steps.decode((batch + 1.0) * self._ranks, self.context_tokens)
        return self.loads.looked_at(batch, *self._answer(step))

    def _answer(self, step: StepTime) -> tuple[float, float]:
        """Steps of an answer, and seconds of each without prompts."""
        return self.gaps[0] / step.tokens, step.step_seconds

    def _tpot(self, load: RankLoad, batch: float, step: StepTime) -> Latency:
        varies = swing(batch, lambda each: self._decode(each).seconds, self.burstiness + self.dispersion - 1.0)
        spread = 0.0 if self.wandering is None else self.wandering.spread(batch)
        swings = Swings(varies, spread, self.dispersion)
        return per_token(load, self.gaps, step, self._decode(1.0).seconds, swings)

    def _ttft(self, load: RankLoad, batch: float, step_seconds: float) -> tuple[Waited, float]:
        """TTFT, and the utilisation by prompts."""
        always = self.steps.replica.efficiency.request_seconds + step_seconds + self.handover_seconds
        seat = self._seat(load, batch)
        if not self.prefills:
            return self.link.taken(load.rate).after(always, Latency(seat.mean, seat.variance)), 0.0
        pause = step_seconds * -math.expm1(-batch / self._ranks)
        company = Company(load.company.sharing, self._stages.even, load.company.together)
        server = self.loads.cost(company, pause) if self.decodes else load.stolen
        utilisation = load.rate * server.mean
        mean, variance, own = self.loads.own(load, pause)
        if utilisation >= 1.0:
            return Waited(always, mean, variance, own, Latency(math.inf, 0.0)), utilisation
        wait = self._wait(load, server, pause)
        if self.in_one_queue is not None:
            others = Wait(max(0.0, wait.mean - pause / 2.0), wait.variance)
            others = either(pooled(others, utilisation, self.in_one_queue * self._ranks), others, self.astray)
            wait = Wait(min(wait.mean, pause / 2.0) + others.mean, others.variance)
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
        if self.wandering is not None:  # with all seats taken every step is launched, and rates grow like batches
            free = self.highest * self._ranks * (1.0 - batch / self.seats)
        variation = (1.0 + self.burstiness + self.outputs.growth) / 2.0
        return for_a_seat(self.seats, batch, free, variation)


def service(replica: ReplicaModel, workload: Workload, role: Role) -> Service:
    """A replica as a server of a workload; `requests_per_second` of it does not matter."""
    return _service(replica, at_any_rate(workload), role)


def at_any_rate(workload: Workload) -> Workload:
    """The workload without its rate and who declared its lengths: the key under which predictions are cached."""
    return changed(workload, requests_per_second=1.0, input_p95_declared=False, output_p95_declared=False)


@functools.lru_cache(maxsize=64)  # each keeps its timed steps and loads: 40 kB
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
