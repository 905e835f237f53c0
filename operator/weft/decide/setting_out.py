"""How each pool sets out in a pass: who leaves, and how many are to come, for whom places are looked for afterwards."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.counting.worth import share_beside
from weft.decide.course import NOTHING_TO_WEIGH, Course, Growth, Leaving, OwnMoves, from_nothing
from weft.decide.places.moving import still_told
from weft.decide.places.outliers import because_it_does_worse, outlier_that_goes
from weft.decide.places.spares import gives_way_to_its_spare
from weft.decide.replicas.promises import keep_promise, take_back
from weft.decide.rollouts.avoidance import avoided_by
from weft.decide.rollouts.backoff import ends_by_itself, failure_of, remaining_seconds
from weft.decide.rollouts.counted_on import ServingHalf, counted_on
from weft.decide.rollouts.drains import displacement, is_urgent, noticed_at, over_seconds, serves_seconds
from weft.decide.rollouts.lasting import keep_the_last, pairs_that_last
from weft.decide.rollouts.pairing import alone_in, pair_of_replica, rolls_as_a_pair, unmatched_in
from weft.decide.rollouts.pauses import comes_first, is_apart, is_hidden
from weft.decide.rollouts.predecessors import awaited
from weft.decide.rollouts.rollout import arriving, has_to_go, leaving, limits_of, without
from weft.decide.rollouts.terms import recreates, rollout_of
from weft.decide.rollouts.trials import on_trial
from weft.decide.rollouts.weighing import weigh
from weft.decide.shapes.holes import changes_shape, fit, kept_for_want_of_room, kept_while_frozen, new_shapes_fit
from weft.domain.reasons import Reason
from weft.domain.spec import RolloutStrategy
from weft.domain.stumbling import stumbled
from weft.placement import Departure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.decide.course import Turn, Weighing
    from weft.decide.replicas.health import AssignedReplica
    from weft.decide.shapes.start import Start
    from weft.domain.status import Failure


def all_set_out(units: Sequence[Sequence[Turn]], start: Start) -> list[list[Course]]:
    """The courses of all units; those that would change shape set out last, when the room for that can be seen."""
    found: dict[int, list[Course]] = {}
    changing = list(map(changes_shape, units))
    for index in sorted(range(len(units)), key=changing.__getitem__):
        turns = units[index]
        try:
            found[index] = _with_room(turns, start) if changing[index] else _together(turns, start)
        except Exception as error:
            raise stumbled(error, *(turn.planned.pool for turn in turns)) from error
    return [found[index] for index in range(len(units))]


def _with_room(turns: Sequence[Turn], start: Start) -> list[Course]:
    """The courses of a unit, in new shapes where these have room, also in what it lets go while it keeps old ones."""
    if (frozen := kept_while_frozen(turns, start, start.replan)) is not None:
        return _together(frozen, start)
    kept = kept_for_want_of_room(turns, start, start.replan)
    courses = _together(kept, start)
    if kept is turns or not any(course.leaving.gone for course in courses):
        return courses
    staying = [_without_those_that_leave(turn, course) for turn, course in zip(turns, courses, strict=True)]
    return set_out_anew(turns, courses, start) if new_shapes_fit(staying, start.free) else courses


def _without_those_that_leave(turn: Turn, course: Course) -> Turn:
    """The turn without replicas that leave: what they serve need not be matched, nor does the next pass see them."""
    gone = {each.assignment.replica for each in course.leaving.gone}
    left = tuple(each for each in turn.survivors.replicas if each.assignment.replica not in gone)
    return replace(turn, survivors=replace(turn.survivors, replicas=left))


def set_out_anew(turns: Sequence[Turn], before: Sequence[Course], start: Start) -> list[Course]:
    """The courses of the same pools in other shapes: replicas that left stay gone, unless they have their place back.

    What was kept as spares before is released first.
    """
    for hold in (hold for course in before for hold in course.growth.spares):
        start.free.release(hold)
    left = [
        (turn.planned.pool.key.uid, each.assignment.replica)
        for turn, course in zip(turns, before, strict=True)
        for each in course.leaving.gone
        if not _has_its_place_back(each, turn, start)
    ]
    return _together(turns, replace(start, gone=frozenset(left)))


def _has_its_place_back(each: Departure, turn: Turn, start: Start) -> bool:
    """Whether a replica left only for another shape, of which none comes, and its promised place is still free."""
    planned = turn.planned
    if each.assignment.revision != planned.revision or not each.assignment.nodes:
        return False
    found = next(one for one in turn.survivors.replicas if one.assignment.replica == each.assignment.replica)
    on_its_way = not found.released and not found.bound
    return on_its_way and keep_promise(planned.pool, found, planned.plan.shape, start.free) is None


def _together(turns: Sequence[Turn], start: Start) -> list[Course]:
    """The courses of one pool, or of both halves of a split."""
    if len(turns) == 1 or not any(map(rolls_as_a_pair, turns)):
        return [_set_out(turn, start, turns) for turn in turns]
    paired = replace(start, alone=alone_in(turns), unmatched=unmatched_in(turns))
    begun = replace(paired, pair_places=_places_of_pairs(turns, paired))
    held = replace(begun, counted_on=_counted_on(turns, begun))
    courses = [_set_out(turn, held, turns) for turn in turns]
    if held.counted_on and _nothing_goes_on(courses, start):
        courses = [_set_out(turn, begun, turns) for turn in turns]
    return courses


def _places_of_pairs(turns: Sequence[Turn], start: Start) -> dict[tuple[str, int], int] | None:
    """By (pool UID, replica id) how many pairs serve longer than the replica's, where nodes of some go away."""
    present = [[_departure(replica, turn, start) for replica in turn.survivors.replicas] for turn in turns]
    if not any(each.urgent for half in present for each in half):
        return None
    halves = [_by_pair(half, turn) for half, turn in zip(present, turns, strict=True)]
    return {
        (turn.planned.pool.key.uid, each.assignment.replica): place
        for place, pair in enumerate(pairs_that_last(halves))
        for turn, half in zip(turns, halves, strict=True)
        for each in half[pair]
    } or None


