"""What a start takes, from the phases of the last ones of a pool.

A phase that one start alone had, such as the pull of an image that is on its node now, is in no median once two others
went without it. Replicas that are gone count like those that run, and each start once: ids of replicas only grow.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.domain.start_up import KEPT_STARTS, usual_phases
from weft.scaling.forecast import MOST_STARTUP_SECONDS

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState
    from weft.domain.start_up import MeasuredStart


def with_starts(state: ForecastState, found: tuple[MeasuredStart, ...]) -> ForecastState:
    """The state that counts starts it did not know; one from before all that it keeps was counted when it was new."""
    known = {start.replica for start in state.starts}
    oldest = state.starts[0].replica if len(state.starts) >= KEPT_STARTS else -1
    new = [start for start in found if start.replica > oldest and start.replica not in known]
    if not new:
        return state
    starts = tuple(sorted((*state.starts, *new), key=attrgetter("replica"))[-KEPT_STARTS:])
    return changed(state, starts=starts, startup_seconds=startup_of(starts))


def startup_of(starts: tuple[MeasuredStart, ...]) -> float:
    """Seconds of a usual start: the sum of what each phase usually takes."""
    return min(float(max(1, sum(usual_phases(starts)))), MOST_STARTUP_SECONDS)
