"""What a pass tells of each pool once all is decided.

That is its status, conditions and events, what is remembered of it, and when the next pass has to come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.counting.budgets import PROMISED_SECONDS
from weft.decide.course import PoolOutcome
from weft.decide.measured.judged import figures_of, slo_met
from weft.decide.measured.network import network_bound
from weft.decide.places.outliers import outlier_events, outliers_after, transfers_failing
from weft.decide.plans.kept_shapes import changes_in_seconds
from weft.decide.plans.left_shapes import shape_left
from weft.decide.replicas.succession import tries_again_after_seconds
from weft.decide.rollouts.avoidance import avoided_by
from weft.decide.rollouts.backoff import remaining_seconds
from weft.decide.rollouts.predecessors import overdue_first_in_seconds
from weft.decide.rollouts.rollout import serving
from weft.decide.rollouts.trials import trials_end_in_seconds
from weft.decide.rollouts.weighing import waits_on_seconds
from weft.decide.shapes.at_maximum import has_outgrown_one, met_lately, what_came
from weft.decide.shapes.outgrown import is_short_since, looks_for_others_in_seconds
from weft.decide.telling import conditions
from weft.decide.telling.capacity import capacity_request
from weft.decide.telling.forecasts import start_up_now
from weft.decide.telling.placed_lately import most_placed, places_after
from weft.decide.telling.placement import (
    is_replaced,
    leaves_last,
    placement_of,
    serves_to_the_end,
    waits_for_its_node,
)
from weft.domain.decision import PoolDecision
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.changed import changed
from weft.placement import choose_victims
from weft.scaling.underperforming.outliers import wake_after_seconds

if TYPE_CHECKING:
    from weft.decide.course import Course
    from weft.domain.decision import CapacityRequest
    from weft.domain.pool_memory import Places, ScaleMemory
    from weft.domain.shape import Plan
    from weft.domain.start_up import StartUp
    from weft.domain.status import Assignment, Condition, PoolStatus
    from weft.placement import Departure, FreeMap


def outcome_of(course: Course, free: FreeMap, now: float) -> PoolOutcome:
    """All that a pass tells of one pool."""
    pool, request = course.turn.planned.pool, capacity_request(course.growth, free)
    assignments = (*course.growth.kept, *course.growth.added)
    places = places_after(course.turn.memory.places, _how_many_have_a_place(course), now)
    decision = PoolDecision(
        pool.key,
        pool.generation,
        status=_status(course, assignments, places, now),
        recommended=course.turn.scale.recommended,
        conditions=_conditions(course, request, free, now),
        events=(*_events(course, free), *outlier_events(course), *course.why.events),
        request=request,
    )
    memory = _memory_after(course, places, now)
    waits = _waits(course, memory, free, now)
    return PoolOutcome(decision, memory, min((wait for wait in waits if wait is not None), default=None))


def _how_many_have_a_place(course: Course) -> int:
    """Replicas that are assigned, but for those that another scheduler has yet to admit."""
    survivors, growth = course.turn.survivors, course.growth
    if survivors.standing is not None and not growth.added:
        return len(growth.kept)
    queue = {each.assignment.replica for each in survivors.replicas if each.queues}
    have_nodes = sum(each.handover is None for each in growth.added)
    return have_nodes + sum(each.replica not in queue for each in growth.kept)


def _status(course: Course, assignments: tuple[Assignment, ...], places: Places, now: float) -> PoolStatus:
    turn, planned, growth = course.turn, course.turn.planned, course.growth
    before, lacks = planned.pool.status, places.replicas < growth.desired
    return changed(
        before,
        desired_replicas=growth.desired,
        next_replica=growth.next_replica,
        revision=planned.revision,
        engine=planned.plan.engine,
        plan=planned.plan,
        assignments=assignments,
        failure=course.failure,
        scale=turn.scale.explanation,
        observed=figures_of(planned.spec, turn.observation, turn.live),
        moves=course.moves.told,
        opening=course.moves.opening if growth.refusal is not None else (),
        avoided=avoided_by(turn, now),
        start_up=_start_up(course, now),
        left_shape=before.left_shape if planned.plan is before.plan else shape_left(planned, now),
        placed_replicas=most_placed(places, before, growth.desired, now) if lacks else None,
    )


def _start_up(course: Course, now: float) -> StartUp | None:
    """What a start takes: as the status told it, while its estimates are the same."""
    told, known = course.turn.planned.pool.status.start_up, course.turn.planned.start_up
    if told is not None and (told.image, told.weights, told.engine) == (known.image, known.weights, known.engine):
        return told
    return start_up_now(course.turn.planned.pool.status, known, now)


def _conditions(course: Course, request: CapacityRequest | None, free: FreeMap, now: float) -> tuple[Condition, ...]:
    spec, plan = course.turn.planned.spec, course.turn.planned.plan
    seen = course.turn.observation
    return (
        conditions.planned(plan),
        *conditions.arguments_unknown(spec.engine.args, plan.engine),
        *conditions.image_mismatched(plan),
        *conditions.relaxed(spec),
        conditions.placed(placement_of(course, free, now)),
        slo_met(spec.role, spec.slo, seen),
        network_bound(spec.role, spec.slo, seen),
        *transfers_failing(course, now),
        *conditions.capacity_requested(request),
    )


def _memory_after(course: Course, places: Places, now: float) -> ScaleMemory:
    memory, later = outliers_after(course, now), course.later
    if later.waited_for_lower is not None:
        memory = changed(memory, waited_for_lower=later.waited_for_lower)
    if later.waits != memory.waits:
        memory = changed(memory, waits=later.waits)
    if (recreates := course.growth.held is Reason.Draining) is not memory.recreates:
        memory = changed(memory, recreates=recreates)
    held = course.turn.scale.explanation.reason is Reason.AtMaximum
    if held or course.growth.refusal is not None or memory.short_since is not None or memory.met_slo_lately is not None:
        met = met_lately(course.turn, now) if held else None
        memory = changed(memory, short_since=is_short_since(course, now), met_slo_lately=met)
    if course.turn.planned.pool.status.left_shape is not None and has_outgrown_one(course.turn):
        memory = changed(memory, came_lately=what_came(course.turn, now))
    return memory if places is memory.places else changed(memory, places=places)


def _waits(course: Course, memory: ScaleMemory, free: FreeMap, now: float) -> tuple[float | None, ...]:
    """Seconds until time alone changes something, each of another kind."""
    turn, growth, later = course.turn, course.growth, course.later
    return (
        turn.scale.wake_after_seconds,
        remaining_seconds(course.failure, now) or None,
        turn.survivors.wake_after_seconds(growth.kept, now, turn.planned.spec.rollout.start_timeout_seconds),
        tries_again_after_seconds(growth.added, growth.planned, free),
        wake_after_seconds(memory.outliers, now),
        later.counted_in_seconds,
        overdue_first_in_seconds(turn, now) if growth.held is Reason.Draining else None,
        _until_its_count_follows(course, memory.gave_up_room, now) if memory.gave_up_room is not None else None,
        min((each.serves_seconds for each in course.leaving.moving if each.lasts), default=None),
        trials_end_in_seconds(course.leaving.present) if course.leaving.present else None,
        waits_on_seconds(later.waits, now) if later.waits is not None else None,
        looks_for_others_in_seconds(turn, memory.short_since, free, now) if memory.short_since is not None else None,
        changes_in_seconds(left, now) if (left := turn.planned.pool.status.left_shape) is not None else None,
    )


def _until_its_count_follows(course: Course, left: float, now: float) -> float | None:
    """Seconds until the count of a pool is what quotas pay for again."""
    lacks = course.growth.refusal is not None and course.growth.refusal.reason is Reason.BudgetExhausted
    seconds = left + PROMISED_SECONDS - now
    return seconds if lacks and seconds > 0 else None


def _replaced(course: Course, free: FreeMap) -> tuple[Departure, ...]:
    """Replicas whose successors this pass places, in the order in which they leave: each is told once.

    Successors that are there already are those beyond what is desired of replicas that stay.
    """
    if not course.growth.added:
        return ()
    growth, moving = course.growth, choose_victims(course.leaving.moving, len(course.leaving.moving), free)
    displaced = (*(each for each in course.leaving.gone if each.displaced is not None), *moving)
    have_one = len(growth.kept) - len(moving) - (growth.desired - len(displaced))
    return displaced[max(0, have_one) : max(0, have_one + len(growth.added))]


def _events(course: Course, free: FreeMap) -> tuple[Explanation, ...]:
    turn, planned = course.turn, course.turn.planned
    events = [loss.explanation for loss in turn.survivors.losses]
    if news := [each for each in turn.survivors.stranded if each.is_news]:
        events.append(Explanation(Reason.NodeGone, waits_for_its_node(news)))
    for each in _replaced(course, free):
        if each.displaced is not None:
            told = f"; {serves_to_the_end(each)}" if each.lasts else ""
            events.append(Explanation(each.displaced.reason, f"{is_replaced(each)}{told}"))
    events += _last_ones(course)
    before = planned.pool.status.plan
    if before is not planned.plan and (before is None or before.shape != planned.plan.shape):
        events.append(_shape_event(before, planned.plan))  # before the count, which is of this shape
    events += [told for told in (course.why.preempted, turn.taught, turn.scale.changed) if told is not None]
    return tuple(events)


def _last_ones(course: Course) -> list[Explanation]:
    """Replicas that leave in this pass because their nodes go, though nobody serves after them."""
    leaves = course.leaving
    if serving(leaves.present) or any(each.lasts for each in leaves.moving) or course.growth.desired < 1:
        return []
    last = [each for each in leaves.gone if each.urgent and each.ready and not each.alone]
    return [Explanation(Reason.LastOneLeaves, leaves_last(each)) for each in last]


def _shape_event(before: Plan | None, now: Plan) -> Explanation:
    change = f"{now.shape}" if before is None else f"{before.shape} -> {now.shape}"
    return Explanation(now.verdict.reason, f"{change}: {now.verdict.message}")
