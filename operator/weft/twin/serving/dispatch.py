"""What the front does with each request: routing, the hand-over from prefill to decode, and retries.

A request waits at the front while there is no engine. In a split it goes to a prefill engine for one token, and that
engine keeps the KV until a decode engine has fetched it: the first token that the user sees is that of the decode
engine.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from weft.twin.engine.request import RequestStage, SimulatedRequest
from weft.twin.serving.front import choice
from weft.twin.serving.ledger import Ledger
from weft.twin.serving.served import Attempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.twin.serving.agenda import Agenda
    from weft.twin.serving.front import FrontOptions
    from weft.twin.serving.served import ServedEngine
    from weft.twin.traffic.trace import Trace


class Dispatch:
    """The front of one stream. `tried` counts all attempts, `retried` those that were not the first of a request."""

    def __init__(self, trace: Trace, pools: tuple[str, ...], options: FrontOptions, agenda: Agenda) -> None:
        """A request goes to the first of `pools`, and the last one answers the user; a split has two."""
        self.tried = self.retried = 0
        self.ledger = Ledger(trace)
        self._first, self._last = pools[0], pools[-1]
        self._options, self._agenda = options, agenda
        self._patient = math.isinf(options.patience_seconds)
        self._blocks = trace.blocks
        self._inputs, self._outputs = (array("i", column.tobytes()) for column in (trace.inputs, trace.outputs))
        self._choices = {pool: choice(options.rule) for pool in pools}
        self._backlog: dict[str, deque[Attempt]] = {pool: deque() for pool in pools}
        self._tries: dict[int, int] = {}  # retries so far, by row

    # -------------------------------------------------------------------------------------------------------- engines

    def add(self, served: ServedEngine, now: float) -> None:
        """Route to an engine from now on, and send it the requests that wait for one."""
        self._choices[served.pool].add(served)
        waiting, self._backlog[served.pool] = self._backlog[served.pool], deque()
        for attempt in waiting:
            if not attempt.over:
                self._send(attempt, served.pool, now)

    def remove(self, served: ServedEngine) -> None:
        """Route no new request to an engine."""
        self._choices[served.pool].remove(served)

    def look(self, served: ServedEngine, now: float) -> None:
        """Collect the requests that have ended in an engine by now, and schedule its next check."""
        if served.alive:
            engine = served.engine
            ended = engine.ended_by(now)
            if ended:
                self._ended(served, ended, now)
            following = engine.next_event()
            if served.fetching:
                self._release_fetched(served, now)
            self._agenda.look(served, following)

    def hear(self, served: ServedEngine, now: float) -> None:
        """Collect the requests that have ended in an engine by now."""
        ended = served.engine.ended_by(now)
        if ended:
            self._ended(served, ended, now)

    def kill(self, served: ServedEngine, now: float) -> None:
        """Let an engine's node die; the front only notices after `notices_after_seconds`."""
        self.die(served, now)
        self._agenda.call(now + self._options.notices_after_seconds, partial(self.bury, served))

    def die(self, served: ServedEngine, now: float) -> None:
        """Stop an engine: nothing comes from it any more, and KV that it kept cannot be fetched."""
        served.alive = False
        for attempt in list(served.kept.values()):
            self._withdraw(attempt, now)
            self._lose(attempt, now)

    def bury(self, served: ServedEngine, now: float) -> None:
        """Take note that an engine is dead: the requests inside it are lost."""
        self.remove(served)
        inside, served.inside = served.inside, {}
        for attempt in inside.values():
            self._lose(attempt, now)

    def waiting(self, pool: str) -> int:
        """Count the requests that wait at the front for an engine of a pool."""
        return sum(not attempt.over for attempt in self._backlog[pool])

    # -------------------------------------------------------------------------------------------------------- requests

    def ask(self, row: int, now: float) -> None:
        """Take a request from a client, for the first time or as a retry."""
        self.tried += 1
        attempt = Attempt(row)
        if not self._patient:
            self._agenda.call(now + self._options.patience_seconds, partial(self._lose_patience, attempt))
        self._send(attempt, self._first, now)

    def _send(self, attempt: Attempt, pool: str, now: float) -> None:
        """Send an attempt to an engine of a pool, or queue it while there is none."""
        rule = self._choices[pool]
        served = rule.choose()
        if served is None:
            attempt.served = None
            self._backlog[pool].append(attempt)
            return
        request = self._request(attempt, now)
        if not served.engine.holds(request):
            self._lose(attempt, now)
            return
        attempt.served, attempt.request = served, request
        served.inside[request] = attempt
        rule.sent(served)
        if served.alive:
            self._submit(served, attempt, request, now)

    def _request(self, attempt: Attempt, now: float) -> SimulatedRequest:
        """Make the engine's request for an attempt, arriving now."""
        row = attempt.row
        output, hands_over, remote = self._outputs[row], self._first != self._last, attempt.kept is not None
        keeps_kv = hands_over and not remote
        hashes = self._blocks[row] if self._blocks else ()
        return SimulatedRequest(now, self._inputs[row], 1 if keeps_kv else output, hashes, remote, keeps_kv)

    def _submit(self, served: ServedEngine, attempt: Attempt, request: SimulatedRequest, now: float) -> None:
        """Submit a request; the next check is when it can have ended, or at every event where KV is handed over."""
        engine = served.engine
        engine.submit(request, now)
        least = (request.output_tokens - 1) * served.shortest_step_seconds
        if request.remote:
            served.fetching.append(attempt)
            least = 0.0
        self._agenda.look(served, now + least if least else engine.heeds_at)

    def _ended(self, served: ServedEngine, ended: list[SimulatedRequest], now: float) -> None:
        for request in ended:
            attempt = served.inside.pop(request, None)
            if attempt is None:  # the client cancelled during its last step
                served.engine.release(request, now)
                continue
            self._choices[served.pool].left(served)
            if request.keeps_kv:
                served.kept[request], attempt.kept = attempt, (served, request)
                self._send(attempt, self._last, now)
            else:
                attempt.over = True
                self.ledger.answered(attempt.row, request)

    def _release_fetched(self, served: ServedEngine, now: float) -> None:
        """Release KV at prefill engines once the decode engine has fetched it."""
        fetching = served.fetching
        while fetching and (fetching[0].kept is None or _is_fetched(fetching[0].request)):
            self._release(fetching.popleft(), now)

    def _release(self, attempt: Attempt, now: float) -> None:
        """Release the KV of an attempt's prompt at the prefill engine that keeps it."""
        if attempt.kept is not None:
            (source, prompt), attempt.kept = attempt.kept, None
            del source.kept[prompt]
            if source.alive:
                source.engine.release(prompt, now)
                self._agenda.look(source, source.engine.heeds_at)

    def _lose_patience(self, attempt: Attempt, now: float) -> None:
        """Cancel an attempt whose client has seen no token by now."""
        if not attempt.over and attempt.served is not None:
            self.look(attempt.served, now)
        if not attempt.over and not attempt.has_a_token:
            self._withdraw(attempt, now)
            self._lose(attempt, now)

    def _withdraw(self, attempt: Attempt, now: float) -> None:
        """Remove an attempt from the engine that it is in."""
        served, request = attempt.served, attempt.request
        if served is None or request is None:
            return
        del served.inside[request]
        self._choices[served.pool].left(served)
        if served.alive:
            served.engine.cancel(request, now)
            self._agenda.look(served, served.engine.heeds_at)

    def _lose(self, attempt: Attempt, now: float) -> None:
        """End an attempt as failed: schedule a retry, or fail the request."""
        attempt.over = True
        self._release(attempt, now)
        row = attempt.row
        tries = self._tries.get(row, 0)
        if tries == self._options.retries:
            self.ledger.failed(row, now)
            return
        self._tries[row] = tries + 1
        self.retried += 1
        self._agenda.call(now + self._options.retry_after_seconds, partial(self.ask, row))


def _is_fetched(request: SimulatedRequest | None) -> bool:
    """Whether a decode engine has fetched the KV of a request."""
    return request is not None and not request.remote and request.stage is not RequestStage.Fetching


def begun(engines: Iterable[ServedEngine]) -> Iterator[int]:
    """Yield the rows of requests that have a token already and are not finished."""
    return (attempt.row for served in engines for attempt in served.inside.values() if attempt.has_a_token)
