"""One simulated engine replica, from event to event: continuous batching with chunked prefill, in whole steps.

What happens during a step takes effect when it ends. Consecutive steps in which the same sequences decode are taken in
one leap: up to the next end, arrival, transfer or shortage of memory. `tests/twin/oracle.py` does the same step
by step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.twin.engine.counts import Counts
from weft.twin.engine.request import RequestStage
from weft.twin.engine.scheduler import EngineScheduler

if TYPE_CHECKING:
    from weft.twin.engine.request import SimulatedRequest
    from weft.twin.engine.speed import EngineSpeed


class SimulatedEngine:
    """Submit requests in order of time and advance the engine; it returns the requests that have ended."""

    def __init__(self, speed: EngineSpeed, now: float = 0.0) -> None:
        """Start empty; the first step may begin at `now`."""
        self.speed = speed
        self.counts = Counts()
        self.draining = False
        self._scheduler = EngineScheduler(speed, self.counts, now)
        self._leaving: list[SimulatedRequest] = []
        self._ended: list[SimulatedRequest] = []
        self._clock = self._told = now  # when the steps under way began, and the time of the last call
        # Steps under way: how many (0: none), when they end, and whether they are a leap, which may end earlier.
        self._steps, self._end, self._leaps = 0, now, False
        self._line = speed.steps.batch(1)
        self._most_tokens = speed.kv_blocks * speed.block_tokens

    @property
    def load(self) -> int:
        """Requests inside, in any state; KV that is kept for a decode engine does not count."""
        return self.running + self.waiting_for_capacity + self.waiting_for_transfer

    @property
    def running(self) -> int:
        """Requests that are scheduled, as vLLM's `num_requests_running`."""
        return len(self._scheduler.running)

    @property
    def waiting_for_capacity(self) -> int:
        """Requests that wait for a place in the batch or for KV memory."""
        return len(self._scheduler.waiting) + len(self._scheduler.fetched)

    @property
    def waiting_for_transfer(self) -> int:
        """Requests whose KV is being transferred; memory is reserved for it."""
        return self._scheduler.under_way

    @property
    def kv_usage(self) -> float:
        """Fraction of KV memory in use at the time of the last call, 0 to 1."""
        memory = self._scheduler.memory
        done = self._done_by(self._told) if self._leaps else 0
        return memory.usage + (self._scheduler.batch.growth(done, 1) / memory.blocks if done else 0.0)

    def holds(self, request: SimulatedRequest) -> bool:
        """Whether a request fits the model's context, and its KV (except the last token's) an empty engine."""
        tokens, context = request.input_tokens + request.output_tokens, self.speed.context_tokens
        return tokens - 1 <= self._most_tokens and (not context or tokens <= context)

    @property
    def heeds_at(self) -> float:
        """When the last call takes effect: at the end of the steps under way, or at once while none is."""
        return self._end if self._steps else self._told

    def next_event(self) -> float:
        """Return when the steps under way end, else the next transfer: no request ends before. `inf` without either.

        It begins the steps that can begin now, so submit requests of this moment first.
        """
        if not self._steps:
            self._begin()
        if self._steps:
            return self._end
        fetching = self._scheduler.fetching
        return fetching[0][0] if fetching else math.inf

    def submit(self, request: SimulatedRequest, now: float) -> None:
        """Take a request; raises `ValueError` if this engine can never answer it, or is draining."""
        if self.draining:
            raise ValueError("a draining engine takes no request")
        if request.input_tokens < 1 or request.output_tokens < 1:
            raise ValueError("a request has a prompt and an answer")
        if not self.holds(request):
            raise ValueError("a request has to fit into the KV memory")
        self._come_to(now)
        request.api_seconds = self.speed.request_seconds
        self._scheduler.waiting.append(request)
        if self._leaps and not self._scheduler.held_back:
            self._stop_leap(now)

    def cancel(self, request: SimulatedRequest, now: float) -> None:
        """Drop a request when the step under way ends, unless it has its last token by then."""
        self._come_to(now)
        self._leave(request, now)

    def release(self, request: SimulatedRequest, now: float) -> None:
        """Free the kept KV of an answered request: it has been fetched, or nobody will fetch it."""
        self._come_to(now)
        if request.stage is RequestStage.Kept:
            self._leave(request, now)

    def drain(self) -> None:
        """Accept no more requests; the engine is empty when `load` is 0."""
        self.draining = True

    def advance(self, until: float) -> list[SimulatedRequest]:
        """Run all steps that end by `until`; returns the requests that have ended since the last call, by time."""
        self._come_to(until)
        if self._leaps:
            self._split_leap(until)
        return self.take_ended()

    def ended_by(self, until: float) -> list[SimulatedRequest]:
        """Do as `advance`, but do not split a leap: its tokens are counted only when it ends."""
        self._come_to(until)
        ended, self._ended = self._ended, []
        return ended

    def take_ended(self) -> list[SimulatedRequest]:
        """Return the requests that have ended since the last call, without running any step."""
        ended, self._ended = self._ended, []
        return ended

    def _come_to(self, now: float) -> None:
        """Run all steps that end by `now`, and begin those that begin before; raises `ValueError` for the past."""
        if now < self._told:
            raise ValueError(f"it is {self._told} already, and not {now}")
        self._told = now
        while True:
            if self._steps:
                if self._end > now:
                    return
                self._finish_steps()
            elif self._clock >= now:
                return
            elif not self._begin():
                self._wait(now)

    def _leave(self, request: SimulatedRequest, now: float) -> None:
        self._leaving.append(request)
        if self._leaps:
            self._stop_leap(now)

    def _begin(self) -> bool:
        """Begin the next steps; returns whether there was anything to do."""
        scheduler = self._scheduler
        if self._leaving:
            for request in self._leaving:
                scheduler.leave(request)
            self._leaving = []
        if scheduler.is_empty:
            return False
        scheduler.plan(self._clock)
        if scheduler.tokens:
            self._begin_prompts()
        elif scheduler.batch.size:
            self._begin_leap()
        return self._steps > 0

    def _wait(self, now: float) -> None:
        """Move the clock to the next transfer or to `now`, as there is nothing to compute before."""
        fetching = self._scheduler.fetching
        self._clock = min(now, fetching[0][0]) if fetching else now

    def _begin_prompts(self) -> None:
        """Begin one step with prompt tokens and all decoding sequences."""
        scheduler, table = self._scheduler, self.speed.steps
        batch, tokens = scheduler.batch, scheduler.tokens
        decode = table.batch(batch.size).at(batch.context / batch.size) if batch.size else 0.0
        seconds = table.prompts(tokens, scheduler.contexts / tokens, decode, batch.size)
        self._steps, self._end, self._leaps = 1, self._clock + seconds, False

    def _begin_leap(self) -> None:
        """Begin as many decode steps as are known in advance: until a sequence ends, KV comes or memory is short."""
        scheduler, batch = self._scheduler, self._scheduler.batch
        self._line, context = self.speed.steps.batch(batch.size), batch.context / batch.size
        steps = 1
        if not (scheduler.untested or scheduler.seated):
            steps += batch.affordable(batch.steps_to_an_end() - 1, scheduler.memory.available)
        if scheduler.fetching and steps > 1:
            steps = max(1, min(steps, self._line.within(context, scheduler.fetching[0][0] - self._clock)))
        self._steps, self._end, self._leaps = steps, self._clock + self._line.run(context, steps), True

    def _stop_leap(self, now: float) -> None:
        """Cut the leap after the step that is under way now."""
        batch = self._scheduler.batch
        context = batch.context / batch.size
        steps = max(1, self._line.within(context, now - self._clock))
        if steps < self._steps:
            self._steps, self._end = steps, self._clock + self._line.run(context, steps)

    def _split_leap(self, until: float) -> None:
        """Finish the steps of a leap that end by `until`; the others go on."""
        batch, steps, end = self._scheduler.batch, self._steps, self._end
        done = self._done_by(until)
        if done:
            self._steps, self._end = done, self._clock + self._line.run(batch.context / batch.size, done)
            self._finish_steps()
            self._steps, self._end, self._leaps = steps - done, end, True
            self._scheduler.memory.take(batch.next_growth)

    def _done_by(self, until: float) -> int:
        """Count the steps of a leap that end by `until`, except its last one."""
        batch = self._scheduler.batch
        context = batch.context / batch.size
        done = min(self._steps - 1, self._line.within(context, until - self._clock))
        while done and self._clock + self._line.run(context, done) > until:
            done -= 1
        return done

    def _finish_steps(self) -> None:
        """Finish the steps under way: tokens, contexts, memory, and requests with a first or a last token."""
        scheduler, steps, now = self._scheduler, self._steps, self._end
        batch, done, seated = scheduler.batch, scheduler.done, scheduler.seated
        if batch.size:
            self._count_gaps(batch.size - len(seated))
            self.counts.generated_tokens += steps * batch.size
            if steps > 1:
                scheduler.memory.take(batch.growth(steps - 1, 1))
            batch.context += steps * batch.size
        batch.steps += steps
        self._clock, self._steps, self._leaps = now, 0, False
        if seated:
            self._seated_have_a_token()
        if batch.ends and batch.ends[0][0] <= batch.steps:
            for request in batch.ended():
                request.last_token_at = now
                self._has_ended(request)
        if done:
            scheduler.done = []
            for request in done:
                self._prompt_is_done(request)

    def _count_gaps(self, sequences: int) -> None:
        """Count the seconds between tokens, for sequences that had one before."""
        gaps, batch, seconds = self.counts.inter_token, self._scheduler.batch, self._end - self._clock
        if not sequences:
            return
        if self._leaps:
            gaps.observe_run(self._line, batch.context / batch.size, self._steps, sequences)
            gaps.total += sequences * seconds
        else:
            gaps.observe(seconds, sequences)

    def _seated_have_a_token(self) -> None:
        for request in self._scheduler.seated:
            request.first_token_at = self._clock
            self.counts.first_token(request)
        self._scheduler.seated = []

    def _prompt_is_done(self, request: SimulatedRequest) -> None:
        """Give a request its first token, or its next one after it was preempted and recomputed."""
        now, counts = self._clock, self.counts
        counts.generated_tokens += 1
        if request.made:
            counts.inter_token.observe(now - request.last_token_at)
        else:
            request.first_token_at = now
            counts.first_token(request)
        request.made += 1
        request.last_token_at = now
        if request.made == request.output_tokens:
            self._has_ended(request)
        else:
            self._scheduler.batch.join(request)

    def _has_ended(self, request: SimulatedRequest) -> None:
        self._scheduler.end(request)
        self.counts.end(request)
        self._ended.append(request)
