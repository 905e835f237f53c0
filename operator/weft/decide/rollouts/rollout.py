"""How many replicas leave and come in one pass: rollout limits and scaling in one small calculation.

Where the planned shape has more GPUs, a replica of an earlier one counts as the part of it that its GPUs are: eight of
one GPU serve what two of four will, and none leaves before those do. Where sizes leave a part that lets none leave and
none come, one does all the same, or the rollout would never end.

Broken replicas of an earlier revision, and those whose pair has nobody in the other half, go first and are waited for
by nobody; others leave only while enough serve (rule S1), and so do those that answered a moment ago and may again.
While engines of the planned revision end by themselves, nobody who serves leaves for it (ADR 0124), nor for one that
has only just begun to answer (ADR 0126). Nodes that are drained are left in the same way, and at once where a cloud
takes them back before a successor could serve, so that requests can finish; where all are, as many as traffic needs
stay as long as they can (ADR 0058). Who could stay (it makes room for another pool, or does worse than its siblings)
leaves only once as many others serve as are desired, whatever maxUnavailable allows. Nobody leaves for one whose node
is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING

from weft.decide.counting.worth import ROUNDING
from weft.domain.rollout_limits import rounded_down, rounded_up
from weft.domain.spec import RolloutSpec, RolloutStrategy
from weft.placement import Departure, FreeMap, choose_victims

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Limits:
    """Replicas above and below the desired count that a rollout may use."""

    surge: int
    unavailable: int


def limits_of(rollout: RolloutSpec, desired: int, needed: int = 0) -> Limits:
    """Fractions of the desired count: surge rounds up, unavailable down; both zero would never move, so one may go.

    Of those `needed` none is unavailable (`weighing.py`), except to Recreate, which takes all whoever asks.
    """
    if rollout.strategy is RolloutStrategy.Recreate:
        return Limits(0, desired)
    surge, unavailable = rounded_up(rollout.max_surge, desired), rounded_down(rollout.max_unavailable, desired)
    if surge <= 0 and unavailable <= 0:
        unavailable = 1
    spared = desired - needed if needed < desired else 0
    return Limits(max(0, surge), min(unavailable, spared) if unavailable > 0 else 0)


def leaving(
    replicas: Sequence[Departure], desired: int, rollout: RolloutSpec, free: FreeMap, needed: int = 0
) -> tuple[Departure, ...]:
    """Replicas to drain now; `needed` ones go on serving.

    In this order: who serves nobody, or loses its node at once; who has to go, as far as enough serve without; one of
    several parts that hold each other up; who could stay, as far as those that are desired serve without; and who is
    one too many, beyond the surge while others have to go, and beyond the desired count once none has to.
    """
    limits = limits_of(rollout, desired, needed)
    least_serving = desired - limits.unavailable
    outgoing = [each for each in replicas if has_to_go(each, rollout)]
    proven = [each for each in replicas if each.trial_seconds <= 0.0]
    enough = serving(proven) >= least_serving - ROUNDING
    gone = [each for each in outgoing if _goes_at_once(each, enough=enough)]
    ready = [each for each in outgoing if each.ready and not (each.unmatched or each.urgent or each.counted_on)]
    have_to = [each for each in ready if not each.could_stay and not each.outlasts]
    gone += _worth(have_to, serving(proven) - least_serving, free)
    if have_to and not gone and len(proven) == len(replicas) and a_part_holds_it(replicas, desired, limits):
        smallest = min(each.share for each in have_to)
        if serving(replicas) - smallest >= needed - ROUNDING:
            gone += choose_victims([each for each in have_to if each.share == smallest], 1, free)
    left = serving(without(gone, proven))
    gone += _worth([each for each in ready if each.could_stay], left - desired, free)
    if without(gone, outgoing):
        most = desired + limits.surge + _shares(each for each in outgoing if each.counted_on)
        gone += _too_many(without(gone, replicas), most, least_serving, free)
    if not without(gone, outgoing):  # nor any of those that just left
        gone += _too_many(without(gone, replicas), desired, least_serving, free)
    return tuple(gone)


def _too_many(replicas: Sequence[Departure], most: float, least_serving: int, free: FreeMap) -> list[Departure]:
    """Replicas that go because there are more than `most`, as far as enough serve without them."""
    rest = [each for each in replicas if not each.lasts]
    found: list[Departure] = []
    for victim in _worth([each for each in rest if not each.counted_on], _shares(rest) - most, free):
        counts = 0.0 if victim.stranded else victim.share
        if not victim.ready or serving(rest) - counts >= least_serving - ROUNDING:
            rest.remove(victim)
            found.append(victim)
    return found


def a_part_holds_it(replicas: Sequence[Departure], desired: int, limits: Limits) -> bool:
    """Whether a rollout that lets none go is stuck on parts of a replica.

    That is: it has no surge, all replicas serve, some share is spare, and less than one is missing, so that none comes.
    """
    count = _shares(replicas)
    spare = count - desired + limits.unavailable
    return limits.surge == 0 and count == serving(replicas) and spare > ROUNDING and desired - count < 1 - ROUNDING


def _worth(candidates: Sequence[Departure], spare: float, free: FreeMap) -> list[Departure]:
    """The candidates that go first, worth at most `spare` replicas; those worth more than that are passed over."""
    found: list[Departure] = []
    if spare < ROUNDING or not candidates:
        return found
    for each in choose_victims(candidates, len(candidates), free):
        if each.share <= spare + ROUNDING:
            spare -= each.share
            found.append(each)
    return found


def _shares(replicas: Iterable[Departure]) -> float:
    return sum(each.share for each in replicas)


def _goes_at_once(each: Departure, *, enough: bool) -> bool:
    broken = not each.ready and not each.may_return and (enough or not each.may_answer_again)
    return broken or (each.unmatched and not each.counted_on) or (each.urgent and not each.lasts)


def without(gone: Sequence[Departure], replicas: Sequence[Departure]) -> list[Departure]:
    """The replicas that are not in `gone`, compared by id: to compare whole values takes many times as long."""
    ids = {each.assignment.replica for each in gone}
    return [each for each in replicas if each.assignment.replica not in ids]


def arriving(replicas: Sequence[Departure], desired: int, rollout: RolloutSpec) -> int:
    """How many new replicas to look for beside those that stay."""
    stay = _shares(each for each in replicas if not has_to_go(each, rollout))
    surge, beside = limits_of(rollout, desired).surge, [each for each in replicas if not each.lasts]
    room = desired + surge - _shares(beside) + _beyond_the_surge(beside, desired, rollout)
    whole = floor(room + ROUNDING)
    if surge > 0 and whole == 0 and room > ROUNDING and _shares(beside) == serving(beside):
        whole = 1  # none of those beside it leaves before it serves
    return max(0, min(desired - ceil(stay - ROUNDING), whole))


def _beyond_the_surge(replicas: Sequence[Departure], desired: int, rollout: RolloutSpec) -> float:
    """How many more come, as so many would be gone if their pairs did not count on them.

    Else a half full of these would never have a replica of the next pair.
    """
    held = _shares(each for each in replicas if each.counted_on and has_to_go(each, rollout))
    return min(held, max(0, floor(serving(replicas) - desired + ROUNDING)))


def has_to_go(each: Departure, rollout: RolloutSpec) -> bool:
    """Whether a replica must leave.

    A paused rollout keeps outdated ones, but none on a node that goes away, nor any that will never have its pods.
    """
    return each.displaced is not None or (each.outdated and not rollout.paused) or each.unmade


def serving(replicas: Iterable[Departure]) -> float:
    """How many replicas surely serve, in units of the planned shape."""
    return sum(map(_served_by, replicas))


def _served_by(each: Departure) -> float:
    return each.share if each.ready and not (each.alone or each.urgent or each.stranded) else 0.0