def _counted_on(turns: Sequence[Turn], start: Start) -> frozenset[tuple[str, int]]:
    """(Pool UID, replica id) of those without which the pairs of a split that rolls would serve too little.

    None where one generation is shown at a time, where all go first, or where another scheduler has the places.
    """
    routed = any(turn.routers.are_there for turn in turns)
    if any(_rolls_without_counting(turn, routed=routed) for turn in turns):
        return frozenset()
    found = counted_on([_serving_half(turn, start, turns) for turn in turns], turns[0].planned.spec.pair)
    return frozenset(
        (turn.planned.pool.key.uid, each) for turn, counted in zip(turns, found, strict=True) for each in counted
    )


def _rolls_without_counting(turn: Turn, *, routed: bool) -> bool:
    spec = turn.planned.spec
    shown_whole = spec.has_sidecar and not routed
    return shown_whole or spec.rollout.strategy is RolloutStrategy.Recreate or turn.asked is not None


def _by_pair(replicas: Iterable[Departure], turn: Turn) -> dict[str, list[Departure]]:
    """Replicas of one half by the pair that they were rendered for."""
    pairs = {each.assignment.replica: pair_of_replica(each, turn) for each in turn.survivors.replicas}
    found: dict[str, list[Departure]] = defaultdict(list)
    for each in replicas:
        found[pairs[each.assignment.replica]].append(each)
    return found


def _serving_half(turn: Turn, start: Start, unit: Sequence[Turn]) -> ServingHalf:
    present = _departures(turn, start)
    able = [each for each in present if each.ready and not each.urgent and not each.stranded]
    keeps = _weighing(present, turn, start, unit).keeps
    limits = limits_of(rollout_of(turn), turn.scale.desired, keeps)
    return ServingHalf(turn.scale.desired, limits.unavailable, _by_pair(able, turn))


def _nothing_goes_on(courses: Sequence[Course], start: Start) -> bool:
    """Whether some have to leave a split, and nobody does, is on the way, or has room to come, now or ever."""
    if any(course.leaving.gone or course.growth.held is not None for course in courses):
        return False
    if any(each.trial_seconds > 0.0 for course in courses for each in course.leaving.present):
        return False
    if not any(has_to_go(each, rollout_of(course.turn)) for course in courses for each in course.leaving.present):
        return False
    if not all(replica.ready for course in courses for replica in course.turn.survivors.replicas):
        return False
    coming = [course.growth for course in courses if course.growth.missing > 0]
    paid = start.accounts.short([growth.planned for growth in coming]) is None
    return not (coming and paid and fit(coming, start.free))


