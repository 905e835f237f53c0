"""An engine as the front knows it, and one attempt at a request."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from weft.twin.engine.engine import SimulatedEngine

if TYPE_CHECKING:
    from weft.domain.start_up import MeasuredStart
    from weft.twin.engine.request import SimulatedRequest
    from weft.twin.engine.speed import EngineSpeed


class Attempt:
    """One attempt at the request in `row` of the trace, until it is `over`: answered, given up or lost.

    The engine `served` has `request` inside; without an engine the attempt waits at the front. `kept` is the prefill
    engine that keeps the KV of its prompt, with the request there, until the KV is fetched.
    """

    __slots__ = ("kept", "over", "request", "row", "served")

    def __init__(self, row: int) -> None:
        """Start an attempt that has no engine yet."""
        self.row = row
        self.over = False
        self.served: ServedEngine | None = None
        self.request: SimulatedRequest | None = None
        self.kept: tuple[ServedEngine, SimulatedRequest] | None = None

    @property
    def has_a_token(self) -> bool:
        """Whether the user has seen a token: a prefill engine's token only comes with the first one of decode."""
        request = self.request
        return request is not None and request.first_token_at >= 0.0 and not request.keeps_kv


class ServedEngine:
    """An engine with the attempts sent to it, in order, that the front has not seen end; `alive` until its node dies.

    `kept` are prompts here whose KV is still to be fetched, and `fetching` attempts that decode here and have yet to
    fetch theirs, in order. No request ends here before `wake`, so the engine is not checked before. `number` is unique.
    """

    __slots__ = (
        *("alive", "engine", "fetching", "inside", "kept", "number", "pool"),
        *("shortest_step_seconds", "start", "wake"),
    )

    def __init__(self, pool: str, speed: EngineSpeed, now: float, number: int) -> None:
        """Start an engine without requests."""
        self.pool, self.number = pool, number
        self.engine = SimulatedEngine(speed, now)
        self.shortest_step_seconds = speed.steps.batch(1).at(1.0)
        self.start: MeasuredStart | None = None
        self.inside: dict[SimulatedRequest, Attempt] = {}
        self.kept: dict[SimulatedRequest, Attempt] = {}
        self.fetching: deque[Attempt] = deque()
        self.alive = True
        self.wake = math.inf
