"""What one replica of a shape does under a workload, and how many requests a second it can serve within an SLO.

Capacity is the highest rate at which every percentile target holds (`service` has the latencies). The batch never takes
more than four fifths of the KV memory, or of the sequences that the engine admits: the rest is for the fluctuations of
random arrivals. Prompts fill at most 95 % of the time under a TTFT target, and 80 % without one. The same bounds hold
for KV on the links between halves, whose waiting and transfer take at most half of a TTFT target.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING

from weft.domain.shape import Limit, Percentiles, Prediction
from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often
from weft.domain.workload import Role, Slo
from weft.perf.handover import NO_LINK
from weft.perf.latency import PERCENTILES
from weft.perf.memory import footprint, kv_tokens
from weft.perf.misses import missed
from weft.perf.regular import AT_RANDOM, dispersion
from weft.perf.service import Point, Service, at_any_rate, service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.workload import Workload
    from weft.perf.latency import Latency, Waited
    from weft.perf.misses import Miss
    from weft.perf.regular import Coming
    from weft.perf.replica import ReplicaModel

ASTRAY = 0.25  # of what a front that goes by load sends: as good as at random (ADR 0113)
_USED_OF_SEATS = 0.8
_USED_WITHOUT_TARGET = 0.8
_USED_AT_MOST = 0.95
_OF_FIRST_TOKENS = 0.5  # the share of the TTFT target for KV transfers
_IDLE = 1e-3  # sequences: a load without queueing
_ROUNDING = 1.0 + 1e-9
_MOST_ROUNDS, _CLOSE, _NEAR = 40, 1.002, 2e-3  # of the search: it finds the load, or the target, to 0.2 %
_OVERWHELMING = 1e3  # strains beyond this are treated alike
_NUDGE, _HALVINGS = 1.1, 8
_KNEE_STEPS, _LEAST_LOAD = 24, 1e-4
_FIRST = itemgetter(0)
_LEAST_OF_LIKELY = 0.5  # of the capacity without an error bar: the least that a guessed one leaves


@made_often
@dataclass(frozen=True, slots=True)
class ErrorBar:
    """The error bar: factors by which latencies may exceed their prediction; targets must hold even then.

    A `guessed` one comes from similar models; nobody has measured this very replica. It never takes more than half of
    the likely capacity: paying for twice as many replicas as are likely to do is enough.
    """

    ttft: float = 1.0
    tpot: float = 1.0
    guessed: bool = False


NO_ERROR_BAR = ErrorBar()


@dataclass(frozen=True, slots=True)
class Assessment:
    """A prediction, and the missed targets where its capacity is 0."""

    prediction: Prediction
    misses: tuple[Miss, ...] = ()


@made_often
@dataclass(frozen=True, slots=True)
class Question:
    """What a replica is asked to do: a workload in a role, within targets that hold in spite of the error bar.

    `in_company` is how many replicas a front chooses from that goes by load; of 1, requests come at random.
    """

    workload: Workload
    slo: Slo
    role: Role
    error_bar: ErrorBar = NO_ERROR_BAR
    in_company: int = 1


def predict(replica: ReplicaModel, workload: Workload, slo: Slo, role: Role) -> Prediction:
    """The prediction at the highest rate within the SLO; `capacity` is 0 if even an idle replica misses a target."""
    return assess(replica, Question(workload, slo, role)).prediction


def assess(replica: ReplicaModel, question: Question) -> Assessment:
    """The prediction with the targets that are missed even when the replica is idle.

    Targets count where the role works: TTFT in Aggregated and Prefill, TPOT in Aggregated and Decode. The workload's
    rate is ignored, so that pools that differ in nothing else share the answer.
    """
    return _assessed(replica, changed(question, workload=at_any_rate(question.workload)))


@functools.lru_cache(maxsize=4096)
def _assessed(replica: ReplicaModel, question: Question) -> Assessment:
    """The cached assessment alone, as the solver's state, with every step timed, takes a hundred times the memory."""
    return _solved(replica, question).assessment


@dataclass(frozen=True, slots=True)
class _Solved:
    """A question with its answer, and the busiest point within the targets."""

    trial: _Trial
    assessment: Assessment
    point: Point


