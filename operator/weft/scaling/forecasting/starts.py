"""How long a start takes, from the phases of a pool's last starts.

A phase that only one start had, such as pulling an image that is now on the node, no longer affects the medians after
two starts without it. Replicas that are gone count like running ones, and each start once: replica ids only grow.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from weft.domain.start_up import KEPT_STARTS, usual_phases
from weft.domain.values.changed import changed
from weft.scaling.forecasting.forecast import MOST_STARTUP_SECONDS

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState
    from weft.domain.start_up import MeasuredStart


def with_starts(state: ForecastState, found: tuple[MeasuredStart, ...]) -> ForecastState:
    """The state with new starts added; one older than all that it keeps was already counted."""
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
