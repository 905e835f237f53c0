"""The options of `weft simulate`, as they were typed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from weft.cli.ends.failure import CommandFailure
from weft.twin.serving.front import FrontOptions, FrontRule


@dataclass(frozen=True, slots=True)
class Clients:
    """The front's rule, how many seconds clients wait for a first token (None: forever), and how often they retry."""

    front: str = FrontRule.LeastLoad.value
    patience: float | None = None
    retries: int = 0

    @property
    def options(self) -> FrontOptions:
        """The options of the simulated front; raises `CommandFailure` for an unknown rule."""
        rule = next((each for each in FrontRule if each.lower() == self.front.lower()), None)
        if rule is None:
            raise CommandFailure(f"--front {self.front!r:.80} is none of {', '.join(FrontRule)}")
        patience = math.inf if self.patience is None else self.patience
        return FrontOptions(rule, patience, self.retries)


@dataclass(frozen=True, slots=True)
class SimulationWishes:
    """Options as they were typed. `pool` is a name, or KIND/NAME; `start_up` is in seconds, None for the planned time.

    `trace` has one entry for each resource, with its name where there are several. Without any, the last `hours` are
    read from the Prometheus at `prometheus`. `blind` are periods without metrics. `sort` takes files whose rows are not
    in order of time.
    """

    trace: tuple[str, ...] = ()
    what_if: tuple[str, ...] = ()
    fail: tuple[str, ...] = ()
    pool: str | None = None
    start_up: float | None = None
    seed: int = 0
    scale: float = 1.0
    warm_up: float = 0.0
    prometheus: str | None = None
    hours: float = 24.0
    clients: Clients = field(default_factory=Clients)
    blind: tuple[str, ...] = ()
    sort: bool = False
