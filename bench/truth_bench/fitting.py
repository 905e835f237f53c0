"""Step times of an engine from rows of a closed loop, such that the twin shows what these rows say.

Unknown are the seconds of a prompt token, seconds outside the engine, and those of a decode step at each concurrency,
straight between them. What prompts of others add to TPOT, and prompts in front to TTFT, is what the twin says it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from weft.twin.engine.speed import EngineSpeed
from weft.twin.engine.steps import StepTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bench.truth_bench.clients import Latencies
    from bench.truth_bench.series import Point, Series

TURNS = 5
_SHORTEST_STEP = 0.05  # of TPOT: a decode step is never less
_LEAST_PROMPT, _FIRST_PROMPT = 0.1, 0.8  # of the lowest TTFT: a prompt is never less, and where the search begins


@dataclass(frozen=True, slots=True)
class Fit:
    """Seconds of a prompt token, outside the engine, and of a decode step by sequences."""

    prompt_token: float
    outside: float
    decode: Mapping[int, float]

    def speed(self, series: Series) -> EngineSpeed:
        """An engine of the twin that is so fast."""
        known, most = series.replica, series.replica.batched_tokens
        steps = StepTable(
            {(float(size), 1.0): seconds for size, seconds in {1: self._alone, **self.decode}.items()},
            {(float(tokens), 1.0): tokens * self.prompt_token for tokens in (1, most)},
        )
        return EngineSpeed(steps, known.max_batch, known.kv_tokens, most)

    @property
    def _alone(self) -> float:
        """A step of one sequence: straight on below the fewest, and of these no less than its share."""
        (size, seconds), *more = self.decode.items()
        slope = (more[0][1] - seconds) / (more[0][0] - size) if more else 0.0
        return max(seconds - slope * (size - 1), seconds / size)

    def latencies(self, series: Series, users: int) -> Latencies:
        """What so many users see in the twin."""
        return series.client.ask(self.speed(series), users, self.outside)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A point beside what the twin shows at it with decode steps of `step` seconds.

    A second more of each prompt token adds `to_tpot` and `to_ttft` seconds.
    """

    point: Point
    step: float
    to_tpot: float
    to_ttft: float


def fit(series: Series, points: Sequence[Point], turns: int = TURNS) -> Fit:
    """The steps that make the twin show these points of a series, in order of users."""
    tokens = series.client.input_tokens
    lowest = min(point.ttft for point in points) / tokens
    prompt = _FIRST_PROMPT * lowest
    share = tokens / series.client.output_tokens  # of the prompt of each other user, in a step
    found = Fit(prompt, 0.0, _decode((point, point.tpot - (point.seated - 1) * share * prompt) for point in points))
    for _ in range(turns):
        shown = [_shown(found, found.latencies(series, point.users), point) for point in points]
        found = _closer(found, shown, _LEAST_PROMPT * lowest)
    return found


def _shown(found: Fit, said: Latencies, point: Point) -> _Shown:
    step = found.decode[point.seated]
    of_prompts = max(0.0, said.tpot - step), max(0.0, said.ttft - found.outside - step)
    return _Shown(point, step, *(seconds / found.prompt_token for seconds in of_prompts))


def _closer(found: Fit, shown: Sequence[_Shown], least_prompt: float) -> Fit:
    """The next turn's fit; users who wait for a seat say nothing of prompts."""
    seated = [each for each in shown if each.point.seated == each.point.users]
    prompt, outside = found.prompt_token, found.outside
    if seated:
        prompt = max(least_prompt, min([_prompt_token(seated), *_within_tpot(shown)]))
        outside = _outside(seated, prompt)
    return Fit(prompt, outside, _decode((each.point, each.point.tpot - prompt * each.to_tpot) for each in shown))


def _prompt_token(shown: Sequence[_Shown]) -> float:
    """Least squares of relative errors of TTFT over a prompt token and seconds outside, which are not below 0."""
    slopes, wanted = np.array([(each.to_ttft, each.point.ttft - each.step) for each in shown]).T
    weights = 1.0 / np.array([each.point.ttft for each in shown])
    both = np.stack((slopes * weights, weights), axis=1)
    prompt, outside = np.linalg.lstsq(both, wanted * weights, rcond=None)[0]
    if outside < 0.0:
        prompt = np.linalg.lstsq(both[:, :1], wanted * weights, rcond=None)[0][0]
    return float(prompt)


def _outside(shown: Sequence[_Shown], prompt: float) -> float:
    """What such prompts leave of TTFT, by the same squares."""
    left = [each.point.ttft - each.step - prompt * each.to_ttft for each in shown]
    return max(0.0, float(np.average(left, weights=[each.point.ttft**-2 for each in shown])))


def _within_tpot(shown: Iterable[_Shown]) -> Iterator[float]:
    """So much can a prompt token take before TPOT would mean that more sequences have shorter decode steps."""
    for low, high in pairwise(shown):
        longer, more = high.point.tpot - low.point.tpot, high.to_tpot - low.to_tpot
        if longer > 0.0 and more > 0.0:
            yield longer / more


def _decode(steps: Iterable[tuple[Point, float]]) -> Mapping[int, float]:
    """By sequences, the mean of points with as many; more sequences never take less time."""
    by_size: dict[int, list[float]] = {}
    for point, seconds in steps:
        by_size.setdefault(point.seated, []).append(max(_SHORTEST_STEP * point.tpot, seconds))
    highest, found = 0.0, {}
    for size, several in sorted(by_size.items()):
        highest = max(highest, float(np.mean(several)))
        found[size] = highest
    return found
