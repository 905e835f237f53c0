"""What the running replicas teach about the performance model, before anything is decided with it.

Factors are learnt first and watched last: a pass decides with what it has just learnt, so that a second pass on its
result finds nothing new; and it remembers whether the plan, the count and the metrics that it ends with leave a pool
quiet enough to be measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from weft.decide.measured.network import network_bound
from weft.decide.plans.facts import Facts, shape_request
from weft.domain.calibration import Calibrated, CalibrationSubject
from weft.domain.errors import Blocked, Invalid
from weft.domain.shape import Calibration
from weft.domain.status import TRUE
from weft.domain.stumbling import stumbled
from weft.domain.values.made_often import made_often
from weft.domain.workload import Role
from weft.engines import adapter_for
from weft.perf import ASTRAY, AT_RANDOM, Coming, at_engine, at_engine_after_handover, at_rate, dispersion
from weft.render import revision
from weft.scaling import targets_in_words
from weft.scaling.calibrating import calibration as calibrating
from weft.scaling.calibrating.proving import Tried, with_evidence
from weft.scaling.calibrating.tails import ExpectedLatencies, followed
from weft.scaling.calibrating.taking_over import in_force, what_is_phased
from weft.shaping import capacity_of, running_replica, share_a_front, what_matters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.decide.replicas.health import AssignedReplica
    from weft.decide.replicas.roll import Roll
    from weft.decide.replicas.standing import Standing
    from weft.domain.pool_memory import CalibrationMemory, Outliers, ScaleMemory
    from weft.domain.shape import Percentiles, Plan
    from weft.domain.snapshot import PoolObservation, PoolRecord, Snapshot
    from weft.domain.spec import PoolSpec
    from weft.domain.workload import Workload
    from weft.perf import ErrorBar, ReplicaModel

# Each takes some ten milliseconds, and planning anew with what it taught several times that: a pass that measured a
# whole fleet would be late for everybody. A pass every two seconds measures sixty pools in a window.
MOST_IN_A_PASS = 1


@made_often
@dataclass(frozen=True, slots=True)
class Fleet:
    """What a pool runs, or shall run: its spec, plan and revision, and the replicas that there are.

    `sound` is told where nothing is amiss with any of them.
    """

    spec: PoolSpec
    plan: Plan
    revision: str
    replicas: tuple[AssignedReplica, ...]
    subject: CalibrationSubject
    sound: Standing | None = None

    def look(
        self, observation: PoolObservation | None, memory: ScaleMemory | None, now: float
    ) -> calibrating.CalibrationInput:
        """The fleet as calibration sees it, without replicas that do worse for a reason the model cannot know."""
        bound = network_bound(self.spec.role, self.spec.slo, observation)
        return calibrating.CalibrationInput(
            subject=self.subject,
            role=self.spec.role,
            now=now,
            ready=self._ready(observation, memory.outliers if memory is not None else None),
            observation=observation,
            loads=memory.loads if memory is not None else (),
            network_bound=bound.status == TRUE,
        )

    def _ready(self, observation: PoolObservation | None, outliers: Outliers | None) -> tuple[str, ...]:
        """Pods that report and are the first of a replica that is ready and does as it should."""
        reporting = [each.pod for each in observation.pods] if observation is not None else []
        if outliers is not None:
            worse = {each.pod for each in outliers.named}
            reporting = [pod for pod in reporting if pod not in worse]
        sound = self.sound
        if sound is not None and sound.ready and not sound.strays and sound.revisions <= {self.revision}:
            return tuple(reporting)
        good = [each for each in self.replicas if each.ready and each.assignment.revision == self.revision]
        leaders = {each.pods[0].name for each in good if each.pods}
        return tuple([pod for pod in reporting if pod in leaders])


@dataclass(frozen=True, slots=True)
class _Lesson:
    """A pool whose time for a measurement has come, with the workload that is in force.

    `managed` says that its router, or that of its split, is of Weft's choice.
    """

    pool: PoolRecord
    fleet: Fleet
    look: calibrating.CalibrationInput
    memory: CalibrationMemory
    workload: Workload
    managed: bool


def learn(snapshot: Snapshot, facts: Facts, roll: Roll) -> Snapshot:
    """The snapshot with what its metrics teach: in the memory, and in the factors that decisions read."""
    memories = (each.calibration for each in snapshot.memory.values())
    room = max(0, MOST_IN_A_PASS - sum(each is not None and each.last == snapshot.now for each in memories))
    lessons = list(islice(_lessons(snapshot, roll), room))
    if not lessons:
        return snapshot
    pools, memory = {pool.key.uid: pool for pool in snapshot.pools}, dict(snapshot.memory)
    for lesson in lessons:
        uid, known = lesson.pool.key.uid, lesson.pool.status.calibration
        try:
            learnt = _learnt(lesson, facts)
            factors = in_force(known, learnt, snapshot.now, partial(_capacity, lesson, facts))
        except Exception as error:
            raise stumbled(error, lesson.pool) from error
        memory[uid] = replace(memory[uid], calibration=replace(learnt, news=what_is_phased(known, factors, learnt)))
        status = replace(lesson.pool.status, calibration=factors, proven=learnt.proven or lesson.pool.status.proven)
        pools[uid] = replace(lesson.pool, status=status)
    return replace(snapshot, pools=tuple(pools.values()), memory=memory)


def _lessons(snapshot: Snapshot, roll: Roll) -> Iterator[_Lesson]:
    for pool in _who_waited(snapshot):
        try:
            lesson = _lesson(pool, snapshot, roll)
        except Exception as error:
            raise stumbled(error, pool) from error
        if lesson is not None:
            yield lesson


def watch(
    fleet: Fleet, pool: PoolRecord, observation: PoolObservation | None, memory: ScaleMemory, now: float
) -> CalibrationMemory:
    """What to remember of a pool that was decided on like this; what was news is told by then."""
    known = memory.calibration
    if known is not None and known.news is not None:
        known = replace(known, news=None)
    look, status = fleet.look(observation, memory, now), pool.status
    return calibrating.watched(known, look, status.calibration, status.proven)


def unwatched(memory: ScaleMemory) -> ScaleMemory:
    """The memory of a pool that nothing was decided for."""
    known = memory.calibration
    return memory if known is None else replace(memory, calibration=replace(calibrating.interrupted(known), news=None))


def _who_waited(snapshot: Snapshot) -> list[PoolRecord]:
    """Pools that were quiet for a whole window, as far as the clock alone tells; who waited longest comes first."""
    waited: list[tuple[float, str, PoolRecord]] = []
    for pool in snapshot.pools:
        memory = snapshot.memory.get(pool.key.uid)
        known = memory.calibration if memory is not None else None
        if known is not None and calibrating.is_time(known, snapshot.now):
            waited.append((known.last or 0.0, pool.key.uid, pool))
    return [pool for _, _, pool in sorted(waited, key=itemgetter(0, 1))]


def _lesson(pool: PoolRecord, snapshot: Snapshot, roll: Roll) -> _Lesson | None:
    memory = snapshot.memory.get(pool.key.uid)
    plan = pool.status.plan
    if pool.spec is None or pool.deleting or plan is None or memory is None or memory.calibration is None:
        return None
    sound = roll.standing(pool) if roll.are_sound(pool) else None
    subject = CalibrationSubject.of(pool.spec.model.model_id, plan.engine, plan.shape)
    fleet = Fleet(pool.spec, plan, pool.status.revision, roll.replicas(pool), subject, sound)
    look = fleet.look(snapshot.observations.get(pool.key.uid), memory, snapshot.now)
    known = memory.calibration
    if not calibrating.is_due(known, look):
        return None
    workload = memory.workload or pool.spec.workload
    measured = calibrating.of(calibrating.settled(known, look), look)
    return _Lesson(pool, fleet, measured, known, workload, _is_behind_wefts_router(pool, snapshot))


def _is_behind_wefts_router(pool: PoolRecord, snapshot: Snapshot) -> bool:
    if pool.split_uid is None:
        return pool.spec is not None and pool.spec.router.is_of_weft
    split = next((each for each in snapshot.splits if each.key.uid == pool.split_uid), None)
    return split is not None and split.spec is not None and split.spec.router.is_of_weft


def _learnt(lesson: _Lesson, facts: Facts) -> CalibrationMemory:
    """One measurement; none where the spec was edited meanwhile or cannot be planned any more."""
    fleet, look = lesson.fleet, lesson.look
    running = _what_runs(lesson, facts)
    if running is None:
        return calibrating.interrupted(replace(lesson.memory, last=look.now))
    replica, error_bar = running
    load = calibrating.load_of(look, lesson.workload)
    counts_handover = adapter_for(fleet.plan.engine.name).counts_handover
    counted = at_engine_after_handover if counts_handover else at_engine

    def percentiles(factors: Calibration, coming: Coming) -> tuple[Percentiles, Percentiles] | None:
        bare = Calibration(factors.prefill, factors.decode)
        return counted(replace(replica, calibration=bare), load, look.role, coming)

    def expects(factors: Calibration, coming: Coming) -> calibrating.Means | None:
        found = percentiles(factors, coming)
        return None if found is None else calibrating.Means(*(latency.mean for latency in found))

    most, least = _as_they_come(lesson, load)
    pooled = None if least is None else partial(expects, coming=least)
    learnt = calibrating.learnt(lesson.memory, look, partial(expects, coming=most), pooled)
    learnt = _with_evidence(lesson, learnt, None if counts_handover else replica, load)
    found, seen = percentiles(learnt.factors, most), look.observation
    if found is None or seen is None or learnt.factors.points == lesson.memory.factors.points:
        return learnt
    expected = ExpectedLatencies(*found, error_bar.ttft, error_bar.tpot)
    return replace(learnt, factors=followed(learnt.factors, seen, look.role, fleet.spec.slo, expected))


def _with_evidence(
    lesson: _Lesson, learnt: CalibrationMemory, hands_over: ReplicaModel | None, load: Workload
) -> CalibrationMemory:
    """The memory with what this measurement proves of the present load.

    A prefill replica that `hands_over` after it has answered has so much less time for the first token.
    """
    look, slo = lesson.look, lesson.fleet.spec.slo
    role, later = look.role, 0.0
    if look.observation is None:
        return learnt
    if role is Role.Prefill and hands_over is not None:
        whole, own = at_rate(hands_over, load, role), at_engine(hands_over, load, role)
        if whole is None or own is None:
            return replace(learnt, evidence=None)
        later = max(0.0, whole[0].p95 - own[0].p95)
    ttft = () if role is Role.Decode else tuple([(part, seconds - later) for part, seconds in slo.ttft])
    tpot = () if role is Role.Prefill else slo.tpot
    tried = Tried(len(look.ready), lesson.workload, ttft, tpot, targets_in_words(role, slo))
    return with_evidence(learnt, look.observation, tried)


def _as_they_come(lesson: _Lesson, load: Workload) -> tuple[Coming, Coming | None]:
    """How requests may come to one replica: with the longest wait, as capacity counts on, and with the shortest.

    All come at random, unless the front is known to go by load. In a pool capacity counts on it for TPOT alone.
    """
    replicas, by_load = _share_a_queue(lesson), _goes_by_load(lesson, load)
    if replicas is None:
        return AT_RANDOM, None
    if lesson.look.role is Role.Prefill:
        return Coming(replicas, ASTRAY if by_load else 1.0), Coming(replicas)
    if not by_load:
        return Coming(replicas, 1.0), Coming(replicas)
    return Coming(replicas, 1.0, dispersion(replicas, ASTRAY)), Coming(replicas, 0.0, dispersion(replicas))


def _share_a_queue(lesson: _Lesson) -> int | None:
    """How many replicas a front may choose from, measured or not; None where one rank has all prompts."""
    fleet = lesson.fleet
    replicas = max(len(lesson.look.ready), sum(each.ready for each in fleet.replicas))
    alone = replicas * fleet.plan.shape.data_parallel <= 1 or fleet.spec.role is Role.Decode
    return None if alone else replicas


def _capacity(lesson: _Lesson, facts: Facts, factors: Calibration) -> float:
    """Requests per second that one replica of the fleet would serve under these factors; 0 where that is unknown.

    Where they share a queue it serves more in their company, and that changes by less or by more than it does alone.
    """
    fleet, load = lesson.fleet, calibrating.load_of(lesson.look, lesson.workload)
    try:
        request = shape_request(fleet.spec, facts, None, fleet.plan.engine)
        known = (Calibrated(fleet.subject, factors, lesson.look.now),)
        request = what_matters(replace(request, calibration=known, managed=_goes_by_load(lesson, load)))
        found = capacity_of(fleet.plan, request, facts.catalog, lesson.workload)
        return found.each(_share_a_queue(lesson) or 1)
    except (Invalid, Blocked):
        return 0.0


def _goes_by_load(lesson: _Lesson, load: Workload) -> bool:
    fleet = lesson.fleet
    return lesson.managed and share_a_front(fleet.spec.role, fleet.plan.shape, load.prefix_hit)


def _what_runs(lesson: _Lesson, facts: Facts) -> tuple[ReplicaModel, ErrorBar] | None:
    """One replica of the fleet, as the performance model knows it."""
    fleet = lesson.fleet
    if revision(fleet.spec, fleet.plan) != fleet.revision:
        return None
    try:
        request = shape_request(fleet.spec, facts, fleet.plan, fleet.plan.engine)
        request = replace(request, calibration=lesson.pool.status.calibration)
        return running_replica(request, fleet.plan.shape, facts.catalog)
    except (Invalid, Blocked):
        return None
