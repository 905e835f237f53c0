"""Engines that are not as fast as the performance model says, so that no rule that plans by it plans by the truth."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from weft.twin.engine.steps import StepTable

if TYPE_CHECKING:
    from weft.twin.engine.speed import EngineSpeed

    Points = dict[tuple[float, float], float]

_MODES = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0))  # half waves over the size and over the length


def true_speed(speed: EngineSpeed, most: float, seed: int) -> EngineSpeed:
    """The same engine with steps that are off."""
    return replace(speed, steps=off_by(speed.steps, most, seed))


def off_by(table: StepTable, most: float, seed: int) -> StepTable:
    """The table with every time off by a part that is at most `most`; the same for a seed.

    What it is off by is smooth over the logarithms of batch and context, at most half a wave of each, and of its own
    for prompts; it reaches `most`, but for one last touch: more sequences never take less time. The launch shrinks with
    the fastest prompts, so that it stays a part of them. Raises `ValueError` unless `most` lies in [0, 1).
    """
    if not 0.0 <= most < 1.0:
        raise ValueError(f"times cannot be off by {most:g} of themselves: give a part below 1")
    random = np.random.default_rng(seed)
    decode, prompts = _parts(table.decode_points, random), _parts(table.prompt_points, random)
    fastest = 1.0 + most * min(prompts.values())
    return StepTable(
        _never_less(table.decode_points, decode, most),
        _never_less(table.prompt_points, prompts, most),
        table.launch_seconds * fastest,
        table.graphs,
    )


def _parts(points: Points, random: np.random.Generator) -> Points:
    """For each point how far it is off, from -1 to 1, with one of the two reached."""
    weights, phases = random.normal(size=len(_MODES)), random.uniform(0.0, math.pi, size=len(_MODES))
    sizes, lengths = (_spread({point[axis] for point in points}) for axis in (0, 1))
    waves = {
        (size, length): sum(
            float(weight) * math.cos(math.pi * (across * sizes[size] + along * lengths[length]) + float(phase))
            for weight, phase, (across, along) in zip(weights, phases, _MODES, strict=True)
        )
        for size, length in points
    }
    highest = max(map(abs, waves.values()))
    return {point: wave / highest for point, wave in waves.items()}


def _spread(values: set[float]) -> dict[float, float]:
    """Where each value lies between the smallest (0) and the largest (1), by logarithm."""
    low, high = math.log(min(values)), math.log(max(values))
    return {value: (math.log(value) - low) / (high - low) if high > low else 0.0 for value in values}


def _never_less(points: Points, parts: Points, most: float) -> Points:
    """The times that are off; along growing sizes none below the one before."""
    sizes = sorted({size for size, _ in points})
    found: Points = {}
    for length in {length for _, length in points}:
        column = [points[size, length] * (1.0 + most * parts[size, length]) for size in sizes]
        found |= {(size, length): time for size, time in zip(sizes, accumulate(column, max), strict=True)}
    return found
