"""What the clock of a simulation makes of the times that resources name.

It shows the same moment at the beginning of every trace, so that a run depends on nothing but its input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.texts.figures import moment_of, seconds
from weft.twin.cluster.pods import EPOCH

if TYPE_CHECKING:
    from weft.cli.simulate.setting import SimulationCase


def freeze_told(case: SimulationCase) -> str | None:
    """Return a sentence on how much of the trace `scaling.freezeUntil` of a resource holds; None where it has none.

    Both halves of a split have the same.
    """
    pool, _ = case.planned.pools[0]
    until = pool.spec.scaling.freeze_until if pool.spec is not None else None
    if until is None:
        return None
    clock = f"the simulated clock shows {moment_of(EPOCH)} when the trace begins"
    return f"{clock}: scaling.freezeUntil {moment_of(until)} of {case.resource} {_held(case, until - EPOCH)}"


def _held(case: SimulationCase, frozen_seconds: float) -> str:
    if frozen_seconds <= 0.0:
        return "is over then and freezes nothing; name a later time to simulate a freeze"
    if frozen_seconds >= case.setting.seconds:
        return "freezes the whole run"
    return f"freezes its first {seconds(frozen_seconds)}"