@functools.lru_cache(maxsize=64)  # `worthwhile` may ask for what was assessed right before
def _solved(replica: ReplicaModel, question: Question) -> _Solved:
    server = service(replica, question.workload, question.role)
    trial = _Trial(_in_company(server, question.in_company), question)
    idle = trial.at(trial.idle)
    if trial.serves.seats == 0:
        return _Solved(trial, Assessment(_prediction(trial, idle, 0.0, Limit.KVMemory)), idle)
    misses = tuple(trial.misses(idle))
    if misses:
        told = Assessment(_prediction(trial, idle, 0.0, _limit(trial, idle, misses[0].of)), misses)
        return _Solved(trial, told, idle)
    point, limit = _busiest(trial, idle)
    if question.error_bar.guessed:
        point = _at_least_half_as_likely(trial, point)
    return _Solved(trial, Assessment(_prediction(trial, point, point.rate, limit)), point)


def _in_company(server: Service, replicas: int) -> Service:
    """One of so many replicas before which a front goes by load; in a pool it says little of who waits for a prompt."""
    if replicas <= 1:
        return server
    if server.decodes:
        return replace(server, dispersion=dispersion(replicas, ASTRAY))
    return replace(server, in_one_queue=replicas, astray=ASTRAY)


def _at_least_half_as_likely(trial: _Trial, doubted: Point) -> Point:
    """The busiest point with the error bar, or where that is more, at half of the likely capacity."""
    likely = trial.without_doubt()
    if not _serves_twice(likely, doubted):
        return doubted
    half = trial.serves.at_rate(_busiest(likely, likely.at(likely.idle))[0].rate * _LEAST_OF_LIKELY)
    return doubted if half is None else max(doubted, half, key=lambda each: each.rate)


def _serves_twice(trial: _Trial, point: Point) -> bool:
    """Whether a trial holds at twice a point's rate: rates are concave in load, so a line is below them."""
    load, rate = trial.load_of(point), point.rate / _LEAST_OF_LIKELY
    while point.rate * _CLOSE < rate:
        load *= rate / point.rate
        if load > 1.0:
            return False
        point = trial.at(load)
        if trial.strain(point)[0] > _ROUNDING:
            return False
    return True


def half_as_likely(replica: ReplicaModel, question: Question) -> float:
    """Requests a second that a guessed error bar leaves at least; 0 where it is measured, or none are likely."""
    if not question.error_bar.guessed:
        return 0.0
    likely = replace(question, workload=at_any_rate(question.workload), error_bar=NO_ERROR_BAR)
    return _assessed(replica, likely).prediction.capacity * _LEAST_OF_LIKELY


@functools.lru_cache(maxsize=4096)
def worthwhile(replica: ReplicaModel, question: Question, least: float, busy: float) -> float:
    """Requests a second within the SLO, or more where serving fewer would hardly improve latency.

    A lower rate has to improve latency by `least`, d log(latency) / d log(rate), and prompts have to fill the fraction
    `busy` of the time: in a replica less busy, requests wait for a long prompt, not for want of replicas. Each metric
    is considered on its own; 0 without room.
    """
    slo, asked = question.slo, replace(question, workload=at_any_rate(question.workload))
    apart = (replace(asked, slo=Slo(ttft=slo.ttft)), replace(asked, slo=Slo(tpot=slo.tpot)))
    return min(_least_that_helps(_solved(replica, each), least, busy) for each in apart)


def _least_that_helps(solved: _Solved, least: float, busy: float) -> float:
    """The highest rate within the SLO, or where that is higher, the lowest one that reducing would help."""
    trial, point = solved.trial, solved.point
    if trial.serves.seats == 0 or trial.fewer_would_help(point, least, busy):
        return solved.assessment.prediction.capacity
    low, high = trial.load_of(point), 1.0
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if trial.fewer_would_help(trial.at(middle), least, busy) else (middle, high)
    return trial.at(low).rate


@functools.lru_cache(maxsize=4096)
def at_rate(
    replica: ReplicaModel, workload: Workload, role: Role, in_company: int = 1
) -> tuple[Percentiles, Percentiles] | None:
    """TTFT and TPOT of one replica at the workload's rate; None if it cannot keep up with that.

    `in_company` as in `Question`.
    """
    found = _in_company(service(replica, workload, role), in_company).at_rate(workload.requests_per_second)
    return None if found is None else (_percentiles(found.ttft), _percentiles(found.tpot))


