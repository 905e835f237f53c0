"""Work that is counted in another unit from now on: the same traffic in other numbers, and nothing to be foretold.

The unit is one request of the declared lengths, as much as a replica serves of it. What replicas serve of those and of
present lengths changes by different factors when latencies are calibrated, targets edited or the shape changed. Taken
for traffic, a request that is twice the work from one pass to the next would be a load that halves or doubles.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.domain.values.changed import changed
from weft.scaling.forecasting.course import shifted

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState


def in_units(state: ForecastState, times: float) -> ForecastState:
    """The state with its work counted in a unit of which a request is so many `times` as much as before."""
    more, (bins, requests, cost), quarter = math.log(times), state.costs, state.quarter
    if quarter is not None:
        before = None if quarter.before is None else quarter.before + more
        quarter = changed(quarter, requests=quarter.requests * times, before=before)
    return changed(
        state,
        requests=state.requests * times,
        level=state.level + more,
        recent=state.recent + more,
        highest=state.highest + more,
        count=None if state.count is None else state.count * times,
        pending=tuple([changed(each, rate=each.rate + more) for each in state.pending]),
        quarter=quarter,
        costs=(bins, requests, cost * times),
        course=shifted(state.course, more),
    )
