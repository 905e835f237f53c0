"""One engine as the front knows it, and one try of a request."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from weft.twin.engine import SimulatedEngine

if TYPE_CHECKING:
    from weft.domain.start_up import MeasuredStart
    from weft.twin.request import Request
    from weft.twin.speed import EngineSpeed


class Attempt:
    """One try of the request in `row` of the trace, until it is `over`: answered, given up or lost.

    `served` has `request` inside; without one it waits at the front. `kept` is who keeps the KV of its prompt, and the
    prompt there, until the KV is fetched.
    """

    __slots__ = ("kept", "over", "request", "row", "served")

    def __init__(self, row: int) -> None:
        """It comes to the front."""
        self.row = row
        self.over = False
        self.served: ServedEngine | None = None
        self.request: Request | None = None
        self.kept: tuple[ServedEngine, Request] | None = None

    @property
    def has_a_token(self) -> bool:
        """Whether its user sees one: that of a prefill engine comes with the first of decode."""
        request = self.request
        return request is not None and request.first_token_at >= 0.0 and not request.keeps_kv


class ServedEngine:
    """An engine with what the front has sent there, in order, and has not seen end; `alive` until its node dies.

    `kept` are prompts here whose KV is still to be fetched, and `fetching` tries that decode here and have yet to fetch
    it, in order. Before `wake` nobody ends here, so it need not be looked at. `number` tells it from others.
    """

    __slots__ = (
        *("alive", "engine", "fetching", "inside", "kept", "number", "pool"),
        *("shortest_step_seconds", "start", "wake"),
    )

    def __init__(self, pool: str, speed: EngineSpeed, now: float, number: int) -> None:
        """Empty."""
        self.pool, self.number = pool, number
        self.engine = SimulatedEngine(speed, now)
        self.shortest_step_seconds = speed.steps.batch(1).at(1.0)
        self.start: MeasuredStart | None = None
        self.inside: dict[Request, Attempt] = {}
        self.kept: dict[Request, Attempt] = {}
        self.fetching: deque[Attempt] = deque()
        self.alive = True
        self.wake = math.inf