def at_engine(
    replica: ReplicaModel, workload: Workload, role: Role, coming: Coming = AT_RANDOM
) -> tuple[Percentiles, Percentiles] | None:
    """TTFT and TPOT as the engine itself counts them, without what follows the first token.

    An engine that only prefills has answered before the KV is handed over, so its metrics do not include that. Nor do
    they include the time of a link: the requests measured did get through, however little the link is believed to
    carry.
    """
    server = replace(service(replica, workload, role), handover_seconds=0.0)
    return _over_any_link(replace(server, **coming._asdict()), workload)


def at_engine_after_handover(
    replica: ReplicaModel, workload: Workload, role: Role, coming: Coming = AT_RANDOM
) -> tuple[Percentiles, Percentiles] | None:
    """TTFT and TPOT as counted by an engine that, where it only prefills, answers once the KV is handed over."""
    server = replace(service(replica, workload, role), **coming._asdict())
    return _over_any_link(server, workload)


def _over_any_link(server: Service, workload: Workload) -> tuple[Percentiles, Percentiles] | None:
    found = replace(server, link=NO_LINK).at_rate(workload.requests_per_second)
    return None if found is None else (_percentiles(found.ttft), _percentiles(found.tpot))


def knee(replica: ReplicaModel, workload: Workload, role: Role) -> float:
    """Requests a second beyond which latency grows faster than throughput: the highest rate / latency (Kleinrock)."""
    trial = service(replica, workload, role)
    tokens = max(1.0, workload.output_tokens)

    def power(load: float) -> tuple[float, float]:
        point = _loaded(trial, load)
        return point.rate / (point.ttft.mean + tokens * point.tpot.mean), point.rate

    steps = (_LEAST_LOAD ** (1.0 - step / _KNEE_STEPS) * _USED_AT_MOST for step in range(1, _KNEE_STEPS + 1))
    return max(power(load) for load in steps)[1] if trial.seats else 0.0


def _loaded(server: Service, load: float) -> Point:
    """The point at this fraction of all seats, or of the time where nothing decodes."""
    if not server.decodes:
        return server.at_utilisation(load)
    return server.at_batch(load * max(1.0, float(server.seats)))


@dataclass(frozen=True, slots=True)
class _Trial:
    """A server and the question about it; loads are fractions of the largest one that it is ever given."""

    serves: Service
    question: Question

    def at(self, load: float) -> Point:
        most = _USED_OF_SEATS if self.serves.decodes else self._most_utilised()
        return _loaded(self.serves, load * most)

    def without_doubt(self) -> _Trial:
        """The same server and targets without the error bar."""
        asked = self.question
        return _Trial(self.serves, Question(asked.workload, asked.slo, asked.role))

    def load_of(self, point: Point) -> float:
        """The load of a point, as a fraction of the largest."""
        if self.serves.decodes:
            return point.batch / (_USED_OF_SEATS * max(1.0, float(self.serves.seats)))
        return point.utilisation / self._most_utilised()

    def fewer_would_help(self, point: Point, least: float, busy: float) -> bool:
        """Whether a lower rate would improve the worst latency by `least`, in a replica that is at least so `busy`.

        Busy are prompts or the links for KV, as requests queue for either.
        """
        waits_for_prompts = self.serves.prefills and bool(self.question.slo.ttft)
        is_busy = max(point.utilisation, point.sending) >= busy
        return (not waits_for_prompts or is_busy) and self.help_beyond(point) >= least

    def help_beyond(self, point: Point) -> float:
        """The elasticity of the worst latency: d log(latency) / d log(rate)."""
        more = self.at(self.load_of(point) * _NUDGE)
        now, then = self.strain(point)[0], self.strain(more)[0]
        if not (0.0 < now < math.inf and then < math.inf and more.rate > point.rate > 0.0):
            return math.inf
        return math.log(then / now) / math.log(more.rate / point.rate)

    @property
    def idle(self) -> float:
        """A load without queueing."""
        return _IDLE / max(10.0, _USED_OF_SEATS * self.serves.seats)

    def misses(self, point: Point) -> Iterator[Miss]:
        """Yield the targets that do not hold at a point."""
        slo, error_bar = self.question.slo, self.question.error_bar
        if self.serves.prefills:
            yield from missed("TTFT", slo.ttft, lambda percentile: point.ttft.at(percentile) * error_bar.ttft)
        if self.serves.role.is_half:
            yield from missed("TTFT", slo.ttft, self.serves.kv_at(point).at, _OF_FIRST_TOKENS)
        if self.serves.decodes:
            yield from missed("TPOT", slo.tpot, lambda percentile: point.tpot.at(percentile) * error_bar.tpot)

    def strain(self, point: Point) -> tuple[float, str]:
        """The largest ratio of those that may be at most 1, and its metric: latency to target, utilisation to bound."""
        slo, error_bar = self.question.slo, self.question.error_bar
        most, role = self._most_utilised(), self.serves.role
        found = [(point.utilisation / most, "TTFT"), (point.sending / most, "KV")]
        if role is not Role.Decode:
            found += [(point.ttft.at(each) * error_bar.ttft / target, "TTFT") for each, target in slo.ttft]
        if role is not Role.Aggregated:
            kv = self.serves.kv_at(point)
            found += [(kv.at(each) / target / _OF_FIRST_TOKENS, "KV") for each, target in slo.ttft]
        if role is not Role.Prefill:
            found += [(point.tpot.at(each) * error_bar.tpot / target, "TPOT") for each, target in slo.tpot]
        return max(found, key=_FIRST)

    def limit_when_full(self, point: Point) -> Limit:
        """What limits a replica that runs at its largest load within all targets."""
        if not self.serves.decodes:
            return point.prefill.limit
        replica = self.serves.steps.replica
        at_engine_limit = self.serves.seats >= int(replica.efficiency.sequences) * replica.shape.data_parallel
        return _limit(self, point, "TPOT") if at_engine_limit else Limit.KVMemory

    def _most_utilised(self) -> float:
        return _USED_AT_MOST if self.question.slo.ttft else _USED_WITHOUT_TARGET


