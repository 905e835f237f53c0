"""One simulated engine replica, from event to event: continuous batching with chunked prefill, in whole steps.

What happens in the middle of a step is looked at when it ends. Steps in which the same sequences decode are taken in
one leap: to the next end, arrival, transfer or shortage of memory. `tests/twin/oracle.py` does the same step by step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.twin.counts import Counts
from weft.twin.request import Stage
from weft.twin.scheduler import Scheduler

if TYPE_CHECKING:
    from weft.twin.request import Request
    from weft.twin.speed import EngineSpeed


class SimulatedEngine:
    """Tell it what comes, in order of time, and advance it; it answers with the requests that have ended."""

    def __init__(self, speed: EngineSpeed, now: float = 0.0) -> None:
        """Empty; the first step may begin now."""
        self.speed = speed
        self.counts = Counts()
        self.draining = False
        self._scheduler = Scheduler(speed, self.counts, now)
        self._leaving: list[Request] = []
        self._ended: list[Request] = []
        self._clock = self._told = now  # where the steps under way began, and the time of the last call
        # Steps under way: how many (0: none), when they end, and whether they are a leap, which may end earlier.
        self._steps, self._end, self._leaps = 0, now, False
        self._line = speed.steps.batch(1)
        self._most_tokens = speed.kv_blocks * speed.block_tokens

    @property
    def load(self) -> int:
        """Requests inside, in any state; KV that is kept for a decode engine is none."""
        return self.running + self.waiting_for_capacity + self.waiting_for_transfer

    @property
    def running(self) -> int:
        """Requests that were let in."""
        return len(self._scheduler.running)

    @property
    def waiting_for_capacity(self) -> int:
        """Requests that wait for a seat or for memory."""
        return len(self._scheduler.waiting) + len(self._scheduler.fetched)

    @property
    def waiting_for_transfer(self) -> int:
        """Requests whose KV is under way; memory is reserved for it."""
        return self._scheduler.under_way

    @property
    def kv_usage(self) -> float:
        """Part of KV memory that is held, at the time of the last call."""
        memory = self._scheduler.memory
        done = self._done_by(self._told) if self._leaps else 0
        return memory.usage + (self._scheduler.batch.growth(done, 1) / memory.blocks if done else 0.0)

    def holds(self, request: Request) -> bool:
        """Whether its model takes it, and all of its KV fits into an empty engine, but for the last token's."""
        tokens, context = request.input_tokens + request.output_tokens, self.speed.context_tokens
        return tokens - 1 <= self._most_tokens and (not context or tokens <= context)

    @property
    def heeds_at(self) -> float:
        """When it does something about what it was told last: when the steps under way end, or at once without any."""
        return self._end if self._steps else self._told

    def next_event(self) -> float:
        """When the steps under way end, or else the next transfer: before, nobody ends. `inf` if nothing will.

        It begins what can begin now, so tell it first who comes now.
        """
        if not self._steps:
            self._begin()
        if self._steps:
            return self._end
        fetching = self._scheduler.fetching
        return fetching[0][0] if fetching else math.inf

    def submit(self, request: Request, now: float) -> None:
        """A request comes; raises `ValueError` if this engine can never answer it, or takes none any more."""
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

    def cancel(self, request: Request, now: float) -> None:
        """Its client went away: it leaves when the step under way ends, unless it has its last token by then."""
        self._come_to(now)
        self._leave(request, now)

    def release(self, request: Request, now: float) -> None:
        """The KV that was kept of an answered request has been fetched, or nobody will fetch it."""
        self._come_to(now)
        if request.stage is Stage.Kept:
            self._leave(request, now)

    def drain(self) -> None:
        """Take no more requests; it is empty when `load` is 0."""
        self.draining = True

    def advance(self, until: float) -> list[Request]:
        """Do all steps that end by then; who has ended since it was last asked, in order of time."""
        self._come_to(until)
        if self._leaps:
            self._split_leap(until)
        return self.take_ended()

    def ended_by(self, until: float) -> list[Request]:
        """The same, where a leap goes on in one piece: its tokens are counted when it ends."""
        self._come_to(until)
        ended, self._ended = self._ended, []
        return ended

    def take_ended(self) -> list[Request]:
        """Requests that have ended since it was last asked, as far as it has come."""
        ended, self._ended = self._ended, []
        return ended

    def _come_to(self, now: float) -> None:
        """Do all steps that end by now, and begin those that begin before; raises `ValueError` for the past."""
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

    def _leave(self, request: Request, now: float) -> None:
        self._leaving.append(request)
        if self._leaps:
            self._stop_leap(now)

    def _begin(self) -> bool:
        """Begin what can begin; whether anything can."""
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
        """Nothing can be done until the next transfer ends, or somebody says something."""
        fetching = self._scheduler.fetching
        self._clock = min(now, fetching[0][0]) if fetching else now

    def _begin_prompts(self) -> None:
        """One step with prompts, and whoever decodes."""
        scheduler, table = self._scheduler, self.speed.steps
        batch, seconds = scheduler.batch, table.prompts(scheduler.tokens, scheduler.contexts / scheduler.tokens)
        if batch.size:
            seconds += table.batch(batch.size).at(batch.context / batch.size) - table.launch_seconds
        self._steps, self._end, self._leaps = 1, self._clock + seconds, False

    def _begin_leap(self) -> None:
        """As many steps as can be told before one is done: until somebody ends, KV comes or memory is short."""
        scheduler, batch = self._scheduler, self._scheduler.batch
        self._line, context = self.speed.steps.batch(batch.size), batch.context / batch.size
        steps = 1
        if not (scheduler.untested or scheduler.seated):
            steps += batch.affordable(batch.steps_to_an_end() - 1, scheduler.memory.available)
        if scheduler.fetching and steps > 1:
            steps = max(1, min(steps, self._line.within(context, scheduler.fetching[0][0] - self._clock)))
        self._steps, self._end, self._leaps = steps, self._clock + self._line.run(context, steps), True

    def _stop_leap(self, now: float) -> None:
        """End the leap with the step that is under way now."""
        batch = self._scheduler.batch
        context = batch.context / batch.size
        steps = max(1, self._line.within(context, now - self._clock))
        if steps < self._steps:
            self._steps, self._end = steps, self._clock + self._line.run(context, steps)

    def _split_leap(self, until: float) -> None:
        """Count those steps of a leap that end by then as done; the others go on."""
        batch, steps, end = self._scheduler.batch, self._steps, self._end
        done = self._done_by(until)
        if done:
            self._steps, self._end = done, self._clock + self._line.run(batch.context / batch.size, done)
            self._finish_steps()
            self._steps, self._end, self._leaps = steps - done, end, True
            self._scheduler.memory.take(batch.next_growth)

    def _done_by(self, until: float) -> int:
        """Steps of a leap that end by then, but for its last one."""
        batch = self._scheduler.batch
        context = batch.context / batch.size
        done = min(self._steps - 1, self._line.within(context, until - self._clock))
        while done and self._clock + self._line.run(context, done) > until:
            done -= 1
        return done

    def _finish_steps(self) -> None:
        """The steps under way end: tokens, contexts, memory, and whoever has the first or the last token."""
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
        """Seconds between tokens of those who had one before."""
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

    def _prompt_is_done(self, request: Request) -> None:
        """It has its first token, or its next one after it was preempted and computed again."""
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

    def _has_ended(self, request: Request) -> None:
        self._scheduler.end(request)
        self.counts.end(request)
        self._ended.append(request)