def _set_out(turn: Turn, start: Start, unit: Sequence[Turn]) -> Course:
    """Let replicas leave and count how many are missing; places are looked for afterwards."""
    failure = failure_of(turn, start.now)
    if _stays_as_it_is(turn, start):
        return Course(turn, failure, _at_rest(turn, start))
    leaves = _leaving(turn, start, unit)
    stay = without(leaves.gone, leaves.present)
    held = _why_nobody_comes(turn, start, failure, (*stay, *leaves.gone))
    growth = _growth(turn, start, leaves, 0 if held else arriving(stay, turn.scale.desired, rollout_of(turn)))
    growth.held = held
    growth.first = growth.missing > 0 and comes_first(turn, unit)
    growth.apart, growth.hidden = is_apart(turn, unit), is_hidden(turn, unit)
    return Course(turn, failure, growth, leaves, _own_moves(turn, start))


def _at_rest(turn: Turn, start: Start) -> Growth:
    kept = [replica.assignment for replica in turn.survivors.replicas]
    following = turn.planned.pool.status.next_replica
    return Growth(turn.planned, turn.scale.desired, kept, 0, following, accounts=start.accounts)


def _leaving(turn: Turn, start: Start, unit: Sequence[Turn]) -> Leaving:
    """Who leaves now, and who once it is replaced."""
    present = _departures(turn, start)
    if any([each.outdated for each in present]):  # noqa: C419 - a generator is a call for each replica
        present = _with_those_who_stay_for_it(present, turn, start, unit)
    weighing = _weighing(present, turn, start, unit)
    gone = _let_go(present, turn, start, weighing.keeps)
    moving = without(gone, [each for each in present if each.displaced is not None])
    return Leaving(tuple(present), gone, tuple(moving), weighing)


def _with_those_who_stay_for_it(
    present: Sequence[Departure], turn: Turn, start: Start, unit: Sequence[Turn]
) -> list[Departure]:
    """The replicas of a pool that rolls: which new ones are on trial, and which earlier ones outlast their failures."""
    present = on_trial(present, turn, unit, start.heard)
    if any(_keeps_earlier_ones(each, start) for each in unit):
        return [replace(each, outlasts=each.outdated and each.displaced is None) for each in present]
    return present


def _keeps_earlier_ones(turn: Turn, start: Start) -> bool:
    """Whether a pool rolls to a revision whose engines end by themselves, and can be tried again without its place.

    Nor does anybody leave for it where as many are gone already as may be: others were given what these had.
    """
    planned, replicas, rollout = turn.planned, turn.survivors.replicas, rollout_of(turn)
    failure = failure_of(turn, start.now)
    new = sum(each.assignment.revision == planned.revision for each in replicas)
    rolls = new < len(replicas) and rollout.strategy is not RolloutStrategy.Recreate
    if not rolls or not ends_by_itself(failure):
        return False
    wanted = turn.scale.desired if turn.share is None else turn.share.want
    lost_one = wanted - len(replicas) >= max(1, limits_of(rollout, wanted).unavailable)
    if new or remaining_seconds(failure, start.now) > 0 or lost_one:
        return True
    beside = len(replicas) < turn.scale.desired + limits_of(rollout, turn.scale.desired).surge
    return beside and start.accounts.short([planned]) is None and fit([from_nothing(turn, 1)], start.free)


def _weighing(present: Sequence[Departure], turn: Turn, start: Start, unit: Sequence[Turn]) -> Weighing:
    rollout = rollout_of(turn)
    lets_go = rollout.max_unavailable != 0 or rollout.max_surge == 0
    going = lets_go and any(each.outdated or each.displaced is not None for each in present)
    return weigh(turn, unit, start.now) if going else NOTHING_TO_WEIGH


def _growth(turn: Turn, start: Start, leaves: Leaving, missing: int) -> Growth:
    """Who stays, how many are to come, and what is kept for them."""
    pool, kept = turn.planned.pool, [each.assignment for each in without(leaves.gone, leaves.present)]
    displaced = (each.assignment for each in leaves.present if each.displaced is not None)
    return Growth(
        turn.planned,
        turn.scale.desired,
        kept,
        missing,
        pool.status.next_replica,
        replaced=(*(loss.assignment for loss in turn.survivors.losses), *displaced),
        asked=turn.asked,
        accounts=start.accounts,
        opened=start.moves.kept.get(pool.key.uid, []),
        avoided=tuple(each.node for each in avoided_by(turn, start.now)),
        lasting=sum(each.lasts for each in leaves.moving),
    )


