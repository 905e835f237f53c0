"""A pool of higher priority whose quota is used up takes room in it from lower pools of its namespace.

It takes room for one replica in a decision (for a split without any, the first of both halves), and only where there is
a place for it. Victims drain as usual. While leaving pods will pay for it, their room is kept and nobody else is asked
to go, nor for half a minute after: Kubernetes recounts a quota some time after pods are gone.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from weft.decide.counting.budgets import PROMISED_SECONDS
from weft.decide.places.preemption import places_with, victims_for
from weft.decide.places.taking import (
    LOOKED_AT,
    has_nothing,
    keep,
    leaving_holds,
    lower_than,
    may_take,
    waits_until_they_are_gone,
)
from weft.decide.places.yielding import are_in_step, could_yield, drain, holds_of_all
from weft.decide.replicas.promises import holder_name
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.decide.availability import Availability
    from weft.decide.counting.accounts import Accounts
    from weft.decide.course import Course
    from weft.decide.places.yielding import Victim
    from weft.decide.plans.planning import Planned
    from weft.domain.cluster import PodRecord
    from weft.placement import FreeMap

_COUNTED = Explanation(Reason.Preempting, "waits for the quota to release the departed pods")


def keep_room(peers: Iterable[Sequence[Course]], units: Sequence[Sequence[Course]], available: Availability) -> None:
    """Keep room in quotas that leaving pods will free for units of one priority that have grown, before lower ones."""
    since = available.now - PROMISED_SECONDS
    for needed in [found for unit in peers if (found := _unpaid(unit, since))][:LOOKED_AT]:
        lower = _lower(needed, units, available.accounts)
        if _pays(_coming(needed, units, available.accounts), needed) and any(map(_leaving_names, lower)):
            _note(needed, available.now)
            _wait(needed, lower, available)
        elif (seconds := _until_counted([needed], available.now)) > 0:
            needed[0].later = changed(needed[0].later, counted_in_seconds=seconds)
            _wait(needed, lower, available)


def take_room(units: Sequence[Sequence[Course]], available: Availability) -> None:
    """Have lower pools give up what pays for the first unit that needs it; units in the order of their priority."""
    for needed in [found for unit in units if (found := _unpaid(unit))][:LOOKED_AT]:
        coming = _coming(needed, units, available.accounts)
        lower = _lower(needed, units, available.accounts)
        if _pays(coming, needed):
            continue
        if (seconds := _until_counted(_of_its_namespace(needed[0], units), available.now)) > 0:
            needed[0].later = changed(needed[0].later, counted_in_seconds=seconds)
        elif victims := _victims(needed, lower, coming, available.free):
            for victim in victims:
                drain(victim, needed[0].turn, "room in the quota", available.free)
            _note(needed, available.now)
            _wait(needed, lower, available)
            return


def _pays(coming: Accounts, needed: Iterable[Course]) -> bool:
    return coming.short(_planned(needed)) is None


def _lower(needed: Sequence[Course], units: Sequence[Sequence[Course]], accounts: Accounts) -> list[Sequence[Course]]:
    """Units of lower priority whose replicas the same quotas count, the lowest first."""
    peers = _of_its_namespace(needed[0], units)
    return [unit for unit in lower_than(needed, peers) if _share_a_budget(needed, unit, accounts)]


def _unpaid(unit: Sequence[Course], waited_since: float = inf) -> list[Course]:
    """The pools of a unit that quotas pay for too few replicas of, and that may take room; as in `places_needed`."""
    behind = min(unit, key=lambda course: course.have / max(1, course.wanted))
    everything_paid = behind.turn.share is None or behind.have >= behind.wanted
    if everything_paid or behind.have < behind.growth.desired or any(_is_helped(course) for course in unit):
        return []
    needed = [course for course in unit if has_nothing(course)] or [behind]
    return needed if may_take(needed, behind, waited_since) else []


def _is_helped(course: Course) -> bool:
    """Whether another scheduler shares out quotas, or others make room for it already."""
    refusal = course.growth.refusal
    waits = refusal is not None and refusal.reason is Reason.Preempting
    return waits or course.turn.asked is not None or course.moves.awaited is not None


def _of_its_namespace(taker: Course, units: Sequence[Sequence[Course]]) -> list[Sequence[Course]]:
    namespace = taker.turn.planned.pool.key.namespace
    return [unit for unit in units if unit[0].turn.planned.pool.key.namespace == namespace]


def _share_a_budget(needed: Iterable[Course], unit: Iterable[Course], accounts: Accounts) -> bool:
    """Whether a limit counts both what is needed and what a unit has."""
    others = [course.turn.planned for course in unit]
    return any(accounts.count_both(course.turn.planned, other) for course in needed for other in others)


def _planned(needed: Iterable[Course]) -> list[Planned]:
    return [course.turn.planned for course in needed]


def _coming(needed: Sequence[Course], units: Sequence[Sequence[Course]], accounts: Accounts) -> Accounts:
    """What quotas leave once all leaving pods are gone, less the successors that pools of no lower priority place."""
    coming, peers = accounts.only(needed[0].turn.planned.pool.key.namespace), _of_its_namespace(needed[0], units)
    lower = {id(course) for unit in lower_than(needed, peers) for course in unit}
    for course in (course for unit in peers for course in unit):
        replaced = 0 if id(course) in lower else max(0, course.wanted - course.have)
        pods = list(_leaving_pods(course))
        coming.give_back(course.turn.planned, pods[replaced * course.turn.planned.plan.shape.pods :])
    return coming


def _leaving_pods(course: Course) -> Iterator[PodRecord]:
    """Pods of a pool that quotas still count, of replicas that are going."""
    going = {each.assignment.replica for each in course.leaving.gone}
    replicas = course.turn.survivors.replicas if going else ()
    staying = (pod for each in replicas if each.assignment.replica in going for pod in each.pods)
    yield from (pod for pod in (*course.turn.left, *staying) if not pod.ended)


def _until_counted(peers: Iterable[Sequence[Course]], now: float) -> float:
    """Seconds until quotas surely have been counted since somebody last gave room in them, in this pass or earlier."""
    waited = [_last_waited(course) for unit in peers for course in unit]
    return max((at + PROMISED_SECONDS - now for at in waited if at is not None and at <= now), default=0.0)


def _last_waited(course: Course) -> float | None:
    now, before = course.later.waited_for_lower, course.turn.memory.waited_for_lower
    return before if now is None else now


def _leaving_names(unit: Iterable[Course]) -> set[str]:
    return {holder_name(each.turn.planned.pool) for each in unit if any(_leaving_pods(each))}


def _wait(needed: Sequence[Course], lower: Sequence[Sequence[Course]], available: Availability) -> None:
    """Keep room and places for the needed pools, and say for whose pods they wait."""
    leaving = {name for unit in lower for name in _leaving_names(unit)}
    slots = places_with(leaving_holds(lower, available.free), needed, available.free) or ()
    for course, slot in zip(needed, slots, strict=False):
        keep(slot, course, available.free)
    for course in needed:
        available.accounts.pay(course.turn.planned)
        course.growth.refuse(waits_until_they_are_gone(leaving) if leaving else _COUNTED)


def _note(needed: Iterable[Course], now: float) -> None:
    """Remember when the pools waited: room that a quota only counts late is then not taken for used up."""
    for course in needed:
        course.later = changed(course.later, waited_for_lower=now)


def _victims(
    needed: Sequence[Course], lower: Sequence[Sequence[Course]], coming: Accounts, free: FreeMap
) -> list[Victim]:
    """Replicas whose room pays for all that is needed, with a place for it once they are gone; empty without such."""
    candidates = [victim for unit in lower for victim in could_yield(unit, free)]
    enough = _until_paid([], candidates, needed, coming)
    holds = (*leaving_holds(lower, free), *holds_of_all(enough))
    if not enough or places_with(holds, needed, free) is not None:
        return enough
    first = victims_for(needed, candidates, lower, free)
    return _until_paid(first, candidates, needed, coming) if first else []


def _until_paid(
    first: Sequence[Victim], candidates: Iterable[Victim], needed: Sequence[Course], coming: Accounts
) -> list[Victim]:
    """The `first` victims and as few candidates, in order, as pay for what is needed; empty if all are too few."""
    found = list(first)
    for each in candidates:
        if _pay(found, needed, coming):
            break
        if each not in found and are_in_step((*found, each)):
            found.append(each)
    if not _pay(found, needed, coming):
        return []
    for each in found[len(first) :][::-1]:
        without = [other for other in found if other is not each]
        if are_in_step(without) and _pay(without, needed, coming):
            found = without
    return found


def _pay(victims: Iterable[Victim], needed: Sequence[Course], coming: Accounts) -> bool:
    """Whether quotas pay for what is needed once these victims are gone, too."""
    then = coming.copy()
    for victim in victims:
        then.give_back(victim.course.turn.planned, victim.replica.pods)
    return then.short(_planned(needed)) is None
