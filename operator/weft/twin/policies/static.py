"""A fixed count of each pool: a fleet for the peak, bought once. No project's rule, and the ceiling for any saving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.twin.policies.windows import replicas_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.twin.policies.policy import PoolView


@dataclass(frozen=True, slots=True)
class StaticOptions:
    """`counts` are (pool, replicas at the peak), of which `part` is run.

    A pool that is not named gets that part of what the declared rate needs by the performance model. Without a part it
    keeps the count that it has when it is handed over: what Weft planned for that rate, headroom and all, or in a
    setting that `begins_at_peak` for the busiest minute of its trace.
    """

    counts: tuple[tuple[str, int], ...] = ()
    part: float | None = None

    def policy(self) -> Static:
        """It has no memory."""
        return Static(self)


class Static:
    """The same answer for ever."""

    name = "static"
    every_seconds = 60.0

    def __init__(self, options: StaticOptions) -> None:
        """Nothing to remember."""
        self.options = options
        self._named = dict(options.counts)

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:  # noqa: ARG002 - whenever it is
        answers = {view.name: self._count(view) for view in pools}
        return {name: count for name, count in answers.items() if count is not None}

    def _count(self, view: PoolView) -> int | None:
        """None where it keeps the count that it has."""
        part, named = self.options.part, self._named.get(view.name)
        if named is not None:
            return view.clamp(replicas_for(named * (1.0 if part is None else part), 1.0))
        if part is None or not view.capacity.is_known:
            return None
        return view.clamp(view.capacity.needed(view.workload.requests_per_second * part))