def _busiest(trial: _Trial, idle: Point) -> tuple[Point, Limit]:
    """The busiest point within all bounds, and what limits it."""
    full = trial.at(1.0)
    strain, obstacle = trial.strain(full)
    if strain <= _ROUNDING:
        return full, trial.limit_when_full(full)
    low, high, best, held = (trial.idle, _slack(trial.strain(idle)[0])), (1.0, _slack(strain)), idle, None
    for _ in range(_MOST_ROUNDS):
        if high[0] < low[0] * _CLOSE or low[1] < _NEAR:
            break
        load = _between(low, high)
        point = trial.at(load)
        strain, metric = trial.strain(point)
        holds = strain <= _ROUNDING
        if holds:
            low, best = (load, _slack(strain)), point
            high = (high[0], high[1] / 2.0) if held else high
        else:
            high, obstacle = (load, _slack(strain)), metric
            low = (low[0], low[1] / 2.0) if held is False else low
        held = holds
    return best, _limit(trial, best, obstacle)


def _between(low: tuple[float, float], high: tuple[float, float]) -> float:
    """The zero of the line through two points: false position; an end that stays twice counts half (Illinois)."""
    part = low[1] / (low[1] - high[1]) if low[1] > high[1] else 0.5
    return low[0] + (high[0] - low[0]) * min(0.95, max(0.02, part))


def _slack(strain: float) -> float:
    """How far a strain is from 1: positive while there is room; logarithmic beyond, where latencies explode."""
    return 1.0 - strain if strain < 1.0 else -math.log(min(_OVERWHELMING, strain))


def _limit(trial: _Trial, point: Point, metric: str) -> Limit:
    """The limit behind a metric: what most of that latency is spent on."""
    if metric == "TPOT" and point.decode is not None:
        return point.decode.limit
    if metric == "KV" or not trial.serves.prefills:
        return trial.serves.link.limit
    return point.prefill.limit


def _prediction(trial: _Trial, point: Point, capacity: float, limit: Limit) -> Prediction:
    replica, workload = trial.serves.steps.replica, trial.question.workload
    tokens = workload.input_tokens + (workload.output_tokens if trial.serves.decodes else 0.0)
    return Prediction(
        capacity=capacity,
        ttft=_percentiles(point.ttft),
        tpot=_percentiles(point.tpot),
        max_batch=trial.serves.seats,
        kv_tokens=kv_tokens(replica, tokens),
        weight_bytes_per_gpu=footprint(replica).weight_bytes,
        limit=limit,
    )


def _percentiles(latency: Latency | Waited) -> Percentiles:
    return Percentiles(latency.mean, *(latency.at(percentile) for percentile in PERCENTILES))
