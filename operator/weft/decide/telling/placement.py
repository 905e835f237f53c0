"""Whether every replica has a place, in words: where they are, and what is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from weft.decide.counting.frozen import why_none_comes
from weft.decide.places.growth import lacks_room_for
from weft.decide.places.handover import waiting_in_queue
from weft.decide.replicas.health import NODE_LOST_SECONDS
from weft.decide.rollouts.avoidance import avoided_by, come_last
from weft.decide.rollouts.predecessors import who_is_awaited
from weft.decide.rollouts.rollout import has_to_go, limits_of, serving, without
from weft.decide.rollouts.terms import rollout_of
from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import counted
from weft.domain.values.made_often import made_often
from weft.domain.values.remembered import LastAnswers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.decide.course import Course, Growth
    from weft.decide.replicas.health import AssignedReplica
    from weft.decide.replicas.survivors import Stranded
    from weft.domain.fabric import Fabric
    from weft.domain.shape import Shape
    from weft.domain.status import Assignment, Failure
    from weft.placement import Departure, FreeMap


@made_often
@dataclass(frozen=True, slots=True)
class _Homes:
    """How many replicas of a shape there shall be, where they are, and what says in which NVLink domains that is."""

    desired: int
    shape: Shape
    placed: tuple[Assignment, ...]
    domains: object


REMEMBERED = 16_384  # pools
_LAST: LastAnswers[_Homes, Explanation] = LastAnswers(REMEMBERED)


def placement_of(course: Course, free: FreeMap, now: float) -> Explanation:
    """Whether every replica that shall be there has nodes; a rollout that finds no room counts as one that has not.

    So does a replica on a silent node that nothing has room to replace, whether a rollout lets its successor come first
    or not.
    """
    return _with_who_is_waited_for(_placement(course, free, now), course, free.fabric)


def _placement(course: Course, free: FreeMap, now: float) -> Explanation:
    turn, growth = course.turn, course.growth
    have = len(growth.kept) + len(growth.added)
    if growth.refusal is not None:
        return Explanation(growth.refusal.reason, _why_no_slot(course, have))
    if growth.desired == 0:
        return turn.scale.shortfall or Explanation(Reason.NothingToPlace, "no replica is desired")
    if course.failure is not None and growth.held is Reason.BackingOff and have < growth.desired:
        told = f"{_why_waiting(course.failure)}{come_last(avoided_by(turn, now))}"
        return Explanation(Reason.BackingOff, told)
    if have < growth.desired:
        return _others_wait(course, have, now)
    if turn.scale.shortfall is not None:
        return turn.scale.shortfall
    return _queueing(course) or _all_placed(course, free)


def _others_wait(course: Course, have: int, now: float) -> Explanation:
    """What missing replicas wait for: a drain, or where what serves stays, a budget that pays for one more."""
    told = f"{have} of {course.growth.desired} replicas placed"
    if course.growth.held is Reason.BudgetExhausted:
        return Explanation(Reason.BudgetExhausted, f"{told}; {why_none_comes(course.turn.scale)}")
    left = who_is_awaited(course.turn, now) if course.growth.held is Reason.Draining else ""
    return Explanation(Reason.Draining, f"{told}; others wait for {f'the end of {left}' if left else 'a drain'}")


def _all_placed(course: Course, free: FreeMap) -> Explanation:
    """Where all replicas are placed, and which of them is replaced."""
    growth, planned, fabric = course.growth, course.turn.planned, free.fabric
    placed = (*growth.kept, *growth.added)
    homes = _Homes(growth.desired, planned.plan.shape, placed, fabric.layout or fabric.domains)
    found = _LAST.ask(planned.pool.key.uid, homes, lambda _: _at_home(homes, fabric))
    if not course.leaving.moving:
        return found
    lacks = lacks_room_for(_without_successor(course), growth, free) if course.turn.asked is None else None
    if lacks is not None:
        return Explanation(lacks.reason, f"{_are_replaced(course.leaving.moving)}; {lacks.message}")
    return Explanation(found.reason, f"{found.message}; {is_replaced(course.leaving.moving[0])}")


def _without_successor(course: Course) -> int:
    """Replicas whose nodes do not answer, beyond those that are there above the count."""
    silent = sum(each.may_return for each in course.leaving.moving)
    return silent - max(0, course.growth.have - course.growth.desired)


def _at_home(homes: _Homes, fabric: Fabric) -> Explanation:
    told = f"{counted(homes.desired, 'replica')} placed: {homes.shape}{_blast_radius(homes.placed, fabric)}"
    return Explanation(Reason.AllPlaced, told)


def _queueing(course: Course) -> Explanation | None:
    turn, growth = course.turn, course.growth
    if turn.survivors.standing is not None and turn.asked is None:
        return None  # every pod runs, and what is new is not handed over
    return waiting_in_queue(_staying(course), growth.added, growth.desired)


def _blast_radius(placed: tuple[Assignment, ...], fabric: Fabric) -> str:
    """What one NVLink domain takes along when it fails."""
    if len(placed) < 2:  # noqa: PLR2004 - one replica is all there is
        return ""
    most = _most_together(placed, fabric)
    return f", at most {most} of them in one NVLink domain" if most else ""


def _most_together(placed: tuple[Assignment, ...], fabric: Fabric) -> int:
    nodes = fabric.nodes()
    touched: Counter[str] = Counter()
    for each in placed:
        touched.update({nodes[name].domain for name in each.nodes if name in nodes})
    return max(touched.values(), default=0)


def _staying(course: Course) -> list[AssignedReplica]:
    replicas, kept = course.turn.survivors.replicas, course.growth.kept
    return list(replicas) if len(replicas) == len(kept) else [each for each in replicas if each.assignment in kept]


def _with_who_is_waited_for(explanation: Explanation, course: Course, fabric: Fabric) -> Explanation:
    """The explanation, with the scheduler's words on a pod that it does not bind, or whose leaving pods one waits for.

    Last come replicas that serve though their node is gone, those that serve to the end, and slow ones that stay.
    """
    every_pod_runs, stranded = course.turn.survivors.standing is not None, course.turn.survivors.stranded
    if every_pod_runs and not (course.growth.added or course.leaving.moving or stranded or course.why.remarks):
        return explanation
    staying = [] if every_pod_runs else _staying(course)
    words = (pod.waiting for each in staying for pod in each.pods if pod.waiting)
    waiting = next(chain(words, _waits_for_leaving_pods(course, fabric)), None)
    last = (serves_to_the_end(each) for each in course.leaving.moving if each.lasts)
    left = [waits_for_its_node(stranded)] if stranded else []
    told = "; ".join((explanation.message, *([waiting] if waiting else ()), *left, *last, *course.why.remarks))
    return replace(explanation, message=told) if told != explanation.message else explanation


def _waits_for_leaving_pods(course: Course, fabric: Fabric) -> Iterator[str]:
    """Replicas behind their gates whose place their own predecessors still hold."""
    survivors, nodes = course.turn.survivors, fabric.nodes()
    kept = course.growth.kept if survivors.standing is None else []  # else all of them are released
    released = {each.assignment for each in survivors.replicas if each.released} if kept else set()
    for each in (*kept, *course.growth.added):
        held = (name for name in each.nodes if name in nodes and nodes[name].free < each.gpus_per_pod)
        if each not in released and (node := next(held, None)) is not None:
            yield f"replica {each.replica} waits until pods that leave {node} are gone"


def _why_no_slot(course: Course, have: int) -> str:
    growth = course.growth
    refusal = growth.refusal.message if growth.refusal else ""
    if have < growth.desired or (growth.refusal is not None and growth.refusal.reason is Reason.Paused):
        return f"{have} of {growth.desired} replicas placed; {refusal}{_who_waits_for_all(course)}"
    if growth.refusal is not None and growth.refusal.reason is Reason.Preempting:
        return f"{have} of {course.wanted} replicas placed; {refusal}"
    if course.leaving.moving:
        return f"{_are_replaced(course.leaving.moving)}; {refusal}"
    in_their_place = "" if course.turn.barred else _without_more_gpus(growth)
    return f"the rollout finds no room for a replica of the new revision; {refusal}{in_their_place}"


def _who_waits_for_all(course: Course) -> str:
    """That a rollout replaces nobody while places lack: fewer serve than it may make unavailable."""
    turn, leaving, rollout = course.turn, course.leaving, rollout_of(course.turn)
    stay = without(leaving.gone, leaving.present)
    outdated = sum(each.outdated and each.ready and has_to_go(each, rollout) for each in stay)
    desired = course.growth.desired
    if turn.barred or not outdated or serving(stay) - (desired - limits_of(rollout, desired).unavailable) >= 1:
        return ""
    of_it = f"{counted(outdated, 'replica')} of the earlier revision {'stays' if outdated == 1 else 'stay'}"
    return f"; until then {of_it}: lower the count, or raise spec.rollout.maxUnavailable"


def _without_more_gpus(growth: Growth) -> str:
    """How a rollout goes on where there are none for a surge."""
    spec = growth.planned.spec
    if spec.has_sidecar:
        return ", or set spec.rollout.strategy Recreate: behind a Gateway a split rolls whole"
    if limits_of(spec.rollout, growth.desired).unavailable:
        return ""
    return ", or set spec.rollout.maxUnavailable above 0, or spec.rollout.strategy Recreate"


def _are_replaced(moving: Sequence[Departure]) -> str:
    first, second, more = is_replaced(moving[0]), moving[1:2], len(moving) - 2
    if not second:
        return f"{first}, but nothing has room for its replacement"
    others = f" (and {more} more)" if more > 0 else ""
    return f"{first}, and {is_replaced(second[0])}{others}, but nothing has room for all of their replacements"


def is_replaced(moving: Departure) -> str:
    """Which replica has to move, and why."""
    why = moving.displaced.message if moving.displaced is not None else ""
    return f"replica {moving.assignment.replica} is replaced, as {why}"


def waits_for_its_node(stranded: Sequence[Stranded]) -> str:
    """Why one whose node is gone, the first of several, has no successor yet; no time, as that would change."""
    first, others = stranded[0], f" (and {len(stranded) - 1} more)" if stranded[1:] else ""
    told = f"replica {first.replica}{others} serves though node {first.node} is gone"
    return f"{told}, and is replaced unless that is back and ready within {NODE_LOST_SECONDS:g} s"


def serves_to_the_end(last: Departure) -> str:
    """Why one whose node goes before a successor could serve is still in its front; no time, as that would change."""
    number = last.assignment.replica
    return f"replica {number} serves on until another does, or its node leaves only enough time to finish requests"


def leaves_last(gone: Departure) -> str:
    """Why one leaves its front though nobody else serves."""
    why = gone.displaced.message if gone.displaced is not None else ""
    goes = f"replica {gone.assignment.replica} leaves its front though no other serves"
    return f"{goes}, so that its requests can finish in time, as {why}"


def _why_waiting(failure: Failure) -> str:
    times = "once" if failure.count == 1 else f"{failure.count} times in a row"
    return (
        f"failed {times}, so the next attempt waits; {failure.explanation.reason.value}: {failure.explanation.message}"
    )
