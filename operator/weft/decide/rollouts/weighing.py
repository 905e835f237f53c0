"""What traffic needs weighs more than `maxUnavailable`, for a while: a rollout surges or waits before it takes that.

`maxUnavailable` says how far a user lets a pool go below the count, and not that its traffic can do with so few. Where
nothing comes first and traffic does not fall, what the user allows is done all the same, and told (ADR 0049).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.counting.worth import ROUNDING
from weft.decide.course import NOTHING_TO_WEIGH, Weighing
from weft.decide.rollouts.backoff import GOOD_SECONDS, ends_by_itself, remaining_seconds
from weft.decide.rollouts.pairing import rolls_as_a_pair, waits_for_its_front
from weft.decide.rollouts.rollout import a_part_holds_it, has_to_go, limits_of, serving, without
from weft.decide.rollouts.terms import rollout_of
from weft.domain.pool_memory import RolloutWait
from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import seconds
from weft.domain.values.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.decide.course import Course, Turn, Why
    from weft.placement import Departure

# For as long a rollout in which nobody comes first waits for GPUs or for traffic to fall: a new GPU node takes 5 to 10
# minutes to join a cluster, and a peak that lasts longer is the load.
PATIENCE_SECONDS = 600.0
# A wait that is over sooner is no news: it passes whenever others begin to answer, and what they lack is not known yet.
NEWS_SECONDS = 60.0
_STAY_FOR_A_FAILURE = (
    "replicas of the earlier revision stay, as engines of the new one ended by themselves, until one of these has "
    f"served for {seconds(GOOD_SECONDS)}"
)
_STAY_FOR_A_TRIAL = (
    "replicas of the earlier revision stay until those of the new one have answered for {} (spec.rollout."
    "minReadySeconds)"
)
_STAY_FOR_A_ROUTER = "replicas of the earlier generation stay until a router of the new one answers"
_STAY_FOR_A_GATEWAY = "replicas of the earlier generation stay until a Gateway takes requests to the new one"


def weigh(turn: Turn, unit: Sequence[Turn], now: float) -> Weighing:
    """What the rollout of one pool weighs; it may be half of a split (`unit`).

    While generations of a split roll, a half that may not let one go holds the other: a successor there would find no
    counterpart and serve nobody.
    """
    found = _alone(turn, now)
    if len(unit) == 1 or _is_over(found, now) or not rolls_as_a_pair(turn):
        return found
    others = (each for each in unit if each is not turn and rolls_as_a_pair(each))
    held = any(_binds(_alone(each, now), each) for each in others)
    return replace(found, keeps=max(found.keeps, turn.scale.desired)) if held else found


def _alone(turn: Turn, now: float) -> Weighing:
    waits = turn.memory.waits
    if waits is not None and waits.since > now:  # the clock was set back
        waits = replace(waits, since=now)
    found = Weighing(turn.scale.needed, waits)
    return replace(found, keeps=0) if _is_over(found, now) else found


def _is_over(weighing: Weighing, now: float) -> bool:
    """Whether it has waited long enough: for the rest of the rollout the limits of the spec count alone."""
    return weighing.waits is not None and now - weighing.waits.since >= PATIENCE_SECONDS


def _binds(weighing: Weighing, turn: Turn) -> bool:
    """Whether traffic lets none go of those that the spec would."""
    rollout, desired = rollout_of(turn), turn.scale.desired
    weighed = limits_of(rollout, desired, weighing.keeps)
    return weighed.unavailable < 1 <= limits_of(rollout, desired).unavailable


def _still_waits(course: Course, now: float) -> RolloutWait | None:
    """The note for the next pass that a rollout waits for what is not under way; None while it gets on."""
    turn, leaving, weighing = course.turn, course.leaving, course.leaving.weighing
    stay = [each for each in leaving.present if each not in leaving.gone]
    rollout, desired = rollout_of(turn), turn.scale.desired
    outgoing = [each for each in stay if has_to_go(each, rollout) and not each.could_stay]
    if not outgoing or _is_over(weighing, now):
        return weighing.waits if outgoing else None
    tried = any(each.trial_seconds > 0.0 for each in stay)
    if tried or any(each.outlasts for each in outgoing) or waits_for_its_front(turn):
        return None  # it waits for an engine of the new revision that does not end, or may yet, or for its front
    limits = limits_of(rollout, desired)
    spare = serving(stay) - desired + limits.unavailable + ROUNDING
    able = (each for each in outgoing if each.ready and not (each.unmatched or each.counted_on))
    held = any(each.share <= spare for each in able)
    held = held or a_part_holds_it(stay, desired, limits)
    newcomers = [each for each in stay if not has_to_go(each, rollout) and not each.ready]
    if not held or _an_engine_is_at_it(course, newcomers, now):
        return None
    since = weighing.waits.since if weighing.waits is not None else now
    return RolloutWait(since, told=now - since >= NEWS_SECONDS)


def _an_engine_is_at_it(course: Course, newcomers: Sequence[Departure], now: float) -> bool:
    """Whether a successor loads its model, or ended while it did: to take one more away would not help it."""
    replicas, failure = course.turn.survivors.replicas, course.failure
    bound = {each.assignment.replica for each in replicas if len(each.bound) == each.assignment.pods}
    starts = any(each.assignment.replica in bound for each in newcomers)
    return starts or (ends_by_itself(failure) and remaining_seconds(failure, now) > 0)


def say_what_holds_rollouts(courses: Iterable[Course], now: float) -> None:
    """Remark which rollouts wait for traffic, and which for engines of the new revision that serve for long enough."""
    for course in courses:
        if course.leaving.weighing is not NOTHING_TO_WEIGH:
            _say_what_traffic_holds(course, now)
        if course.leaving.present:
            _say_who_stays_for_new_engines(course)


def _say_what_traffic_holds(course: Course, now: float) -> None:
    """Events once that is news, and for each replica that goes nonetheless."""
    waits = _still_waits(course, now)
    course.later = changed(course.later, waits=waits)
    if _is_over(course.leaving.weighing, now):
        course.why = changed(course.why, events=tuple(_below_need(course)))
    elif waits is not None and waits.told:
        course.why = _why_it_waits(course)


def _say_who_stays_for_new_engines(course: Course) -> None:
    leaving, rollout = course.leaving, rollout_of(course.turn)
    stay = without(leaving.gone, leaving.present)
    said, awaited = "", any(has_to_go(each, rollout) for each in stay)
    if any(each.outlasts and each.ready for each in stay):
        said = _STAY_FOR_A_FAILURE
    elif awaited and any(each.trial_seconds > 0.0 for each in stay):
        said = _STAY_FOR_A_TRIAL.format(seconds(rollout.min_ready_seconds))
    elif awaited and waits_for_its_front(course.turn):
        said = _STAY_FOR_A_GATEWAY if course.turn.planned.spec.has_sidecar else _STAY_FOR_A_ROUTER
    if said:
        course.why = changed(course.why, remarks=(*course.why.remarks, said))


def _why_it_waits(course: Course) -> Why:
    """What is told with the remark that the rollout waits; an event only if that was not told before."""
    before, told = course.leaving.weighing.waits, _waits(course)
    is_news = before is None or not before.told
    events = (Explanation(Reason.RolloutWaits, told),) if is_news else ()
    return changed(course.why, remarks=(*course.why.remarks, told), events=events)


def waits_on_seconds(waits: RolloutWait, now: float) -> float | None:
    """When a rollout that waits has something to tell, or goes on by the limits of the spec alone."""
    ends = (waits.since + each - now for each in (NEWS_SECONDS, PATIENCE_SECONDS))
    return next((left for left in ends if left > 0), None)


def _below_need(course: Course) -> Iterator[Explanation]:
    turn, rollout = course.turn, rollout_of(course.turn)
    left, needed = serving(course.leaving.present), min(turn.scale.needed, turn.scale.desired)
    for each in course.leaving.gone:
        if (served := serving([each])) > 0:
            left -= served
            if left < needed - ROUNDING and has_to_go(each, rollout) and not each.could_stay:
                yield Explanation(Reason.RolloutBelowDemand, _goes(each, course))


def _waits(course: Course) -> str:
    then = f"After {seconds(PATIENCE_SECONDS)} only spec.rollout.maxUnavailable counts"
    return f"the rollout takes away no replica that traffic needs, and {_what_keeps_successors(course)}. {then}"


def _goes(gone: Departure, course: Course) -> str:
    return (
        f"replica {gone.assignment.replica} leaves before its successor serves, as spec.rollout.maxUnavailable allows. "
        f"Traffic needs it, but for {seconds(PATIENCE_SECONDS)} {_what_keeps_successors(course)}"
    )


def _what_keeps_successors(course: Course) -> str:
    surge = limits_of(rollout_of(course.turn), course.growth.desired).surge
    return "no successor found a place" if surge > 0 else "spec.rollout.maxSurge allows no successor first"
