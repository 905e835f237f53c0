"""What moving a few replicas would open: told to whoever has no place, and not done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.placement import Demand, Movable, repack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.decide.course import Course
    from weft.placement import FreeMap, Move, Repacking

MOST_MOVES = 8
LOOKED_AT = 3  # pools without a place for which moves are looked for in one pass, so that it stays short
NAMED = 2


def tell_what_moves_would_open(courses: Sequence[Course], free: FreeMap) -> None:
    """Add to the first few refusals which moves would make room, where some would."""
    stuck = [course for course in courses if _may_be_helped(course)][:LOOKED_AT]
    movable = tuple(each for course in courses for each in _movable(course)) if stuck else ()
    for course in stuck:
        growth = course.growth
        found = repack(_demand(course), movable, free, MOST_MOVES)
        if growth.refusal is not None and found is not None and found.moves:
            message = f"{growth.refusal.message}; {_would_open(found)}"
            growth.refusal = replace(growth.refusal, message=message)


def _may_be_helped(course: Course) -> bool:
    growth = course.growth
    return growth.refusal is not None and growth.waits_for is None and growth.asked is None


def _demand(course: Course) -> Demand:
    planned = course.growth.planned
    return Demand(planned.plan.shape, planned.spec.placement, planned.spec.engine.resources)


def _movable(course: Course) -> Iterator[Movable]:
    """Ready replicas of the revision that is planned; others are about to leave anyway."""
    planned, demand = course.turn.planned, _demand(course)
    leaving = {each.assignment.replica for each in (*course.gone, *course.moving)}
    for each in course.turn.survivors.replicas:
        assignment = each.assignment
        stays = assignment.replica not in leaving and assignment.revision == planned.revision
        if stays and each.ready and assignment.handover is None:
            owner = f"replica {assignment.replica} of {planned.pool.key.namespace}/{planned.pool.key.name}"
            yield Movable(owner, demand, assignment.nodes, int(assignment.compute_domain is not None))


def _would_open(found: Repacking) -> str:
    named = ", ".join(_told(move) for move in found.moves[:NAMED])
    more = f" and {len(found.moves) - NAMED} more" if len(found.moves) > NAMED else ""
    return f"moving {named}{more} would make room ({'1 GPU moves' if found.gpus == 1 else f'{found.gpus} GPUs move'})"


def _told(move: Move) -> str:
    return f"{move.owner} from {_nodes(move.source)} to {_nodes(move.target)}"


def _nodes(nodes: Sequence[str]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more"
