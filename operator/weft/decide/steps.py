"""One pool or one pair through the pass: count, roll, place, and say why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide import conditions
from weft.decide.backoff import failed_again, forgiven, remaining_seconds
from weft.decide.growth import Growth, explain_again, grow
from weft.decide.handover import waiting_in_queue
from weft.decide.promises import holds_of
from weft.decide.rollout import arriving, leaving, limits_of
from weft.domain.decision import PoolDecision
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutStrategy
from weft.placement import Departure
from weft.scaling import ScaleAnswer, live_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.health import Replica
    from weft.decide.planning import Planned
    from weft.decide.survivors import Survivors
    from weft.domain.shape import Plan
    from weft.domain.snapshot import PoolObservation
    from weft.domain.status import Failure, Handover
    from weft.placement import FreeMap


@dataclass(frozen=True, slots=True)
class Turn:
    """One pool's turn: its plan, what survived, how many there shall be, and what is measured.

    `live` names the workload values that metrics replace; `asked` is as in `Growth`.
    """

    planned: Planned
    survivors: Survivors
    scale: ScaleAnswer
    observation: PoolObservation | None
    draining: int  # pods of replicas that have no assignment any more
    live: tuple[str, ...] = ()
    asked: Handover | Explanation | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A pool's decision, and when time alone would change it."""

    decision: PoolDecision
    wake_after_seconds: float | None


@dataclass(slots=True)
class Course:
    """A turn under way: who leaves is settled, who comes is not yet."""

    turn: Turn
    failure: Failure | None
    gone: tuple[Departure, ...]
    growth: Growth


def take_turns(units: Sequence[Sequence[Turn]], free: FreeMap, now: float) -> tuple[Outcome, ...]:
    """Decide for all units, each one pool or both halves of a pair, in the order in which they get what is scarce.

    All departures come before the first arrival, and all reasons after the last, so that a second pass finds what this
    one says.
    """
    courses = [[_set_out(turn, free, now) for turn in turns] for turns in units]
    for together in courses:
        grow([course.growth for course in together], free, now)
    every = [course for together in courses for course in together]
    explain_again([course.growth for course in every], free)
    return tuple(_outcome(course, now) for course in every)


def _set_out(turn: Turn, free: FreeMap, now: float) -> Course:
    """Let replicas leave and count how many are missing; places are looked for afterwards."""
    planned, pool = turn.planned, turn.planned.pool
    desired, rollout = turn.scale.desired, planned.spec.rollout
    present = [_departure(replica, planned) for replica in turn.survivors.replicas]
    failure = _failure(turn, now)
    gone = leaving(present, desired, rollout, free)
    for each in gone:
        _take_back(turn, each, free)
    stay = [each for each in present if each not in gone]
    missing = arriving(stay, desired, rollout)
    if remaining_seconds(failure, now) > 0 or _waits_for_drain(turn, stay, gone):
        missing = 0
    kept, following = [each.assignment for each in stay], pool.status.next_replica
    growth = Growth(planned, desired, kept, missing, following, turn.asked)
    return Course(turn, failure, gone, growth)


def _departure(replica: Replica, planned: Planned) -> Departure:
    outdated = replica.assignment.revision != planned.revision
    return Departure(replica.assignment, replica.ready, outdated, replica.nodes)


def _failure(turn: Turn, now: float) -> Failure | None:
    planned, status = turn.planned, turn.planned.pool.status
    ready = any(replica.ready for replica in turn.survivors.replicas)
    failures = [loss for loss in turn.survivors.losses if loss.counts and loss.assignment.revision == planned.revision]
    before = forgiven(status.failure, planned.revision, now, some_ready=ready and not failures)
    return failed_again(before, failures, planned.revision, now)


def _take_back(turn: Turn, departure: Departure, free: FreeMap) -> None:
    """Promises of a replica that leaves are free at once; what its pods hold is free when they are gone."""
    bound = next(each.bound for each in turn.survivors.replicas if each.assignment == departure.assignment)
    holds = holds_of(turn.planned.pool, departure.assignment.nodes, departure.assignment.gpus_per_pod)
    for rank, hold in enumerate(holds):
        if rank not in bound:
            free.release(hold)


def _waits_for_drain(turn: Turn, stay: list[Departure], gone: tuple[Departure, ...]) -> bool:
    """Recreate never runs two revisions at once: new replicas wait until pods of the old ones are gone."""
    if turn.planned.spec.rollout.strategy is not RolloutStrategy.Recreate or turn.planned.spec.rollout.paused:
        return False
    return any(each.outdated for each in (*stay, *gone)) or turn.draining > 0


