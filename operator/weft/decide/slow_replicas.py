"""Replicas that are slower than their siblings: named, and replaced one at a time where there is room for another.

The successor comes first and the slow one leaves once as many others serve as are desired. Who is under way is known
in memory alone: after a restart all is seen anew, and a successor that is there already may be the one that leaves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.growth import add_one
from weft.decide.learning import unwatched
from weft.decide.rollout import limits_of
from weft.domain.changed import changed
from weft.domain.reasons import Explanation, Reason
from weft.domain.remembered import LastAnswers
from weft.domain.spec import RolloutStrategy
from weft.placement import Departure
from weft.scaling.slowness import is_whole, next_to_go, stands_out, wait_seconds, watched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.decide.course import Course, Turn
    from weft.decide.health import Replica
    from weft.decide.survivors import Roll
    from weft.domain.snapshot import PodObservation, PoolRecord, ScaleMemory, Snapshot, SpeedMemory
    from weft.domain.workload import Role
    from weft.placement import FreeMap

REMEMBERED = 4096  # pools
_LAST: LastAnswers[tuple[tuple[PodObservation, ...], Role], bool] = LastAnswers(REMEMBERED)
_SLOW = "has been slower than its siblings for 3 min, at no higher load"
_WHY = Explanation(Reason.SlowerThanSiblings, f"it {_SLOW}")


def compare_speeds(snapshot: Snapshot, roll: Roll) -> Snapshot:
    """The snapshot with one more look at the speeds of the replicas of each pool in its memory."""
    learnt: dict[str, ScaleMemory] = {}
    for pool in snapshot.pools:
        known = snapshot.memory.get(pool.key.uid)
        if known is None or pool.spec is None:
            continue
        seen = snapshot.observations.get(pool.key.uid)
        if known.speed is None and (seen is None or not _stands_out(pool.key.uid, seen.pods, pool.spec.role)):
            continue
        speed = _compared(pool, known.speed, snapshot, roll)
        if speed != known.speed:
            learnt[pool.key.uid] = replace(known, speed=speed)
    return replace(snapshot, memory={**snapshot.memory, **learnt}) if learnt else snapshot


def _stands_out(uid: str, pods: tuple[PodObservation, ...], role: Role) -> bool:
    """The same pods of a pool are looked at once: metrics come less often than passes."""
    return _LAST.ask(uid, (pods, role), lambda question: stands_out(*question))


def _compared(pool: PoolRecord, speed: SpeedMemory | None, snapshot: Snapshot, roll: Roll) -> SpeedMemory | None:
    replicas, observation = roll.replicas(pool), snapshot.observations.get(pool.key.uid)
    pods = None
    if pool.spec is None:
        return speed
    if observation is not None and is_whole(observation):
        pods = _pods_of(replicas, pool.status.revision, {each.pod: each for each in observation.pods})
    return watched(speed, pods, {each.assignment.replica for each in replicas}, pool.spec.role, snapshot.now)


def _pods_of(
    replicas: Iterable[Replica], revision: str, told: dict[str, PodObservation]
) -> dict[int, PodObservation] | None:
    """By replica, of all that are ready and of one revision; None where one of them does not tell."""
    ready = [each for each in replicas if each.ready and each.assignment.revision == revision]
    names = {each.assignment.replica: each.pods[0].name for each in ready}
    return {replica: told[name] for replica, name in names.items()} if told.keys() >= set(names.values()) else None


def slow_one_that_goes(turn: Turn, present: Sequence[Departure]) -> int | None:
    """The replica whose successor is there, or on its way; nobody once the others are too few to let it go."""
    speed = turn.memory.speed
    if speed is None or speed.replaced is None:
        return None
    others = (each for each in present if each.assignment.replica != speed.replaced)
    staying = sum(not each.outdated and each.displaced is None for each in others)
    return speed.replaced if staying >= turn.scale.desired else None


def because_it_is_slow(departure: Departure) -> Departure:
    """The same replica, which leaves once another serves in its place."""
    return departure if departure.displaced is not None else replace(departure, displaced=_WHY)


def replace_slow(units: Iterable[Sequence[Course]], free: FreeMap, now: float) -> None:
    """Place a successor of one slow replica a pool, with what everybody else has left free, and say who is slow."""
    for courses in units:
        for course in courses:
            speed = course.turn.memory.speed
            if speed is not None:
                _replace_one(course, courses, free, now)
                course.remarks = tuple(_remarks(course, now))


def _replace_one(course: Course, unit: Sequence[Course], free: FreeMap, now: float) -> None:
    turn = course.turn
    due = next_to_go(turn.memory.speed, now)
    if due is None or _what_forbids(turn) is not None or not _is_settled(course):
        return
    slow = next((each for each in turn.survivors.replicas if each.assignment.replica == due.replica), None)
    if slow is None or not add_one(course.growth, [each.growth for each in unit], free, now, avoiding=slow.nodes):
        course.no_room = slow is not None
        return
    departure = Departure(slow.assignment, ready=True, outdated=False)
    course.moving = (*course.moving, because_it_is_slow(departure))
    course.replaced_as_slow = due.replica


def _is_settled(course: Course) -> bool:
    """Whether as many as are desired serve, all of the revision that is planned, and nobody comes or leaves."""
    turn, growth = course.turn, course.growth
    replicas, revision = turn.survivors.replicas, turn.planned.revision
    stands = all(each.ready and each.assignment.revision == revision for each in replicas)
    moves = (*course.gone, *course.moving, *growth.added, *turn.left, *turn.survivors.losses)
    waits = growth.refusal is not None or course.awaited is not None or course.preempted is not None
    return stands and not moves and not waits and len(replicas) == growth.desired


def _what_forbids(turn: Turn) -> str | None:
    """Why no slow replica of the pool is replaced, as its spec says."""
    rollout = turn.planned.spec.rollout
    if turn.asked is not None:
        return "its place is for another scheduler to choose"
    if rollout.paused:
        return "rollout.paused is set"
    if rollout.strategy is RolloutStrategy.Recreate:
        return "with rollout.strategy Recreate nothing is replaced first"
    return "rollout.maxSurge lets nothing come first" if limits_of(rollout, turn.scale.desired).surge < 1 else None


def _remarks(course: Course, now: float) -> Iterator[str]:
    """Who is slow and stays for now."""
    turn = course.turn
    speed = speed_after(course, now).speed
    leaving = {each.assignment.replica for each in (*course.moving, *course.gone)}
    named = [each for each in (speed.slow if speed is not None else ()) if each.named is not None]
    for each in named:
        if speed is None or each.replica in leaving:
            continue
        why = _what_forbids(turn)
        if why is None and wait_seconds(speed, now) > 0:
            why = "at most one is replaced in an hour"
        elif why is None and course.no_room:
            why = "nothing has room for its successor"
        yield f"replica {each.replica} {_SLOW}{'' if why is None else f', and stays: {why}'}"


def speed_after(course: Course, now: float) -> ScaleMemory:
    """The memory of a pool with what this pass began and told."""
    memory = course.turn.memory
    if memory.speed is None:
        return memory
    told = tuple(replace(each, told=each.named is not None) for each in memory.speed.slow)
    speed = changed(memory.speed, slow=told)
    if course.replaced_as_slow is None:
        return changed(memory, speed=speed)
    return unwatched(changed(memory, speed=changed(speed, replaced=course.replaced_as_slow, begun=now)))


def slow_events(course: Course) -> list[Explanation]:
    """Replicas that were named just now and are not replaced at once: that is an event of its own."""
    speed = course.turn.memory.speed
    named = [each for each in speed.slow if each.named is not None and not each.told] if speed is not None else []
    return [
        Explanation(Reason.SlowerThanSiblings, f"replica {each.replica} {_SLOW}")
        for each in named
        if each.replica != course.replaced_as_slow
    ]
