"""Recent prompt and answer lengths, averaged over as many requests as their scatter requires.

A minute of a busy pool gives its mean lengths within a few percent. A minute of a few hundred requests with long tails
gives them within a third, and a count that followed would buy replicas for prompts that are gone before those are
ready. So a mean is taken over the last minute where that is enough, else over as many minutes before as needed, back to
where lengths differed beyond chance. They scatter as log-normal lengths do, or as neighbouring minutes show where that
is more. The ratio of the longest to the mean is known less well, so it is taken over all of these minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, expm1, log, sqrt
from statistics import median
from typing import TYPE_CHECKING

from weft.domain.pool_memory import LengthSample
from weft.domain.values.made_often import made_often
from weft.scaling.looks import SURELY, is_whole_minute, surely_came, surely_no_more_came
from weft.scaling.reading import is_backlog, is_sane, what_is_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.domain.pool_memory import LoadSample
    from weft.domain.snapshot import PoolObservation
    from weft.perf.lengths import Lengths

ENOUGH_REQUESTS_PER_SECOND = 0.1
ENOUGH_ENDED = 0.8  # of those that come: answers that end do not stand for all before
ENOUGH_COME = 0.8  # of those that end: where fewer follow, long ones are left
LEAST_INSIDE = 0.5  # of the requests that came and did not end: more inside, and the others are on their way
FAR_LONGER = 1.2  # times the mean before
WINDOW_SECONDS = 60.0  # the shortest time that the means of one look cover
MOST_SECONDS = 600.0  # how far back samples are kept
ENOUGH_KNOWN = 0.05  # relative standard error that a mean may have
WELL_KNOWN = 0.008  # the same, where chance must hardly ever make a mean seem a twentieth off
NO_CHANCE = 4.0  # standard errors
ENOUGH_NEIGHBOURS = 5
LEAST_TOKENS, MOST_TOKENS = 0.1, 1e9  # anything else is a broken metric
ENOUGH_FOR_P95 = 20.0  # requests in a minute, one of which exceeds the 95th percentile
MOST_OVER_MEAN = 3.86  # largest ratio of a 95th percentile to the mean that a log-normal distribution can have
_ERROR_OF_P95 = 2.1  # standard error of its logarithm for a single request whose log length has a deviation of 1
_MEDIAN_SQUARE = 0.455  # median of the square of a standard normal variable

Sample = tuple[float, float | None]  # requests, and the mean of their lengths in tokens
LongSample = tuple[float, float | None, float | None]  # with their 95th percentile, too


@made_often
@dataclass(frozen=True, slots=True)
class Mean:
    """Mean tokens over a number of requests; `scatter` is the variance of one length over the square of the mean.

    `minutes` is over how many samples, each of a minute, it is taken.
    """

    tokens: float
    requests: float
    scatter: float
    minutes: int = 1

    @property
    def error(self) -> float:
        """The relative standard error of the mean."""
        return sqrt(self.scatter / max(1.0, self.requests))


@dataclass(frozen=True, slots=True)
class Long:
    """Ratio of a 95th percentile to the mean, and the standard error of its logarithm."""

    times: float
    error: float


def has_enough_traffic(observation: PoolObservation) -> bool:
    """Whether there was enough traffic for means over the last window to be meaningful."""
    rate = observation.requests_per_second
    return what_is_missing(observation) is None and rate is not None and rate >= ENOUGH_REQUESTS_PER_SECOND


def only_short_ones_ended(seen: PoolObservation, loads: tuple[LoadSample, ...] = ()) -> bool:
    """Whether clearly fewer requests end than come though none waits, as while a pool's first answers are written.

    Lengths are counted when a request ends, and those with short answers end first: in a pool of long prompts with
    short answers and short prompts with long ones, the first half a minute tells of long prompts alone. `loads` of the
    last minute tell whether the others are inside: a front also counts what engines refuse, and that never ends there.
    """
    came, seconds, rate = seen.arrivals, seen.arrival_seconds, seen.requests_per_second
    if not (is_sane(came) and is_sane(seconds) and seconds > 0 and is_sane(rate)):
        return False
    waits = is_backlog(seen.waiting if is_sane(seen.waiting) else 0.0, seen.answered)
    lacking = surely_came(came, seconds, SURELY) - rate
    if waits or lacking <= (1.0 - ENOUGH_ENDED) * (rate + lacking):
        return False
    elapsed = loads[-1].at - loads[0].at if loads else 0.0
    more = loads[-1].outstanding - loads[0].outstanding if loads else 0.0
    return not is_whole_minute(elapsed) or more >= LEAST_INSIDE * lacking * elapsed


def traffic_stops(seen: PoolObservation, loads: tuple[LoadSample, ...] = ()) -> bool:
    """Whether clearly more requests end than come though none waits: those with long answers end last, and are left.

    `loads` of the last minute tell whether those inside became fewer beyond chance, whose variance is at most twice as
    many as were inside, and as ended: a front that sees a part of the traffic always counts fewer than end.
    """
    came, seconds, rate = seen.arrivals, seen.arrival_seconds, seen.requests_per_second
    if not (is_sane(came) and is_sane(seconds) and seconds > 0 and is_sane(rate)):
        return False
    waits = is_backlog(seen.waiting if is_sane(seen.waiting) else 0.0, seen.answered)
    if waits or surely_no_more_came(came, seconds, SURELY) >= ENOUGH_COME * rate:
        return False
    elapsed = loads[-1].at - loads[0].at if loads else 0.0
    if not is_whole_minute(elapsed):
        return True
    before, after = [max(0.0, each.outstanding - each.waiting) for each in (loads[0], loads[-1])]
    return before - after > SURELY * sqrt(2.0 * min(before, rate * elapsed))


def lengths_after(
    known: tuple[LengthSample, ...], seen: PoolObservation | None, now: float, loads: tuple[LoadSample, ...] = ()
) -> tuple[LengthSample, ...]:
    """Samples of the last minutes with this look; the next drops it if less than a minute after the one before.

    The first is one at which about as many requests end as come, or `loads` show no others inside. None has far longer
    ones than the one before where they may be all that is left of traffic that stops.
    """
    if seen is None or not has_enough_traffic(seen):
        return known
    requests = (seen.requests_per_second or 0.0) * WINDOW_SECONDS
    told = (seen.input_tokens, seen.output_tokens, seen.input_tokens_p95, seen.output_tokens_p95)
    inputs, outputs, long_inputs, long_outputs = [
        each if each is not None and LEAST_TOKENS <= each <= MOST_TOKENS else None for each in told
    ]
    latest = LengthSample(now, requests, inputs, outputs, long_inputs, long_outputs, seen.rare_prompts)
    older = [each for each in known if now - MOST_SECONDS <= each.at < now]
    if not older and only_short_ones_ended(seen, loads):
        return ()
    if (not known or _are_longer(latest, known[-1])) and traffic_stops(seen, loads):
        return known
    if len(older) > 1 and older[-1].at - older[-2].at < WINDOW_SECONDS:
        older.pop()
    return (*older, latest)


def _are_longer(latest: LengthSample, before: LengthSample) -> bool:
    """Whether prompts or answers are far longer on average than those before."""
    pairs = ((latest.inputs, before.inputs), (latest.outputs, before.outputs))
    return any(now is not None and then is not None and now > FAR_LONGER * then for now, then in pairs)


def apart(samples: tuple[LengthSample, ...]) -> Iterator[LengthSample]:
    """Samples from the latest back, far enough apart that no two cover the same requests."""
    before = samples[-1].at + WINDOW_SECONDS
    for sample in reversed(samples):
        if before - sample.at >= WINDOW_SECONDS:
            before = sample.at
            yield sample


def over_enough(samples: Sequence[Sample], usual: Lengths, error: float = ENOUGH_KNOWN) -> Mean | None:
    """The mean over as many of the latest samples as needed, at least the first; None where that has no mean.

    As many as are needed for this relative standard error.
    """
    scatter = max(_scatter(usual), _scatter_seen(samples))
    newest: Mean | None = None
    total, tokens, minutes = 0.0, 0.0, 0
    for requests, mean in samples:
        if mean is None:
            if newest is None:
                return None
            continue
        newest = newest or Mean(mean, requests, scatter)
        chance = sqrt(scatter * (1.0 / max(1.0, requests) + 1.0 / max(1.0, newest.requests)))
        if abs(log(mean / newest.tokens)) > NO_CHANCE * chance:
            break
        total, tokens, minutes = total + requests, tokens + requests * mean, minutes + 1
        if total * error**2 >= scatter:
            break
    if newest is None:
        return None
    return Mean(tokens / total, total, scatter, minutes) if total > 0 else newest


def p95_over_mean(samples: Iterable[LongSample]) -> Long | None:
    """The ratio of 95th percentile to mean, averaged over all of these samples; None where none reports both.

    A percentile below the mean belongs to lengths of which a few are far longer than the rest, which are not
    log-normal.
    """
    total = logs = 0.0
    for requests, mean, p95 in samples:
        if requests >= ENOUGH_FOR_P95 and mean is not None and p95 is not None and p95 >= mean:
            total += requests
            logs += requests * log(min(MOST_OVER_MEAN, p95 / mean))
    return Long(exp(logs / total), _ERROR_OF_P95 / sqrt(total)) if total > 0 else None


def rare_ones(samples: Iterable[LengthSample], least: float) -> tuple[float, float, float] | None:
    """The share of far longer prompts, their length in multiples of the mean, and the standard error of its logarithm.

    None where at most the fraction `least` of the requests in these samples reports such prompts.
    """
    known = [(each, each.inputs) for each in samples if each.requests >= ENOUGH_FOR_P95 and each.inputs is not None]
    total, tokens = sum(each.requests for each, _ in known), sum(each.requests * mean for each, mean in known)
    told = [(each.requests, mean, *each.rare_prompts) for each, mean in known if each.rare_prompts is not None]
    count = sum(requests * part for requests, _, part, _ in told)
    if sum(requests for requests, *_ in told) <= least * total or count <= 0.0:
        return None
    longest = sum(requests * mean * part * times for requests, mean, part, times in told) / count
    return count / total, longest * total / tokens, 1.0 / sqrt(count)


def _scatter(usual: Lengths) -> float:
    """The variance of log-normal lengths over the square of their mean."""
    return expm1(usual.deviation**2)


def _scatter_seen(samples: Sequence[Sample]) -> float:
    """The same, estimated from how the means of neighbouring minutes differ; 0 where there are few.

    Requests come in families of similar length: means of a minute scatter more than those of independent requests. A
    jump is one difference among many, which the median ignores; a ramp is common to all differences and is subtracted.
    """
    known = [(requests, log(mean)) for requests, mean in samples if mean is not None and requests > 0]
    steps = [(newer - older, 1.0 / n + 1.0 / m) for (n, newer), (m, older) in pairwise(known)]
    if len(steps) < ENOUGH_NEIGHBOURS:
        return 0.0
    usual = median(step for step, _ in steps)
    return median((step - usual) ** 2 / chance for step, chance in steps) / _MEDIAN_SQUARE
