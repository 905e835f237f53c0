"""How long the next attempt waits after failures in a row (architecture: 10 s, doubled up to 5 min)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.replicas.ending import WHY_PODS_END
from weft.domain.status import Failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Turn
    from weft.decide.replicas.health import Loss

FIRST_WAIT_SECONDS = 10.0
LONGEST_WAIT_SECONDS = 300.0
GOOD_SECONDS = 600.0


def failure_of(turn: Turn, now: float) -> Failure | None:
    """The failure record after this pass, for the revision that the pool shall run; None where there is none."""
    planned, status = turn.planned, turn.planned.pool.status
    if status.failure is None and not turn.survivors.losses:
        return None
    of_planned = (each for each in turn.survivors.replicas if each.assignment.revision == planned.revision)
    good = any(each.ready and now - each.serves_since >= GOOD_SECONDS for each in of_planned)
    failures = [loss for loss in turn.survivors.losses if loss.counts and loss.assignment.revision == planned.revision]
    before = forgiven(status.failure, planned.revision, now, some_good=good and not failures)
    return failed_again(before, failures, planned.revision, now)


def ends_by_itself(failure: Failure | None) -> bool:
    """Whether engines of the planned revision do, as far as the last failure tells: it is not for want of a place."""
    return failure is not None and failure.explanation.reason in WHY_PODS_END


def failed_again(before: Failure | None, losses: Sequence[Loss], revision: str, now: float) -> Failure | None:
    """The record after `losses` among replicas of `revision`; those that were placed together count as one failure.

    They are in a row with the one before if they were placed soon after its wait, however long they took to start.
    """
    if not losses:
        return before
    count = 1
    placed = min(loss.assignment.since for loss in losses)
    soon = before is not None and placed - before.last < wait_seconds(before) + GOOD_SECONDS
    if before is not None and before.revision == revision and soon:
        if remaining_seconds(before, now) > 0 and all(loss.assignment.since <= before.last for loss in losses):
            return before
        count = before.count + 1
    return Failure(revision, count, now, losses[0].explanation)


def forgiven(failure: Failure | None, revision: str, now: float, *, some_good: bool) -> Failure | None:
    """The record; None if it is of an earlier revision, or `GOOD_SECONDS` have passed and some served that long.

    A failure in the future (the clock was set back) counts as of now, so that the wait ends.
    """
    if failure is None or failure.revision != revision:
        return None
    if failure.last > now:
        return replace(failure, last=now)
    return None if some_good and now - failure.last >= GOOD_SECONDS else failure


def wait_seconds(failure: Failure) -> float:
    """Seconds from the last failure to the next attempt."""
    return min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(max(failure.count, 1) - 1, 16))


def remaining_seconds(failure: Failure | None, now: float) -> float:
    """Seconds that the next attempt still waits; a clock set back waits no longer than the whole time."""
    if failure is None:
        return 0.0
    wait = wait_seconds(failure)
    return max(0.0, min(wait, failure.last + wait - now))