def _outcome(course: Course, now: float) -> Outcome:
    turn, planned, growth = course.turn, course.turn.planned, course.growth
    status = replace(
        planned.pool.status,
        desired_replicas=growth.desired,
        next_replica=growth.next_replica,
        revision=planned.revision,
        engine=planned.plan.engine,
        plan=planned.plan,
        assignments=(*growth.kept, *growth.added),
        failure=course.failure,
        scale=turn.scale.explanation,
        observed=live_figures(turn.observation, planned.spec.slo, turn.live),
    )
    decision = PoolDecision(
        planned.pool.key,
        planned.pool.generation,
        status,
        turn.scale.recommended,
        (
            conditions.planned(planned.plan),
            conditions.placed(_with_the_scheduler(_placement(course, now), course)),
            conditions.slo_met(planned.spec.slo, turn.observation),
            conditions.network_bound(planned.spec.role, planned.spec.slo, turn.observation),
        ),
        _events(course),
    )
    waits = (
        turn.scale.wake_after_seconds,
        remaining_seconds(course.failure, now) or None,
        turn.survivors.wake_after_seconds(growth.kept, now),
    )
    return Outcome(decision, min((wait for wait in waits if wait is not None), default=None))


def _placement(course: Course, now: float) -> Explanation:
    """Whether every replica that shall be there has nodes; a rollout that finds no room counts as one that has not."""
    turn, growth = course.turn, course.growth
    have = len(growth.kept) + len(growth.added)
    if growth.refusal is not None:
        return Explanation(growth.refusal.reason, _why_no_slot(course, have))
    if growth.desired == 0:
        return turn.scale.shortfall or Explanation(Reason.NothingToPlace, "no replica is desired")
    if course.failure is not None and remaining_seconds(course.failure, now) > 0 and have < growth.desired:
        return Explanation(Reason.BackingOff, _why_waiting(course.failure))
    if have < growth.desired:
        return Explanation(Reason.Draining, f"{have} of {growth.desired} replicas placed; others wait for a drain")
    if turn.scale.shortfall is not None:
        return turn.scale.shortfall
    placed = Explanation(Reason.AllPlaced, f"{_replicas(growth.desired)} placed: {turn.planned.plan.shape}")
    return waiting_in_queue(_staying(course), growth.added, growth.desired) or placed


def _staying(course: Course) -> list[Replica]:
    return [each for each in course.turn.survivors.replicas if each.assignment in course.growth.kept]


def _with_the_scheduler(explanation: Explanation, course: Course) -> Explanation:
    """The same, with what the scheduler says while it does not bind a pod of a replica that stays."""
    waiting = next((pod.waiting for each in _staying(course) for pod in each.pods if pod.waiting), None)
    return replace(explanation, message=f"{explanation.message}; {waiting}") if waiting else explanation


def _why_no_slot(course: Course, have: int) -> str:
    growth = course.growth
    refusal = growth.refusal.message if growth.refusal else ""
    if have < growth.desired:
        return f"{have} of {growth.desired} replicas placed; {refusal}"
    rollout = growth.planned.spec.rollout
    hint = "" if limits_of(rollout, growth.desired).unavailable else ", or set rollout.maxUnavailable above 0"
    return f"the rollout finds no room for a replica of the new revision; {refusal}{hint}"


def _why_waiting(failure: Failure) -> str:
    times = "once" if failure.count == 1 else f"{failure.count} times in a row"
    return (
        f"failed {times}, so the next attempt waits; {failure.explanation.reason.value}: {failure.explanation.message}"
    )


def _events(course: Course) -> tuple[Explanation, ...]:
    turn, planned = course.turn, course.turn.planned
    events = [loss.explanation for loss in turn.survivors.losses]
    if turn.scale.changed is not None:
        events.append(turn.scale.changed)
    before = planned.pool.status.plan
    if before is None or before.shape != planned.plan.shape:
        events.append(_shape_event(before, planned.plan))
    return tuple(events)


def _shape_event(before: Plan | None, now: Plan) -> Explanation:
    change = f"{now.shape}" if before is None else f"{before.shape} -> {now.shape}"
    return Explanation(now.verdict.reason, f"{change}: {now.verdict.message}")


def _replicas(count: int) -> str:
    return f"{count} replica" if count == 1 else f"{count} replicas"
