"""What replicas serve: as predicted or proven, or as little as they did when all of them were saturated.

Calibration learns from quiet pools alone, and a pool that is short of replicas is not quiet. What replicas do at most
is seen then, and counts at once. It also counts for a while after: as soon as its backlog was gone the pool would count
on the same prediction again, give up what it had just got, and have the next backlog ten minutes later.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.domain.capacity import Capacity
from weft.domain.pool_memory import Saturation
from weft.domain.texts.figures import counted, digits, seconds
from weft.domain.values.changed import changed
from weft.domain.workload import Role
from weft.scaling.calibrating.proving import at_least_as_proven
from weft.scaling.looks import LOAD_WINDOW_SECONDS
from weft.scaling.reading import is_backlog
from weft.scaling.underperforming.slowness import without_outliers

if TYPE_CHECKING:
    from weft.scaling.reading import LoadReading
    from weft.scaling.sight import ScaleRequest, Sight

# A measured capacity below this fraction of the predicted one is a fault of the measurement or the engine, not demand.
LEAST_TRUE_CAPACITY = 0.25
# Engines that do less than this fraction of what is predicted are ill for a while: to remember it would buy replicas
# for a fault that has passed.
LEAST_REMEMBERED = 0.5
# It counts for an hour, and for twice as long each time that the pool was saturated once more when it did no longer.
COUNTS_FOR_SECONDS, COUNTS_AT_MOST_SECONDS = 3600.0, 86400.0


def true_capacity(sight: Sight) -> Capacity:
    """What replicas are counted on for, or less if unchanged ones, saturated for a minute, do or lately did less.

    The prediction is calibrated already (`scaling/calibrating`), slowly and from quiet pools alone: a backlog stops
    all learning. What is left to correct here is what calibration cannot see, and at once. It only ever lowers
    what they are counted on for, and teaches calibration nothing.
    """
    request, reading = sight.request, sight.reading
    is_as_predicted = request.proven is None and math.isfinite(request.capacity.alone)  # as every pass asks
    predicted = request.capacity if is_as_predicted else counted_on(request)
    if reading is None or not _is_saturated(sight):
        lately = _counts_now(sight)
        return predicted if lately is None else predicted.at_most(lately.work / request.work)
    measured = _rate_of_one(sight, reading)
    if predicted.alone > 0.0 and measured >= predicted.each(reading.answered):
        return predicted
    return Capacity(max(measured, predicted.alone * LEAST_TRUE_CAPACITY))


def counted_on(request: ScaleRequest) -> Capacity:
    """What replicas serve as predicted, and no less than what they are proven to."""
    predicted = request.capacity if math.isfinite(request.capacity.alone) else Capacity(0.0)
    return at_least_as_proven(predicted, request.proven)


def with_what_saturation_shows(sight: Sight) -> Sight:
    """The sight with what each replica does at most in its memory, once it is saturated and does less than predicted.

    Of a split it is not remembered: a half may wait for the other one. What does more since, saturated or not, counts
    from then on.
    """
    request, reading, known = sight.request, sight.reading, sight.memory.saturation
    if reading is None or request.role is not Role.Aggregated or sight.memory.calibration is None:
        return sight
    subject, predicted = sight.memory.calibration.subject, request.capacity.each(reading.answered)
    rate = _rate_of_one(sight, reading) if sight.same_replicas else 0.0
    counts = known if known is not None and _counts(known, sight) else None
    if counts is not None and rate * request.work > counts.work:
        counts = changed(counts, work=rate * request.work)
    found = counts or known
    if _is_saturated(sight) and LEAST_REMEMBERED * predicted <= rate < predicted:
        before = 0 if known is None or known.subject != subject else known.times
        found = Saturation(subject, request.now, rate * request.work, before + 1)
        if counts is not None:
            found = changed(counts, at=request.now)
    return sight if found == known else changed(sight, memory=changed(sight.memory, saturation=found))


def what_is_proven(sight: Sight, capacity: Capacity, replicas: int) -> str:
    """What each of so many replicas counts for where that is proven and not predicted, in words; else empty."""
    request, proven = sight.request, sight.request.proven
    if proven is None or request.capacity.each(replicas) >= capacity.each(replicas) or capacity != counted_on(request):
        return ""
    met = f"{counted(proven.replicas, 'replica')} met {proven.targets}"
    return f", and each of {replicas} {digits(capacity.each(replicas))}, as {met} at {digits(proven.rate)} each"


def shown_ago(sight: Sight) -> str:
    """When replicas showed that they serve less than predicted, in words; empty where they did not."""
    lately, predicted = _counts_now(sight), sight.request.capacity
    if lately is None or predicted.at_most(lately.work / sight.request.work) == predicted:
        return ""
    ago = sight.request.now - lately.at
    return f", which is what it did at most when all were saturated {seconds(ago)} ago" if ago > 0.0 else ""


def _counts_now(sight: Sight) -> Saturation | None:
    """What saturation has shown, if that still counts."""
    known = sight.memory.saturation
    return known if known is not None and _counts(known, sight) else None


def _counts(known: Saturation, sight: Sight) -> bool:
    """Whether it is of these engines, and not longer ago than it counts."""
    calibration, ago = sight.memory.calibration, sight.request.now - known.at
    lasts = min(COUNTS_AT_MOST_SECONDS, COUNTS_FOR_SECONDS * 2.0 ** (known.times - 1))
    return calibration is not None and calibration.subject == known.subject and 0.0 <= ago < lasts


def _is_saturated(sight: Sight) -> bool:
    """Whether unchanged replicas have had a backlog for a minute, which does not shrink.

    While a backlog shrinks, some replicas may have an empty queue, so the answered rate does not measure capacity.
    """
    loads = sight.memory.loads
    return (
        sight.same_replicas
        and len(loads) > 1
        and sight.request.now - loads[0].at >= LOAD_WINDOW_SECONDS
        and all(is_backlog(load.waiting, load.answered) for load in loads)
        and loads[-1].waiting >= loads[0].waiting
    )


def _rate_of_one(sight: Sight, reading: LoadReading) -> float:
    """Mean requests per second of one replica, outliers left out."""
    usual = without_outliers(sight.request.observation, sight.memory.outliers)
    if usual is None or usual.requests_per_second is None:
        return reading.rate / reading.answered
    return usual.requests_per_second / usual.answered
