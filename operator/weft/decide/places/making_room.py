"""What moving a few replicas would open for whoever has no place: done within the budget, else told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from weft.decide.places.growth import assign
from weft.decide.places.moving import makes_room_for, owner_of, required_of, waits_until_they_moved
from weft.decide.replicas.promises import held_by
from weft.decide.replicas.slots import fits_in_place
from weft.decide.rollouts.rollout import limits_of
from weft.decide.rollouts.terms import rollout_of
from weft.domain.moves import Relocation
from weft.domain.spec import RolloutStrategy
from weft.domain.texts.figures import some_of
from weft.domain.values.changed import changed
from weft.engines.kv.nvlink import over_nvlink
from weft.placement import Departure, Hold, Movable, repack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.decide.course import Course
    from weft.domain.fabric import Fabric
    from weft.domain.snapshot import Snapshot
    from weft.placement import FreeMap, Move, Repacking, Requirements

MOST_MOVES = 8
LOOKED_AT = 3  # pools without a place for which moves are looked for in one pass, so that it stays short
NAMED = 2


@dataclass(slots=True)
class Purse:
    """How many moves may still begin in this pass, and why there are no more."""

    left: int
    limit: str

    @classmethod
    def of(cls, snapshot: Snapshot) -> Purse:
        """What the moves of this hour, and those begun at this very moment (which may be decided twice), leave."""
        budget, moves = snapshot.budget, [each for pool in snapshot.pools for each in pool.status.moves]
        if budget is None:
            return cls(0, "")
        left = budget.per_hour - sum(each.is_recent(snapshot.now) for each in moves)
        at_once = budget.per_decision - sum(each.since == snapshot.now for each in moves)
        if budget.per_hour < 1:
            return cls(0, ", but moves are off")
        if left < at_once:
            return cls(max(0, left), f", but at most {budget.per_hour} may begin in an hour")
        return cls(max(0, at_once), f", but at most {budget.per_decision} may begin at once")


@dataclass(frozen=True, slots=True)
class _Resident:
    """A replica that may be moved, and whose."""

    course: Course
    departure: Departure
    movable: Movable


def make_room(courses: Sequence[Course], free: FreeMap, purse: Purse, now: float) -> None:
    """For the first few pools without a place: begin the moves that open one, or name those moves in the refusal."""
    stuck = [course for course in courses if course.growth.lacks_room and _may_be_helped(course)][:LOOKED_AT]
    residents = {each.movable.owner: each for course in courses for each in _residents(course, now)} if stuck else {}
    movable = [each.movable for each in residents.values()]
    for course in stuck:
        required = required_of(course.turn)
        if (found := _moves_for(required, movable, free, min(purse.left, MOST_MOVES))) is not None:
            purse.left -= len(found.moves)
            _begin(course, found, residents, free, now)
            movable = [each for each in movable if each.owner not in {move.owner for move in found.moves}]
        elif purse.left < MOST_MOVES and (found := _moves_for(required, movable, free, MOST_MOVES)) is not None:
            _tell(course, found, purse)


def _moves_for(required: Requirements, movable: Sequence[Movable], free: FreeMap, most: int) -> Repacking | None:
    """The moves that open a place, at least one; None where there are none within `most`."""
    found = repack(required, movable, free, most) if most > 0 else None
    return found if found is not None and found.moves else None


def _may_be_helped(course: Course) -> bool:
    growth = course.growth
    alone = growth.waits_for is None and growth.asked is None and course.moves.awaited is None
    return alone and not _stays(course)


def _stays(course: Course) -> bool:
    """Whether a pool neither moves nor is moved for: its rack is chosen when the first of its replicas is placed."""
    return over_nvlink(course.growth.planned.spec)


def _residents(course: Course, now: float) -> Iterator[_Resident]:
    """Ready replicas of the revision that is planned, where their successors may come first; others leave anyway.

    None of a pool that lacks replicas itself, that is frozen, or whose quota has no room for a successor. Those of a
    split over NVLink have to stay in their rack, whose nodes they take whole, so that their moves open nothing.
    """
    turn, rollout, growth = course.turn, rollout_of(course.turn), course.growth
    lacks = len(growth.kept) + len(growth.added) < growth.desired
    recreates = turn.planned.spec.rollout.strategy is RolloutStrategy.Recreate
    held = rollout.paused or recreates or turn.planned.spec.scaling.frozen_until(now) is not None
    paid = growth.accounts.short([turn.planned]) is None
    if lacks or not paid or held or limits_of(rollout, growth.desired).surge < 1 or _stays(course):
        return
    required, leaving = required_of(turn), course.leaving.ids
    for each in turn.survivors.replicas:
        assignment = each.assignment
        stays = assignment.replica not in leaving and assignment.revision == turn.planned.revision
        surely_serves = each.ready and not turn.survivors.waits_for_a_node(each)
        if stays and surely_serves and assignment.handover is None:
            departure = Departure(assignment, ready=True, outdated=False)
            owner, joins = owner_of(turn, assignment.replica), int(assignment.compute_domain is not None)
            yield _Resident(course, departure, Movable(owner, required, assignment.nodes, joins))


def _begin(course: Course, found: Repacking, residents: Mapping[str, _Resident], free: FreeMap, now: float) -> None:
    """Say who moves for whom, and take all targets; how many successors come at once is up to their rollouts."""
    gone: dict[str, int] = {}
    for move in found.moves:
        resident = residents[move.owner]
        gone |= {node: gone.get(node, 0) + move.gpus_per_pod for node in move.source}
        _send(resident, move, course, free.fabric, now)
        for node in move.target:
            free.reserve(Hold(node, move.gpus_per_pod, move.owner, resident.movable.joins, resident.movable.memory))
    gpus = course.turn.planned.plan.shape.gpus_per_pod
    for node in found.slot.nodes:
        free.reserve(Hold(node, max(0, gpus - gone.get(node, 0)), f"pool {course.turn.name}"))
    course.growth.refusal = waits_until_they_moved(move.owner for move in found.moves)
    course.moves = changed(course.moves, awaited=course.growth.refusal, opening=found.slot.nodes)


def _send(resident: _Resident, move: Move, course: Course, fabric: Fabric, now: float) -> None:
    mover, growth = resident.course, resident.course.growth
    assignment = resident.departure.assignment
    told = (*mover.moves.told, Relocation(assignment.replica, now, course.turn.name))
    moving = (*mover.leaving.moving, replace(resident.departure, displaced=makes_room_for(course.turn)))
    mover.moves, mover.leaving = changed(mover.moves, told=told), changed(mover.leaving, moving=moving)
    most = growth.desired + limits_of(rollout_of(mover.turn), growth.desired).surge
    if len(growth.kept) + len(growth.added) < most:
        growth.add(assign(growth, move.target, fabric, now))


def _tell(course: Course, found: Repacking, purse: Purse) -> None:
    refusal = course.growth.refusal
    if refusal is not None:
        message = f"{refusal.message}; {_would_open(found)}{purse.limit}"
        course.growth.refusal = replace(refusal, message=message)


def _would_open(found: Repacking) -> str:
    named = some_of([_told(move) for move in found.moves], NAMED)
    return f"moving {named} would make room ({'1 GPU moves' if found.gpus == 1 else f'{found.gpus} GPUs move'})"


def _told(move: Move) -> str:
    return f"{move.owner} from {_nodes(move.source)} to {_nodes(move.target)}"


def _nodes(nodes: Sequence[str]) -> str:
    return some_of(nodes, 1)


def say_who_fits_in_place(courses: Iterable[Course], free: FreeMap) -> None:
    """Replicas that cannot be replaced first, as their own nodes are most of the room that there is, may be after."""
    for course in courses:
        growth, moving = course.growth, next(filter(_can_wait, course.leaving.moving), None)
        rollout = growth.planned.spec.rollout
        if growth.refusal is None or moving is None or limits_of(rollout, growth.desired).unavailable > 0:
            continue
        number = moving.assignment.replica
        pods = (each.pods for each in course.turn.survivors.replicas if each.assignment.replica == number)
        held = held_by(growth.planned.pool, chain.from_iterable(pods), free.fabric)
        if fits_in_place(growth.planned, (*growth.spares, *growth.opened, *held), free):
            hint = (
                f"with spec.rollout.maxUnavailable above 0 replica {number} would leave first, "
                "and its successor has room"
            )
            growth.refusal = replace(growth.refusal, message=f"{growth.refusal.message}; {hint}")


def _can_wait(each: Departure) -> bool:
    return not each.may_return and not each.urgent


def say_what_is_awaited(courses: Iterable[Course]) -> None:
    """Pools whose place is being made say so instead of what is missing."""
    for course in courses:
        if course.moves.awaited is not None and course.growth.refusal is not None:
            course.growth.refusal = course.moves.awaited
