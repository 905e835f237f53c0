"""Two factors per pool, for prefill and for decode steps, learnt slowly from the latencies of running replicas.

A measurement compares the mean TTFT and TPOT of one whole window of metrics with what the model predicts for a replica
at the same load under the present factors. How far each factor is off is solved from both ratios at once, using the
sensitivities of both latencies (d log latency / d log factor), as prefill delays decode and decode delays prefill. The
solution is damped (Levenberg's method), so that a factor to which a latency is hardly sensitive hardly moves.

Against outliers, a measurement is clipped to within a quarter of the median of the latest, and a factor moves `GAIN` of
the way towards it, in logarithms. Where a measurement would not be reliable, the factors stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from weft.domain.calibration import MOST_FACTOR, factors_for
from weft.domain.pool_memory import CalibrationMemory
from weft.domain.shape import Calibration
from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often
from weft.domain.workload import Role
from weft.scaling.reading import is_sane, what_is_missing
from weft.scaling.underperforming.slowness import of_pods

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.calibration import Calibrated, CalibrationSubject, ProvenLoad
    from weft.domain.pool_memory import LoadSample
    from weft.domain.snapshot import PoolObservation
    from weft.domain.workload import Workload

# The longest window of either source of metrics: a measurement takes one, all of which has to be quiet.
WINDOW_SECONDS = 120.0
ENOUGH_REQUESTS = 30.0  # in a window: the mean of fewer is noise
GAIN = 0.15  # of the way to a measurement: a lasting change is followed to within 5 % after 20 of them
# The first measurement moves a factor that is only predicted half of the way, the next a third, down to `GAIN`.
FIRST = 2
# A measurement is clipped to this distance from the median of the latest; before there are enough, from the factor.
MOST_AT_ONCE = math.log(1.25)
LATEST, ENOUGH_FOR_A_MEDIAN = 9, 3
# Of a latency to its factor: below the first, other things make up the latency; beyond the second, queueing does.
LEAST_SENSITIVE, MOST_SENSITIVE = 0.2, 3.0
MOST_WAITING = 1.0  # requests a replica, on average over the last minute: more is a backlog
MOST_KV_USED = 0.8  # beyond this, engines evict sequences and compute their prompts again
MOST_POINTS = 1000  # counting further would only rewrite the status

_NUDGE, _DAMPING = 1.05, 0.05
_FARTHEST = math.log(MOST_FACTOR)


class Means(NamedTuple):
    """Mean latencies in seconds."""

    ttft: float
    tpot: float


# The latencies expected of one replica at the observed load under given factors; None where it could not keep up.
Expects = Callable[[Calibration], Means | None]


@made_often
@dataclass(frozen=True, slots=True)
class CalibrationInput:
    """One pass's view of a pool. `ready` are the first pods of its replicas that are ready on the current revision.

    `loads` are the last minute's samples; `network_bound` says that requests wait for KV transfers, not for engines.
    """

    subject: CalibrationSubject
    role: Role
    now: float
    ready: tuple[str, ...]
    observation: PoolObservation | None
    loads: tuple[LoadSample, ...] = ()
    network_bound: bool = False


def somebody_is_ready(look: CalibrationInput) -> bool:
    """At least one replica of the current revision is ready; those that are starting or terminating are left out."""
    return bool(look.ready)


def metrics_are_fresh_and_whole(look: CalibrationInput) -> bool:
    """Metrics are fresh from each ready pod, no series is missing, and all values are numbers."""
    seen = look.observation
    if seen is None or what_is_missing(seen) is not None or not seen.complete or seen.missing:
        return False
    return all(map(is_sane, (seen.waiting, seen.kv_usage, *_lengths(look.role, seen))))


def latencies_were_measured(look: CalibrationInput) -> bool:
    """All latencies that this role is calibrated by were measured."""
    seen = look.observation
    return seen is not None and all(is_sane(value) and value > 0 for value in _measured(look.role, seen).values())


def there_are_enough_requests(look: CalibrationInput) -> bool:
    """One window has enough requests for its mean to be meaningful."""
    rate = look.observation.requests_per_second if look.observation is not None else None
    return is_sane(rate) and rate * WINDOW_SECONDS >= ENOUGH_REQUESTS


def nothing_piles_up(look: CalibrationInput) -> bool:
    """No backlog builds up: the queueing of a saturated pool would be mistaken for slow engines."""
    loads = look.loads
    if all(load.waiting <= MOST_WAITING * load.answered for load in loads):  # so is their mean, whatever it is
        return True
    return fmean([load.waiting / max(1, load.answered) for load in loads]) <= MOST_WAITING


def kv_memory_has_room(look: CalibrationInput) -> bool:
    """The KV cache has room: a full one evicts sequences, whose prompts are then computed again."""
    used = look.observation.kv_usage if look.observation is not None else None
    return is_sane(used) and used < MOST_KV_USED


def the_network_is_not_the_reason(look: CalibrationInput) -> bool:
    """The pool is not NetworkBound: a narrow KV path says nothing about how fast replicas compute."""
    return not look.network_bound


CLAIMS: tuple[Callable[[CalibrationInput], bool], ...] = (
    somebody_is_ready,
    metrics_are_fresh_and_whole,
    latencies_were_measured,
    there_are_enough_requests,
    nothing_piles_up,
    kv_memory_has_room,
    the_network_is_not_the_reason,
)


def is_quiet(look: CalibrationInput) -> bool:
    """Whether all conditions for a measurement hold."""
    for claim in CLAIMS:  # noqa: SIM110 - every pass asks for every pool, and a generator would be resumed for each
        if not claim(look):
            return False
    return True


def watched(
    memory: CalibrationMemory | None,
    look: CalibrationInput,
    known: tuple[Calibrated, ...],
    proven: ProvenLoad | None = None,
) -> CalibrationMemory:
    """The memory with this look added; a new subject, or a clock that was set back, starts from what is in use."""
    if memory is None or memory.subject != look.subject or _is_of_the_future(memory, look.now):
        own = proven if proven is not None and proven.subject == look.subject.words else None
        memory = CalibrationMemory(look.subject, factors_for(look.subject, known), proven=own)
    same = settled(memory, look)
    if memory.quiet_since is None or len(same) * 2 < len(look.ready):
        quiet = is_quiet(of(look.ready, look))
        return changed(memory, pods=look.ready, quiet_since=look.now) if quiet else interrupted(memory)
    return memory if is_quiet(of(same, look)) else interrupted(memory)


def settled(memory: CalibrationMemory, look: CalibrationInput) -> tuple[str, ...]:
    """The pods that were ready when the quiet window began and are ready now."""
    if memory.pods == look.ready:
        return look.ready
    ready = frozenset(look.ready)
    return tuple([pod for pod in memory.pods if pod in ready])


def of(pods: tuple[str, ...], look: CalibrationInput) -> CalibrationInput:
    """The look restricted to some pods."""
    seen = look.observation
    told = () if seen is None else tuple([each.pod for each in seen.pods])
    if seen is not None and pods == told and pods == look.ready and seen.expected == len(pods):  # nearly always
        return look
    chosen = frozenset(pods)
    if seen is None or (seen.expected == len(pods) and chosen.issuperset(told)):
        return look if pods == look.ready else changed(look, ready=pods)
    known = tuple([each for each in seen.pods if each.pod in chosen])
    return changed(look, ready=pods, observation=of_pods(seen, known, len(pods)))


def interrupted(memory: CalibrationMemory) -> CalibrationMemory:
    """The memory without its quiet window: the next measurement needs a whole window from now on."""
    return memory if memory.quiet_since is None else changed(memory, pods=(), quiet_since=None)


def is_due(memory: CalibrationMemory, look: CalibrationInput) -> bool:
    """Whether a whole quiet window has passed since the last measurement, and nothing is in the way now."""
    if memory.subject != look.subject or not is_time(memory, look.now):
        return False
    same = settled(memory, look)
    return len(same) * 2 >= len(look.ready) and is_quiet(of(same, look))


def is_time(memory: CalibrationMemory, now: float) -> bool:
    """Whether a whole window has passed, as far as the clock alone tells."""
    return memory.quiet_since is not None and now - memory.quiet_since >= WINDOW_SECONDS


def load_of(look: CalibrationInput, usual: Workload) -> Workload:
    """The workload that one replica received; percentiles of lengths keep their usual ratio to the means."""
    seen = look.observation
    if seen is None or seen.requests_per_second is None:
        return usual
    inputs = seen.input_tokens or usual.input_tokens
    outputs = seen.output_tokens or usual.output_tokens
    return replace(
        usual,
        requests_per_second=seen.requests_per_second / len(look.ready),
        input_tokens=inputs,
        output_tokens=outputs,
        input_tokens_p95=inputs * (usual.input_tokens_p95 / max(1.0, usual.input_tokens)),
        output_tokens_p95=outputs * (usual.output_tokens_p95 / max(1.0, usual.output_tokens)),
        prefix_hit=min(seen.prefix_hit or 0.0, 0.95),
    )


def learnt(
    memory: CalibrationMemory, look: CalibrationInput, expects: Expects, pooled: Expects | None = None
) -> CalibrationMemory:
    """The memory after one more measurement, from a look that `is_due`.

    `expects` has requests wait as much as any front lets them, and `pooled` as little: None where that is the same. A
    factor between what both imply stays, as the wait may explain what was measured; one outside goes to the nearer.
    Nothing is learnt at a load where the model predicts no steady state, or whose latencies tell of neither factor.
    """
    memory = interrupted(replace(memory, last=look.now))  # the next one measures the pods that are ready by then
    if look.observation is None:
        return memory
    measured = _measured(look.role, look.observation)
    implied = _implied(memory.factors, measured, expects)
    if pooled is not None:
        implied = _nearest(memory.factors, implied, _implied(memory.factors, measured, pooled))
    for kind, value in implied.items():
        memory = _moved(memory, kind, value, surely=pooled is None)
    if not implied:
        return memory
    points, prompt_points = memory.factors.points + 1, memory.factors.prompt_points + ("prefill" in implied)
    counted = {"points": min(MOST_POINTS, points), "prompt_points": min(MOST_POINTS, prompt_points)}
    return replace(memory, factors=replace(memory.factors, **counted))


def _lengths(role: Role, seen: PoolObservation) -> tuple[float | None, ...]:
    """The measured values that the model needs for a role; the prefix hit matters where prompts are computed."""
    if role is Role.Decode:
        return seen.input_tokens, seen.output_tokens
    return (seen.input_tokens, seen.prefix_hit) + ((seen.output_tokens,) if role is Role.Aggregated else ())


def _measured(role: Role, seen: PoolObservation) -> dict[str, float | None]:
    """The measured latency that each factor shows up in most, for the factors that the role has."""
    if role is Role.Prefill:
        return {"prefill": seen.ttft_mean}
    if role is Role.Decode:
        return {"decode": seen.tpot_mean}
    return {"prefill": seen.ttft_mean, "decode": seen.tpot_mean}


def _is_of_the_future(memory: CalibrationMemory, now: float) -> bool:
    return max(memory.last or 0.0, memory.quiet_since or 0.0) > now


def _implied(factors: Calibration, measured: Mapping[str, float | None], expects: Expects) -> dict[str, float]:
    """Logarithms of the factors with which the model would have expected what was measured."""
    base = _expected(expects, factors)
    if base is None:
        return {}
    sensitivities = {}
    for kind in measured:
        nudged = _expected(expects, _nudged(factors, kind))
        if nudged is None:
            return {}
        sensitivities[kind] = {each: math.log(nudged[each] / base[each]) / math.log(_NUDGE) for each in measured}
    telling = [kind for kind in measured if LEAST_SENSITIVE <= sensitivities[kind][kind] <= MOST_SENSITIVE]
    ratios = [math.log((measured[kind] or math.nan) / base[kind]) for kind in telling]
    matrix = [[sensitivities[factor][latency] for factor in telling] for latency in telling]
    steps = _damped_solution(matrix, ratios)
    return {kind: math.log(_of(factors, kind)) + step for kind, step in zip(telling, steps, strict=True)}


def _nearest(factors: Calibration, most_wait: Mapping[str, float], least_wait: Mapping[str, float]) -> dict[str, float]:
    """Of the factors that the most and the least wait imply, in logarithms, and all between: the nearest to these."""
    between = {}
    for kind, least in most_wait.items():
        most = least_wait.get(kind, math.inf)  # it may tell of nothing without the wait
        between[kind] = sorted((least, math.log(_of(factors, kind)), most))[1]
    return between


def _expected(expects: Expects, factors: Calibration) -> dict[str, float] | None:
    """Mean latencies under these factors, keyed by the factor that dominates each; None where the load is unstable."""
    found = expects(factors)
    if found is None or not math.isfinite(found.ttft + found.tpot):
        return None
    return {"prefill": found.ttft, "decode": found.tpot}


def _nudged(factors: Calibration, kind: str) -> Calibration:
    if kind == "prefill":
        return replace(factors, prefill=factors.prefill * _NUDGE)
    return replace(factors, decode=factors.decode * _NUDGE)


def _of(factors: Calibration, kind: str) -> float:
    return factors.prefill if kind == "prefill" else factors.decode


def _damped_solution(matrix: list[list[float]], ratios: list[float]) -> list[float]:
    """The x of one or two unknowns that minimises |matrix x - ratios|^2 + damping |x|^2."""
    if not ratios:
        return []
    if len(ratios) == 1:
        return [matrix[0][0] * ratios[0] / (matrix[0][0] ** 2 + _DAMPING)]
    (a, b), (c, d) = matrix
    first, second, mixed = a * a + c * c + _DAMPING, b * b + d * d + _DAMPING, a * b + c * d
    left, right = a * ratios[0] + c * ratios[1], b * ratios[0] + d * ratios[1]
    determinant = first * second - mixed * mixed  # at least the damping squared
    return [(second * left - mixed * right) / determinant, (first * right - mixed * left) / determinant]


def _moved(memory: CalibrationMemory, kind: str, implied: float, *, surely: bool) -> CalibrationMemory:
    """Move one factor part of the way towards a measurement whose influence is bounded.

    What is not `surely` implied, as it is the end of a range, makes a factor no lower than the median of the latest
    does: chance alone crosses the end now and then, and the range leaves the factor where that has brought it.
    """
    recent = memory.prefill if kind == "prefill" else memory.decode
    present = math.log(_of(memory.factors, kind))
    centre = median(recent) if len(recent) >= ENOUGH_FOR_A_MEDIAN else present
    bounded = _within(implied, centre - MOST_AT_ONCE, centre + MOST_AT_ONCE)
    if not surely and bounded < present:
        bounded = min(present, max(bounded, median((*recent, implied))))
    gain = max(GAIN, 1.0 / (memory.factors.points + FIRST))
    factor = math.exp(_within(present + gain * (bounded - present), -_FARTHEST, _FARTHEST))
    recent = (*recent, implied)[-LATEST:]
    if kind == "prefill":
        return replace(memory, factors=replace(memory.factors, prefill=factor), prefill=recent)
    return replace(memory, factors=replace(memory.factors, decode=factor), decode=recent)


def _within(value: float, least: float, most: float) -> float:
    return min(most, max(least, value))
