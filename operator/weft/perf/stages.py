"""A pipeline: how layers are cut into stages, and how far a stage can work on several prompts at the same time.

Decode: as many microbatches as stages are under way, each on a stage of its own. A token takes the sum of all stages,
and cannot come around before every microbatch has been through the slowest of them: the one with most layers, or the
last, which also has the head, the sampler and whatever drafts. With fewer sequences than stages, stages idle.

Prompts: one step of a prompt goes through the stages one after the other, and the microbatches behind it go at its
pace, as they cannot overtake. So a lone prompt delays everybody by its whole way through the pipeline, not by one
stage; only prompts in all the microbatches of a round share that way. (In max-plus algebra: the longest path through
stages and microbatches takes all stages of each step with a prompt that it meets, one round for each.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.domain.shape import Shape


# The fraction of a prompt's way through a pipeline in which another can still join it. From the simulation of
# `tests/perf/test_stages.py`, for two and four stages, long prompts and short.
_JOINED = 2.0 / 3.0


@dataclass(frozen=True, slots=True)
class Stages:
    """The number of pipeline stages, and the fractions of all layers that the fullest and the last one have."""

    count: float
    fullest: float
    last: float

    @property
    def even(self) -> float:
        """The number of equal stages that would be as fast as the fullest one allows."""
        return 1.0 / self.fullest

    def beside(self, prompt_steps: float) -> float:
        """Prompts in progress at a time if a round of all microbatches has `prompt_steps` steps with a prompt.

        One, as long as they come one by one, and one per stage once every microbatch has its own.
        """
        return 1.0 + (self.even - 1.0) * min(1.0, prompt_steps / self.count)

    def beside_at_random(self, prompt_steps_per_second: float, round_seconds: float, prompt_seconds: float) -> float:
        """The same for random arrivals: those of one round, which a prompt lengthens."""
        return self.beside(prompt_steps_per_second * (round_seconds + _JOINED * prompt_seconds))

    def way(self, steps: float) -> float:
        """The time of a prompt's steps through the pipeline, as a fraction of their sum one after the other.

        The first step goes through all stages, and each following one finishes one stage later, as does a last partial
        one.
        """
        return (1.0 + (max(1.0, steps) - 1.0) / self.even) / max(1.0, steps)


def stages_of(architecture: Architecture, shape: Shape) -> Stages:
    """Layers split as engines do: as evenly as possible, with no extra layer on the last stage."""
    layers, count = architecture.layers, shape.pipeline_parallel
    return Stages(float(count), math.ceil(layers / count) / layers, layers // count / layers)
