"""A pipeline: how layers are cut into stages, and what of the prompts of others a stage can do at the same time.

Decode: as many microbatches as stages are under way, each on a stage of its own. A token takes the sum of all stages,
and cannot come around before every microbatch has been through the slowest of them: the one with most layers, or the
last, which also has the head, the sampler and whatever drafts. With fewer sequences than stages, stages idle.

Prompts: one step of a prompt goes through the stages one after the other, and the microbatches behind it go at its
pace, for they cannot overtake. So a prompt that comes alone costs everybody its whole way and not one stage of it; only
prompts in all the microbatches of a round share that way. (In max-plus algebra: the longest path through stages and
microbatches takes all stages of each step with a prompt that it meets, one round for each.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.domain.shape import Shape


# Of the way of a prompt through a pipeline, the time in which another one can still join it. By the simulation of
# `tests/perf/test_stages.py`, for two and four stages, long prompts and short.
_JOINED = 2.0 / 3.0


@dataclass(frozen=True, slots=True)
class Stages:
    """How many pipeline stages there are, and which parts of all layers the fullest and the last one have."""

    count: float
    fullest: float
    last: float

    @property
    def even(self) -> float:
        """Equal stages that would be as fast as the fullest one lets these be."""
        return 1.0 / self.fullest

    def beside(self, prompt_steps: float) -> float:
        """Prompts that are worked on at a time where a round of all microbatches has so many steps with a prompt.

        One, as long as they come one by one, and one per stage once every microbatch has its own.
        """
        return 1.0 + (self.even - 1.0) * min(1.0, prompt_steps / self.count)

    def beside_at_random(self, prompt_steps_per_second: float, round_seconds: float, prompt_seconds: float) -> float:
        """The same where prompts come at random: those of a round, which a prompt lengthens."""
        return self.beside(prompt_steps_per_second * (round_seconds + _JOINED * prompt_seconds))

    def way(self, steps: float) -> float:
        """The part of the time of a prompt's full steps, one after the other, that they take through the stages.

        The first goes through all of them, and the next is always one stage behind; so is the part of one that is last.
        """
        return (1.0 + (max(1.0, steps) - 1.0) / self.even) / max(1.0, steps)


def stages_of(architecture: Architecture, shape: Shape) -> Stages:
    """Layers cut as engines do: as evenly as can be, and the last stage gets none of those that are left over."""
    layers, count = architecture.layers, shape.pipeline_parallel
    return Stages(float(count), math.ceil(layers / count) / layers, layers // count / layers)
