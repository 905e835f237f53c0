"""Which replicas of a new revision are on trial: they answer, and no earlier one leaves for them yet (ADR 0126).

An engine may become ready and end under its first requests. For `minReadySeconds`, as Deployments call it, a rollout
goes on with both; how traffic is counted and who is routed to does not ask for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.rollouts.pairing import rolls_as_a_pair

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.decide.course import Turn
    from weft.placement import Departure


def on_trial(present: Sequence[Departure], turn: Turn, unit: Sequence[Turn], heard: float) -> list[Departure]:
    """The replicas of one pool, with the seconds for which each is on trial, as far as is `heard` (see `Snapshot`).

    Of a pair (`unit`) that comes, one half is tried as long as the other: before, no request reached it.
    """
    own = _trials(turn, heard)
    pair = unit if rolls_as_a_pair(turn) else ()
    beside = max((left for each in pair if each is not turn for left in _trials(each, heard).values()), default=0.0)
    if not own and not beside:
        return list(present)
    return [_tried(each, own, beside) for each in present]


def _tried(each: Departure, own: Mapping[int, float], beside: float) -> Departure:
    left = 0.0 if each.outdated or not each.ready else max(beside, own.get(each.assignment.replica, 0.0))
    return replace(each, trial_seconds=left) if left > 0.0 else each


def _trials(turn: Turn, heard: float) -> dict[int, float]:
    """Seconds that are left of each trial, by replica; none where no earlier revision is left, or nobody is tried."""
    least, planned = turn.planned.spec.rollout.min_ready_seconds, turn.planned.revision
    replicas = turn.survivors.replicas
    new = [each for each in replicas if each.assignment.revision == planned]
    if least <= 0.0 or len(new) == len(replicas):
        return {}
    left = {each.assignment.replica: min(least, each.serves_since + least - heard) for each in new if each.ready}
    return {replica: seconds for replica, seconds in left.items() if seconds > 0.0}


def trials_end_in_seconds(present: Sequence[Departure]) -> float | None:
    """When the first of the trials ends, in a second at the soonest: time alone may not end it. None without any."""
    return min((max(1.0, each.trial_seconds) for each in present if each.trial_seconds > 0.0), default=None)
