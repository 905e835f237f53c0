"""What the running replicas teach about the performance model, before anything is decided with it.

Factors are learnt first and watched last: a pass decides with what it has just learnt, so that a second pass on its
result finds nothing new; and it remembers whether the plan, the count and the metrics that it ends with leave a pool
quiet enough to be measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from weft.decide import conditions
from weft.decide.planning import Facts, shape_request
from weft.domain.calibration import Subject
from weft.domain.errors import Blocked, Invalid
from weft.perf import at_rate
from weft.render import revision
from weft.scaling import calibration as calibrating
from weft.scaling.slowness import without_slow
from weft.shaping import running_replica

if TYPE_CHECKING:
    from weft.decide.health import Replica
    from weft.decide.standing import Standing
    from weft.decide.survivors import Roll
    from weft.domain.shape import Calibration, Plan
    from weft.domain.snapshot import CalibrationMemory, PoolObservation, PoolRecord, ScaleMemory, Snapshot
    from weft.domain.spec import PoolSpec

# Each takes some ten milliseconds, and planning anew with what it taught several times that: a pass that measured a
# whole fleet would be late for everybody. A pass every two seconds measures sixty pools in a window.
MOST_IN_A_PASS = 1


@dataclass(frozen=True, slots=True)
class Course:
    """What a pool runs, or shall run: its spec, plan, revision and count, the replicas that there are, and its pods.

    More `pods` than the replicas have are of some that leave. `sound` is told where nothing is amiss with any of them.
    """

    spec: PoolSpec
    plan: Plan
    revision: str
    desired: int
    replicas: tuple[Replica, ...]
    pods: int
    subject: Subject
    sound: Standing | None = None

    def look(self, observation: PoolObservation | None, memory: ScaleMemory | None, now: float) -> calibrating.Look:
        """This course as calibration sees it: what is slow for reasons of its own is no fault of the model."""
        bound = conditions.network_bound(self.spec.role, self.spec.slo, observation)
        speed = memory.speed if memory is not None else None
        slow = {each.replica for each in speed.slow if each.named is not None} if speed is not None else ()
        return calibrating.Look(
            subject=self.subject,
            role=self.spec.role,
            now=now,
            ready=tuple(replica for replica in self._ready if replica not in slow) if slow else self._ready,
            observation=without_slow(observation, speed),
            loads=memory.loads if memory is not None else (),
            network_bound=bound.status == conditions.TRUE,
        )

    @property
    def _ready(self) -> tuple[int, ...]:
        """Ids of all replicas where they are as many as there should be, and each is ready as it should be."""
        if len(self.replicas) != self.desired:
            return ()
        if self.sound is not None:
            every = self.sound.ready and self.sound.revisions <= {self.revision} and not self.sound.strays
            return self.sound.ids if every else ()
        good = all(each.ready and each.assignment.revision == self.revision for each in self.replicas)
        whole = good and sum(len(each.pods) for each in self.replicas) == self.pods
        return tuple(each.assignment.replica for each in self.replicas) if whole else ()


@dataclass(frozen=True, slots=True)
class _Lesson:
    """A pool whose time for a measurement has come."""

    pool: PoolRecord
    course: Course
    look: calibrating.Look
    memory: CalibrationMemory


def learn(snapshot: Snapshot, facts: Facts, roll: Roll) -> Snapshot:
    """The snapshot with what its metrics teach: in the memory, and in the factors that decisions read."""
    known = (each.calibration for each in snapshot.memory.values())
    room = max(0, MOST_IN_A_PASS - sum(each is not None and each.last == snapshot.now for each in known))
    found = (_lesson(pool, snapshot, roll) for pool in _who_waited(snapshot))
    lessons = list(islice((lesson for lesson in found if lesson is not None), room))
    if not lessons:
        return snapshot
    pools, memory = {pool.key.uid: pool for pool in snapshot.pools}, dict(snapshot.memory)
    for lesson in lessons:
        uid, learnt = lesson.pool.key.uid, _learnt(lesson, facts)
        memory[uid] = replace(memory[uid], calibration=learnt)
        factors = calibrating.in_force(lesson.pool.status.calibration, learnt, snapshot.now)
        pools[uid] = replace(lesson.pool, status=replace(lesson.pool.status, calibration=factors))
    return replace(snapshot, pools=tuple(pools.values()), memory=memory)


def watch(
    course: Course, pool: PoolRecord, observation: PoolObservation | None, memory: ScaleMemory, now: float
) -> CalibrationMemory:
    """What to remember of a pool that was decided on like this."""
    return calibrating.watched(memory.calibration, course.look(observation, memory, now), pool.status.calibration)


def unwatched(memory: ScaleMemory) -> ScaleMemory:
    """The memory of a pool that nothing was decided for."""
    known = memory.calibration
    return memory if known is None else replace(memory, calibration=calibrating.interrupted(known))


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
    status, pods = pool.status, len(roll.pods_of(pool))
    sound = roll.standing(pool) if roll.are_sound(pool) else None
    subject = Subject.of(pool.spec.model.model_id, plan.engine, plan.shape)
    course = Course(
        pool.spec, plan, status.revision, status.desired_replicas, roll.replicas(pool), pods, subject, sound
    )
    look = course.look(snapshot.observations.get(pool.key.uid), memory, snapshot.now)
    return _Lesson(pool, course, look, memory.calibration) if calibrating.is_due(memory.calibration, look) else None


def _learnt(lesson: _Lesson, facts: Facts) -> CalibrationMemory:
    """One measurement; none where the spec was edited meanwhile or cannot be planned any more."""
    course, look = lesson.course, lesson.look
    untouched = replace(lesson.memory, last=look.now)
    if revision(course.spec, course.plan) != course.revision:
        return untouched
    try:
        request = shape_request(course.spec, facts, course.plan, course.plan.engine)
        replica = running_replica(request, course.plan.shape, facts.catalog)
    except (Invalid, Blocked):
        return untouched
    if replica is None:
        return untouched
    load = calibrating.load_of(look, course.spec.workload)

    def expects(factors: Calibration) -> calibrating.Means | None:
        found = at_rate(replace(replica, calibration=factors), load, look.role)
        return None if found is None else calibrating.Means(*(latency.mean for latency in found))

    return calibrating.learnt(lesson.memory, look, expects)
