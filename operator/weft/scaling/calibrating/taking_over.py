"""From measured factors to those that decisions use: seldom, in even steps, and never all at once.

A change of capacity by more than a third in one pass is phased in, and reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.catalog.calibrated import ENOUGH_POINTS
from weft.domain.calibration import Calibrated, factors_for
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import Calibration
from weft.domain.texts.figures import digits, seconds

if TYPE_CHECKING:
    from weft.domain.calibration import CalibrationSubject
    from weft.domain.pool_memory import CalibrationMemory

# Factors in use change when they are 5 % off, at most every 5 minutes (rule L3). The first few follow as they are
# measured: until then a count rests on guesses, and a wrong guess costs GPUs for as long as it lasts.
NOTABLE_CHANGE, SHORTEST_CHANGE_SECONDS, SHORTEST_AT_FIRST_SECONDS = 0.05, 300.0, 120.0
SHOWN_STEP = 0.02  # of a factor's logarithm
SETTLED_POINTS = 30  # an hour of measurements: from then on more of them are no reason to round factors anew
# The most that latencies change at once: capacity changes by about a third. Where a target is close to what an idle
# replica does it would change by more: there the step is halved until it does not, or nothing is left after rounding.
MOST_LONGER = math.log(1.2)
LEAST_OF_CAPACITY, MOST_OF_CAPACITY = 2.0 / 3.0, 4.0 / 3.0
MOST_KEPT = 4  # shapes whose factors are kept

_Latency = tuple[float, float | None]  # a factor, and the tail of its latency
# Requests per second of one replica under given factors; 0 where that is unknown.
CapacityUnder = Callable[[Calibration], float]


def in_force(
    known: tuple[Calibrated, ...], memory: CalibrationMemory, now: float, capacity: CapacityUnder
) -> tuple[Calibrated, ...]:
    """The factors to decide with and to persist: the known ones, until they are both old enough and off.

    Those of another release or model are dropped once there are new ones to take their place.
    """
    before = next((each for each in known if each.subject == memory.subject), None)
    if not _is_news(before, memory.factors, now):
        return known
    shown = _phased(factors_for(memory.subject, known), memory.factors, capacity)
    kept = [each for each in known if each != before and _is_comparable(each.subject, memory.subject)]
    return (Calibrated(memory.subject, shown, now), *kept[: MOST_KEPT - 1])


def what_is_phased(
    known: tuple[Calibrated, ...], then: tuple[Calibrated, ...], memory: CalibrationMemory
) -> Explanation | None:
    """The event for a change from `known` to `then` that goes only part of the way to the measured factors, or None."""
    if then == known or max(map(abs, _changes(then[0].factors, memory.factors))) < math.log1p(NOTABLE_CHANGE):
        return None
    changes = _changes(factors_for(memory.subject, known), memory.factors)
    notable = min(MOST_LONGER, max(map(abs, changes)))
    told = [
        f"{name} of {digits(math.exp(change))} times"
        for name, change in zip(("TTFT", "TPOT"), changes, strict=True)
        if abs(change) >= notable
    ]
    pause = seconds(_shortest(memory.factors.points))
    phased = f"capacity is corrected by about a third now, and again every {pause}"
    measured = f"replicas show a {' and a '.join(told)} what capacity is based on"
    return Explanation(Reason.CalibrationPhased, f"{measured}: {phased}")


def _phased(before: Calibration, exact: Calibration, capacity: CapacityUnder) -> Calibration:
    """The exact factors, or a step towards them that changes capacity by about a third at most."""
    part = _part(_changes(before, exact))
    found, smaller, none = (_on_the_way(before, exact, each) for each in (part, part / 2.0, 0.0))
    present = capacity(none) if smaller != none else 0.0
    while present > 0 and smaller != none and not _is_gentle(capacity(found) / present):
        part /= 2.0
        found, smaller = smaller, _on_the_way(before, exact, part / 2.0)
    return found


def _is_gentle(ratio: float) -> bool:
    return LEAST_OF_CAPACITY <= ratio <= MOST_OF_CAPACITY


def _on_the_way(before: Calibration, exact: Calibration, part: float) -> Calibration:
    """The factors after that part of the way; with 0 only what is measured for the first time is new.

    After an hour of measurements a latency that is no more than chance off keeps its factors when the other one moves,
    or more measurements are told: rounded anew they would step back and forth for ever.
    """
    is_settled = before.points >= ENOUGH_POINTS and exact.points >= SETTLED_POINTS
    ttft, tpot = _changes(before, exact)

    def shown(old: _Latency, new: _Latency, change: float) -> _Latency:
        steps = _step(old[0], new[0]), _step(old[1], new[1])
        is_told = (old[1] is None) == (new[1] is None)
        if is_settled and is_told and max(map(abs, (change, *steps))) < math.log1p(NOTABLE_CHANGE):
            return old
        tail = None if new[1] is None else _shown(_partly(old[1] or new[1], new[1], part))
        return _shown(_partly(old[0], new[0], part)), tail

    prefill, ttft_tail = shown((before.prefill, before.ttft_tail), (exact.prefill, exact.ttft_tail), ttft)
    decode, tpot_tail = shown((before.decode, before.tpot_tail), (exact.decode, exact.tpot_tail), tpot)
    return Calibration(prefill, decode, exact.points, exact.prompt_points, ttft_tail, tpot_tail)


def _partly(old: float, new: float, part: float) -> float:
    """The value that part of the way from an old one to a new one, in logarithms."""
    return old * math.pow(new / old, part)


def _part(changes: tuple[float, float]) -> float:
    """The fraction of these changes that may be made at once, whatever they do to capacity."""
    return MOST_LONGER / max(MOST_LONGER, *map(abs, changes))


def _changes(before: Calibration, exact: Calibration) -> tuple[float, float]:
    """Changes of the predicted TTFT and TPOT tails between two sets of factors, in logarithms."""
    ttft = _step(before.prefill, exact.prefill) + _step(before.ttft_tail, exact.ttft_tail)
    tpot = _step(before.decode, exact.decode) + _step(before.tpot_tail, exact.tpot_tail)
    return ttft, tpot


def _step(old: float | None, new: float | None) -> float:
    """The logarithm of new over old; 0 where either is unset, as a new tail begins near the error bar it replaces."""
    return math.log(new / old) if old is not None and new is not None else 0.0


def _is_news(before: Calibrated | None, exact: Calibration, now: float) -> bool:
    if exact.points == 0:
        return False
    if before is None:
        return True
    if 0 <= now - before.updated < _shortest(before.factors.points):
        return False
    shown = before.factors
    factors = ((shown.prefill, exact.prefill), (shown.decode, exact.decode))
    tails = ((shown.ttft_tail, exact.ttft_tail), (shown.tpot_tail, exact.tpot_tail))
    if any(old is None and new is not None for old, new in tails):
        return True
    pairs = (*factors, *((old, new) for old, new in tails if old is not None and new is not None))
    is_off = any(abs(math.log(new / old)) >= math.log1p(NOTABLE_CHANGE) for old, new in pairs)
    counts = ((shown.points, exact.points), (shown.prompt_points, exact.prompt_points))
    return is_off or any(_is_many_more(old, new) for old, new in counts)


def _shortest(points: int) -> float:
    """Shortest time in seconds between two changes of factors based on so many measurements."""
    return SHORTEST_CHANGE_SECONDS if points >= ENOUGH_POINTS else SHORTEST_AT_FIRST_SECONDS


def _is_many_more(before: int, points: int) -> bool:
    """Whether a count of measurements is worth reporting: it has doubled, or has just become enough to trust."""
    return points >= max(1, 2 * before) or before < ENOUGH_POINTS <= points


def _shown(factor: float) -> float:
    """A factor rounded to even steps: finer is noise, and pools that are equally fast then share their predictions."""
    return float(f"{math.exp(SHOWN_STEP * round(math.log(factor) / SHOWN_STEP)):.3g}")


def _is_comparable(one: CalibrationSubject, other: CalibrationSubject) -> bool:
    return (one.model, one.release) == (other.model, other.release)
