"""Impossible counts on one page: its pod then reports no demand, while other replicas are believed.

Latencies and ratios in another unit come from a build, and are the same on all replicas (`contradictions`);
these come from one process.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from weft.observe.samples.window import FINISHED, INPUTS, INSIDE, OUTPUTS
from weft.observe.signals.odd_pages import odd_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.domain.snapshot import Buckets
    from weft.observe.samples.arithmetic import Sample
    from weft.observe.samples.window import Window

# Far more than any replica answers of the shortest requests, a front passes on, or has connections for.
MOST_PER_SECOND = 10_000.0
MOST_INSIDE = 100_000.0
# A restart in a window in which a counter is that small may look like anything.
LEAST_FALL = 10.0
_STEADY_STEPS = 2
# A restarted engine has not answered that many times more in one scrape than in any later one.
MOST_TIMES_AT_FIRST = 10.0
# In one scrape and no other: until a second one confirms it, it is no count of answers, and no burst.
MOST_AT_ONCE_PER_SECOND = 1_000.0
# Counts on a page that changes while it is written are a request or two apart.
LENGTHS_MAY_DIFFER = 0.1
ENOUGH_LENGTHS = 10.0


def odd_counts(window: Window) -> frozenset[str]:
    """The impossible figures of this page."""
    return frozenset(_odd(window))


def goes_down_and_up(lines: Iterable[Sequence[Sample]]) -> bool:
    """Whether a counter falls without a restart: several processes answer in turn, or it leapt before.

    After a restart, counts are below earlier ones or reach them step by step, and the first covers a few seconds.
    Lines are in order of time.
    """
    every = [[value for _, value in line] for line in lines]
    return any(_is_interlaced(values) or _falls_short(values) for values in every)


def leaps(lines: Iterable[Sequence[Sample]]) -> bool:
    """Whether a counter grows in one step faster than any replica answers, and in no other a tenth as fast."""
    return any(map(_leaps, lines))


def _leaps(line: Sequence[Sample]) -> bool:
    values = [value for _, value in line]
    if not line or max(values) - min(values) < MOST_AT_ONCE_PER_SECOND:
        return False
    *others, fastest = [0.0, *sorted(_pace(*step) for step in pairwise(line))]
    return fastest >= MOST_AT_ONCE_PER_SECOND and fastest >= MOST_TIMES_AT_FIRST * max(others)


def _is_there_once(line: Sequence[Sample]) -> bool:
    """Whether a single scrape shows an impossibly fast burst: the newest, or one after which it is gone."""
    if max((value for _, value in line), default=0.0) < MOST_AT_ONCE_PER_SECOND:
        return False
    steps = zip(line, line[1:], [value for _, value in line[2:]] + [0.0], strict=False)
    return any(
        _pace(before, here) >= MOST_AT_ONCE_PER_SECOND and after < (before[1] + here[1]) / 2.0
        for before, here, after in steps
    )


def _pace(before: Sample, after: Sample) -> float:
    return (after[1] - before[1]) / (after[0] - before[0])


def _odd(window: Window) -> Iterator[str]:
    series, rate = window.series, window.requests_per_second
    finished = window.lines(series.finished)
    if (rate is not None and rate > MOST_PER_SECOND) or goes_down_and_up(finished) or leaps(finished):
        yield FINISHED
    inside = [value for name in (series.running, series.waiting) for value in window.gauge(name)]
    crowds = (line for name in (series.running, series.waiting) for line in window.lines(name))
    if max(sum(inside), window.waiting or 0.0) > MOST_INSIDE or any(map(_is_there_once, crowds)):
        yield INSIDE
    yield from odd_page(window)
    lengths = (
        (INPUTS, window.input_tokens, series.request_input_tokens),
        (OUTPUTS, window.output_tokens, series.request_output_tokens),
    )
    for figure, mean, name in lengths:
        if _is_torn(window, name) or _is_no_length(mean, window.buckets(name)):
            yield figure


def _is_interlaced(values: list[float]) -> bool:
    """Whether a counter falls, leaps by as much in one step, and has the same counts before and after."""
    steps = [after - before for before, after in pairwise(values)]
    if not steps or min(steps) > -LEAST_FALL or _starts_anew(steps):
        return False
    lowest_before = accumulate(values, min)
    highest_after = list(accumulate(reversed(values), max))[::-1]
    beside = zip(steps, lowest_before, highest_after[1:], strict=False)
    return any(
        -step >= LEAST_FALL and max(steps) > -step / 2.0 and highest >= lowest for step, lowest, highest in beside
    )


def _starts_anew(steps: list[float]) -> bool:
    """Whether a counter falls once and then grows steadily, as after a restart: little was counted before."""
    falls = [at for at, step in enumerate(steps) if step < 0]
    after = steps[falls[-1] + 1 :]
    return len(falls) == 1 and len(after) >= _STEADY_STEPS and min(after) >= max(after) / 2.0


def _falls_short(values: list[float]) -> bool:
    """Whether a counter falls, but to far more than it counts from then on."""
    falls = [at for at, (before, after) in enumerate(pairwise(values), start=1) if after < before]
    later = values[falls[-1] :] if falls else []
    steps = [after - before for before, after in pairwise(later)]
    return bool(steps) and later[0] > MOST_TIMES_AT_FIRST * max(LEAST_FALL, *steps)


def _is_torn(window: Window, name: str | None) -> bool:
    """Whether a histogram's sum restarts and its count does not, or is no number while its count goes on.

    Or it counts what nobody answers: prompts in one scrape that end in none.
    """
    if name is None:
        return False
    sums, counts = (window.lines(f"{name}_{part}") for part in ("sum", "count"))
    if leaps(counts) or goes_down_and_up(counts):
        return True
    return not _falls(sums) <= _falls(counts) or (bool(sums) and _newest(sums) < _newest(counts))


def _newest(lines: Iterable[Sequence[Sample]]) -> float:
    return max((line[-1][0] for line in lines if line), default=-math.inf)


def _falls(lines: Iterable[Sequence[Sample]]) -> set[float]:
    return {at for line in lines for (_, before), (at, after) in pairwise(line) if after < before}


def _is_no_length(mean: float | None, buckets: Buckets) -> bool:
    """Whether a mean length is below one token, or outside what the buckets say."""
    if mean is None:
        return False
    if mean < 1.0 - LENGTHS_MAY_DIFFER:
        return True
    least, most = _ends_of_the_mean(buckets)
    return not least * (1.0 - LENGTHS_MAY_DIFFER) <= mean <= most * (1.0 + LENGTHS_MAY_DIFFER)


def _ends_of_the_mean(buckets: Buckets) -> tuple[float, float]:
    """The least and the most that the mean can be by the buckets; unlimited if they have few or incomplete counts."""
    total = buckets[-1][1] if buckets and math.isinf(buckets[-1][0]) else 0.0
    if total < ENOUGH_LENGTHS:
        return 0.0, math.inf
    least = most = below = lower = 0.0
    for upper, count in buckets:
        part = max(0.0, count - below) / total
        least += part * lower
        most += part * upper if part > 0.0 else 0.0
        below, lower = max(below, count), upper
    return least, most
