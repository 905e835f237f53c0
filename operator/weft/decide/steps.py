"""One pool or one pair through the pass: count, roll, place, and say why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from weft.decide import conditions
from weft.decide.backoff import failed_again, forgiven, remaining_seconds
from weft.decide.budgets import PROMISED_SECONDS
from weft.decide.course import NOTHING_TO_WEIGH, Course, Outcome, Turn
from weft.decide.drains import displacement, is_urgent, noticed_at, over_seconds, serves_seconds
from weft.decide.forecasts import start_up_now
from weft.decide.ground import Ground
from weft.decide.growth import Growth, behind, explain_again, grow
from weft.decide.holes import Replan, changes_shape, kept_for_want_of_room, shapes_with_a_place
from weft.decide.making_room import make_room, say_what_is_awaited, say_who_fits_in_place
from weft.decide.moving import moves_under_way, still_told
from weft.decide.need import needed_now
from weft.decide.network import network_bound
from weft.decide.outliers import (
    because_it_does_worse,
    outlier_events,
    outlier_that_goes,
    outliers_after,
    replace_outliers,
    transfers_failing,
)
from weft.decide.pairing import alone_in, rollout_of
from weft.decide.placing import capacity_request, is_replaced, leaves_last, placement_of, serves_to_the_end
from weft.decide.preemption import keep_what_leaves, places_needed, preempt
from weft.decide.promises import take_back
from weft.decide.quota_preemption import keep_room, take_room
from weft.decide.rollout import arriving, keep_the_last, leaving, serving, without
from weft.decide.rounds import Fill, fill_of, in_rounds
from weft.decide.spares import gives_way_to_its_spare, keep_spares
from weft.decide.succession import tries_again_after_seconds
from weft.decide.weighing import say_what_traffic_holds, waits_on_seconds, weigh
from weft.domain.changed import changed
from weft.domain.decision import PoolDecision
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutStrategy
from weft.placement import Departure, choose_victims
from weft.scaling import live_figures
from weft.scaling.outliers import wake_after_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.health import Replica
    from weft.decide.making_room import Purse
    from weft.decide.moving import Moves
    from weft.domain.shape import Plan
    from weft.domain.status import Failure
    from weft.placement import FreeMap


def take_turns(units: Sequence[Sequence[Turn]], ground: Ground, replan: Replan, purse: Purse) -> tuple[Outcome, ...]:
    """Decide for all units, each one pool or both halves of a pair, in the order in which they get what is scarce.

    That is by priority, and in rounds within one (`decide/rounds.py`). All departures come before the first arrival,
    and all reasons after the last, so that a second pass finds what this one says.
    """
    free, now = ground.free, ground.now
    moves = moves_under_way([turn for turns in units for turn in turns], free)
    start = _Start(free, ground.accounts, now, moves)
    courses = _all_set_out(units, start, replan)
    keep_spares((course.growth for together in courses for course in together), free)
    for _, of_one_priority in groupby(courses, key=_priority):
        peers = list(of_one_priority)
        wanting = [together for together in peers if _wants_more(together)]
        in_rounds([_Rising(together, start, replan) for together in wanting])
        for together in wanting:
            if needed := places_needed(together, now - PROMISED_SECONDS):
                keep_what_leaves(needed, courses, free, now)
        if ground.accounts.by_namespace:
            keep_room(peers, courses, ground)
    every = [course for together in courses for course in together]
    explain_again([course.growth for course in every], free)
    say_who_fits_in_place(every, free)
    say_what_is_awaited(every)
    make_room(every, free, purse, now)
    preempt(courses, free, now)
    if ground.accounts.by_namespace:
        take_room(courses, ground)
    replace_outliers(courses, free, now)
    return tuple(_outcome(course, free, now) for course in every)


@dataclass(frozen=True, slots=True)
class _Start(Ground):
    """What everybody starts from: the ground, which replicas make room, and which have no other half yet.

    `gone` are those that left when the same pools set out in other shapes: what they had is free already.
    """

    moves: Moves
    alone: frozenset[tuple[str, int]] = frozenset()
    gone: frozenset[tuple[str, int]] = frozenset()


@dataclass(slots=True)
class _Rising:
    """One unit that takes turns at what is free. Before its first it may change to a shape that has a place."""

    together: list[Course]
    start: _Start
    replan: Replan
    looked: bool = False

    @property
    def fill(self) -> Fill:
        wanting = (course for course in self.together if course.growth.wants_more)
        return min((_fill_of(course) for course in wanting), default=Fill(1.0, 1.0))

    @property
    def cost(self) -> float:
        first = behind(self._growths())
        return 0.0 if first is None else first.cost

    def advance(self) -> bool:
        """Place one replica, and keep its spares."""
        if not self.looked:
            self.looked = True
            if (fitting := shapes_with_a_place(self.together, self.start.free, self.replan)) is not None:
                self.together[:] = _anew(fitting, self.together, self.start)
        goes_on = grow(self._growths(), self.start.free, self.start.now)
        keep_spares(self._growths(), self.start.free)
        return goes_on

    def _growths(self) -> list[Growth]:
        return [course.growth for course in self.together]


def _fill_of(course: Course) -> Fill:
    turn, growth = course.turn, course.growth
    return fill_of(course.have, needed_now(turn.planned, turn.observation, growth.desired), growth.desired)


def _priority(together: Sequence[Course]) -> int:
    return max(course.turn.planned.pool.priority for course in together)


def _wants_more(together: Sequence[Course]) -> bool:
    return any(course.growth.wants_more for course in together)


def _all_set_out(units: Sequence[Sequence[Turn]], start: _Start, replan: Replan) -> list[list[Course]]:
    """Departures of everyone; last of those who would change their shape, when the room for it can be seen."""
    found: dict[int, list[Course]] = {}
    for index in sorted(range(len(units)), key=lambda index: (changes_shape(units[index]), index)):
        turns = units[index]
        if changes_shape(turns):
            turns = kept_for_want_of_room(turns, start.free, replan)
        found[index] = _together(turns, start)
    return [found[index] for index in range(len(units))]


def _anew(turns: Sequence[Turn], before: Sequence[Course], start: _Start) -> list[Course]:
    """The same pools in other shapes: who left has left, and spares are kept once."""
    for hold in (hold for course in before for hold in course.growth.spares):
        start.free.release(hold)
    gone = {(course.turn.planned.pool.key.uid, each.assignment.replica) for course in before for each in course.gone}
    return _together(turns, replace(start, gone=frozenset(gone)))


def _together(turns: Sequence[Turn], start: _Start) -> list[Course]:
    """One pool, or both halves of a split, that set out."""
    alone = alone_in(turns) if len(turns) > 1 else start.alone
    begun = replace(start, alone=alone) if alone else start
    return [_set_out(turn, begun, turns) for turn in turns]


def _set_out(turn: Turn, start: _Start, unit: Sequence[Turn]) -> Course:
    """Let replicas leave and count how many are missing; places are looked for afterwards."""
    planned, pool, now = turn.planned, turn.planned.pool, start.now
    desired = turn.scale.desired
    if _stays_as_it_is(turn, start):
        kept = [replica.assignment for replica in turn.survivors.replicas]
        at_rest = Growth(planned, desired, kept, 0, pool.status.next_replica, accounts=start.accounts)
        return Course(turn, _failure(turn, now), (), at_rest, ())
    present, rollout = _departures(turn, start), rollout_of(turn)
    failure = _failure(turn, now)
    lets_go = rollout.max_unavailable != 0 or rollout.max_surge == 0
    going = lets_go and [each for each in present if each.outdated or each.displaced is not None]
    weighing = weigh(turn, unit, now) if going else NOTHING_TO_WEIGH
    gone = _let_go(present, turn, start, weighing.needed)
    stay = without(gone, present)
    missing = arriving(stay, desired, rollout)
    if remaining_seconds(failure, now) > 0 or _waits_for_drain(turn, stay, gone):
        missing = 0
    displaced = [each for each in present if each.displaced is not None]
    moving = tuple(without(gone, displaced))
    replaced = (*(loss.assignment for loss in turn.survivors.losses), *(each.assignment for each in displaced))
    kept, following = [each.assignment for each in stay], pool.status.next_replica
    growth = Growth(planned, desired, kept, missing, following, replaced, turn.asked, start.accounts)
    growth.opened, growth.lasting = start.moves.kept.get(pool.key.uid, []), sum(each.lasts for each in moving)
    growth.avoided = tuple(node for node, _ in turn.memory.refused_by)
    relocations = tuple(still_told(turn, start.moves, now))
    course = Course(turn, failure, gone, growth, moving, relocations)
    course.awaited = start.moves.awaited.get(pool.key.uid)
    course.opening = start.moves.opening.get(pool.key.uid, ())
    course.present, course.weighing = tuple(present), weighing
    return course


def _let_go(present: Sequence[Departure], turn: Turn, start: _Start, needed: int) -> tuple[Departure, ...]:
    """Who leaves now. What they had is given back once, however often their pool sets out."""
    left = {replica for uid, replica in start.gone if uid == turn.planned.pool.key.uid}
    gone = leaving(present, turn.scale.desired, rollout_of(turn), start.free, needed)
    rest = without(gone, present)
    gone += tuple(
        each for each in rest if each.assignment.replica in left or gives_way_to_its_spare(each, turn, start.free)
    )
    leaves = {each.assignment.replica for each in gone} - left
    for replica in turn.survivors.replicas:
        if replica.assignment.replica in leaves:
            take_back(turn.planned.pool, replica, start.free)
    return gone


def _stays_as_it_is(turn: Turn, start: _Start) -> bool:
    """Whether as many replicas as there should be serve in the planned revision, and none has to move.

    Nobody leaves and nobody comes then, which is so for nearly every pool in nearly every pass.
    """
    standing = turn.survivors.standing
    if standing is None or not standing.ready or turn.asked is not None or start.moves.bind(turn) or start.gone:
        return False
    as_planned = len(standing.replicas) == turn.scale.desired and standing.revisions <= {turn.planned.revision}
    return as_planned and start.free.fabric.troubled().isdisjoint(standing.nodes)


def _departures(turn: Turn, start: _Start) -> list[Departure]:
    """All replicas, each with why it has to go or may, where that is so."""
    present = [_departure(replica, turn, start) for replica in turn.survivors.replicas]
    worse = outlier_that_goes(turn, present)
    if worse is not None:
        goes = (each.assignment.replica == worse.replica for each in present)
        present = [because_it_does_worse(each, worse) if one else each for each, one in zip(present, goes, strict=True)]
    if not any(each.urgent for each in present):
        return present
    noticed = noticed_at(turn.survivors.replicas, start.free.fabric)
    return keep_the_last(present, _enough(turn, present), noticed)


def _enough(turn: Turn, present: Sequence[Departure]) -> int:
    """How many serve until their nodes go, where all are about to: what traffic needs.

    Recreate takes all at once where it replaces a revision.
    """
    rollout = turn.planned.spec.rollout
    if rollout.strategy is RolloutStrategy.Recreate and not rollout.paused and any(each.outdated for each in present):
        return 0
    return min(turn.scale.desired, max(1, turn.scale.needed))


def _departure(replica: Replica, turn: Turn, start: _Start) -> Departure:
    planned, fabric = turn.planned, start.free.fabric
    outdated = replica.assignment.revision != planned.revision
    makes_room = start.moves.leaving.get((planned.pool.key.uid, replica.assignment.replica))
    displaced = displacement(replica, fabric) or makes_room
    alone = (planned.pool.key.uid, replica.assignment.replica) in start.alone
    drain_seconds = planned.spec.rollout.drain_timeout_seconds
    urgent = displaced is not None and is_urgent(replica, fabric, drain_seconds, start.now)
    serves = serves_seconds(replica, fabric, over_seconds(turn), start.now) if urgent else 0.0
    return Departure(replica.assignment, replica.ready, outdated, displaced, replica.nodes, alone, urgent, serves)


def _failure(turn: Turn, now: float) -> Failure | None:
    planned, status = turn.planned, turn.planned.pool.status
    if status.failure is None and not turn.survivors.losses:
        return None
    ready = any(replica.ready for replica in turn.survivors.replicas)
    failures = [loss for loss in turn.survivors.losses if loss.counts and loss.assignment.revision == planned.revision]
    before = forgiven(status.failure, planned.revision, now, some_ready=ready and not failures)
    return failed_again(before, failures, planned.revision, now)


def _waits_for_drain(turn: Turn, stay: list[Departure], gone: tuple[Departure, ...]) -> bool:
    """Recreate never runs two revisions at once: new replicas wait until pods of the old ones are gone."""
    if turn.planned.spec.rollout.strategy is not RolloutStrategy.Recreate or turn.planned.spec.rollout.paused:
        return False
    return any(each.outdated for each in (*stay, *gone)) or turn.draining


def _outcome(course: Course, free: FreeMap, now: float) -> Outcome:
    turn, planned, growth = course.turn, course.turn.planned, course.growth
    weighed = say_what_traffic_holds(course, now) if course.weighing is not NOTHING_TO_WEIGH else ()
    request, told, known = capacity_request(growth), planned.pool.status.start_up, planned.start_up
    stays = told is not None and (told.image, told.weights, told.engine) == (known.image, known.weights, known.engine)
    status = changed(
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
        moves=course.relocations,
        opening=course.opening if growth.refusal is not None else (),
        start_up=told if stays else start_up_now(planned.pool.status, known, now),
    )
    decision = PoolDecision(
        planned.pool.key,
        planned.pool.generation,
        status,
        turn.scale.recommended,
        (
            conditions.planned(planned.plan),
            *conditions.arguments_unknown(planned.spec.engine.args, planned.plan.engine),
            *conditions.relaxed(planned.spec),
            conditions.placed(placement_of(course, free.fabric, now)),
            conditions.slo_met(planned.spec.slo, turn.observation),
            network_bound(planned.spec.role, planned.spec.slo, turn.observation),
            *transfers_failing(course, now),
            *conditions.capacity_requested(request),
        ),
        (*_events(course, free), *outlier_events(course), *weighed),
        request,
    )
    memory = outliers_after(course, now)
    if course.took is not None:
        memory = changed(memory, took=course.took)
    if course.waits != memory.waits:
        memory = changed(memory, waits=course.waits)
    waits = (
        turn.scale.wake_after_seconds,
        remaining_seconds(course.failure, now) or None,
        turn.survivors.wake_after_seconds(growth.kept, now),
        tries_again_after_seconds(growth.added, free),
        wake_after_seconds(memory.outliers, now),
        course.waits_seconds,
        min((each.serves_seconds for each in course.moving if each.lasts), default=None),
        waits_on_seconds(course.waits, now) if course.waits is not None else None,
    )
    return Outcome(decision, memory, min((wait for wait in waits if wait is not None), default=None))


def _replaced(course: Course, free: FreeMap) -> tuple[Departure, ...]:
    """Those whose successors this pass places, in the order in which they leave: each is told once.

    Successors that are there already are those beyond what is desired of replicas that stay.
    """
    if not course.growth.added:
        return ()
    growth, moving = course.growth, choose_victims(course.moving, len(course.moving), free)
    displaced = (*(each for each in course.gone if each.displaced is not None), *moving)
    have_one = len(growth.kept) - len(moving) - (growth.desired - len(displaced))
    return displaced[max(0, have_one) : max(0, have_one + len(growth.added))]


def _events(course: Course, free: FreeMap) -> tuple[Explanation, ...]:
    turn, planned = course.turn, course.turn.planned
    events = [loss.explanation for loss in turn.survivors.losses]
    for each in _replaced(course, free):
        if each.displaced is not None:
            told = f"; {serves_to_the_end(each)}" if each.lasts else ""
            events.append(Explanation(each.displaced.reason, f"{is_replaced(each)}{told}"))
    events += _last_ones(course)
    events += [told for told in (course.preempted, turn.taught, turn.scale.changed) if told is not None]
    before = planned.pool.status.plan
    if before is not planned.plan and (before is None or before.shape != planned.plan.shape):
        events.append(_shape_event(before, planned.plan))
    return tuple(events)


def _last_ones(course: Course) -> list[Explanation]:
    """Those that leave just now though nobody serves after them, as their nodes go."""
    if serving(course.present) or any(each.lasts for each in course.moving) or course.growth.desired < 1:
        return []
    last = [each for each in course.gone if each.urgent and each.ready and not each.alone]
    return [Explanation(Reason.LastOneLeaves, leaves_last(each)) for each in last]


def _shape_event(before: Plan | None, now: Plan) -> Explanation:
    change = f"{now.shape}" if before is None else f"{before.shape} -> {now.shape}"
    return Explanation(now.verdict.reason, f"{change}: {now.verdict.message}")