def _own_moves(turn: Turn, start: Start) -> OwnMoves:
    uid, moves = turn.planned.pool.key.uid, start.moves
    return OwnMoves(tuple(still_told(turn, moves, start.now)), moves.awaited.get(uid), moves.opening.get(uid, ()))


def _let_go(present: Sequence[Departure], turn: Turn, start: Start, needed: int) -> tuple[Departure, ...]:
    """The replicas that leave now; what they had is given back once, however often their pool sets out."""
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


def _stays_as_it_is(turn: Turn, start: Start) -> bool:
    """Whether as many replicas as there should be serve in the planned revision, and none has to move.

    Nobody leaves and nobody comes then, which is so for nearly every pool in nearly every pass.
    """
    standing = turn.survivors.standing
    if standing is None or not standing.ready or turn.asked is not None or start.moves.bind(turn) or start.gone:
        return False
    as_planned = len(standing.replicas) == turn.scale.desired and standing.revisions <= {turn.planned.revision}
    return as_planned and start.free.fabric.troubled().isdisjoint(standing.nodes)


def _departures(turn: Turn, start: Start) -> list[Departure]:
    """All replicas, each with why it has to go or may, where that is so."""
    present = [_departure(replica, turn, start) for replica in turn.survivors.replicas]
    worse = outlier_that_goes(turn, present)
    if worse is not None:
        goes = (each.assignment.replica == worse.replica for each in present)
        present = [because_it_does_worse(each, worse) if one else each for each, one in zip(present, goes, strict=True)]
    if not any(each.urgent for each in present):
        return present
    noticed = noticed_at(turn.survivors.replicas, start.free.fabric)
    return keep_the_last(present, _enough(turn, present), noticed, _own_places(turn, start))


def _own_places(turn: Turn, start: Start) -> dict[int, int] | None:
    if start.pair_places is None:
        return None
    uid = turn.planned.pool.key.uid
    return {replica: place for (pool, replica), place in start.pair_places.items() if pool == uid}


def _enough(turn: Turn, present: Sequence[Departure]) -> int:
    """How many serve until their nodes go, where all are about to: what traffic needs.

    Recreate takes all at once where it replaces a revision.
    """
    if rollout_of(turn).strategy is RolloutStrategy.Recreate and any(each.outdated for each in present):
        return 0
    return min(turn.scale.desired, max(1, turn.scale.needed))


def _departure(replica: AssignedReplica, turn: Turn, start: Start) -> Departure:
    planned, fabric = turn.planned, start.free.fabric
    ready, outdated = replica.ready, replica.assignment.revision != planned.revision
    known_as = (planned.pool.key.uid, replica.assignment.replica)
    makes_room = start.moves.leaving.get(known_as)
    stranded = turn.survivors.waits_for_a_node(replica)
    displaced = displacement(replica, fabric, waits_for_a_node=stranded) or makes_room
    drain_seconds = planned.spec.rollout.drain_timeout_seconds
    urgent = displaced is not None and is_urgent(replica, fabric, drain_seconds, start.now)
    serves = serves_seconds(replica, fabric, over_seconds(turn), start.now) if urgent else 0.0
    return Departure(
        replica.assignment,
        ready,
        outdated,
        displaced=displaced,
        bound=replica.nodes,
        alone=known_as in start.alone,
        unmatched=known_as in start.unmatched,
        urgent=urgent,
        serves_seconds=serves,
        share=share_beside(replica.assignment, planned) if outdated and not turn.frozen else 1.0,
        stranded=stranded,
        unmade=outdated and not (replica.whole or replica.may_have_run),
        may_answer_again=not ready and replica.hangs,
        counted_on=known_as in start.counted_on,
    )


def _why_nobody_comes(turn: Turn, start: Start, failure: Failure | None, present: Iterable[Departure]) -> Reason | None:
    """Why no replica may come, whatever is missing: it failed just now, nothing pays for it, or others leave first."""
    if remaining_seconds(failure, start.now) > 0:
        return Reason.BackingOff
    if turn.frozen:
        return Reason.BudgetExhausted
    return Reason.Draining if _waits_for_drain(turn, present, start.now) else None


def _waits_for_drain(turn: Turn, present: Iterable[Departure], now: float) -> bool:
    """Recreate never runs two revisions at once: new replicas wait until pods of the old ones are gone, or overdue."""
    return recreates(turn) and (any(each.outdated for each in present) or bool(awaited(turn, now)))
