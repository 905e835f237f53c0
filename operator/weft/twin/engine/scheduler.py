"""Which requests an engine's next step computes: vLLM's rules (`v1/core/sched/scheduler.py`), first come first served.

Running requests go first, in the order of their admission; then waiting ones, as long as tokens, seats and memory last,
and only if the whole prompt fits. Where memory is short, the last one admitted is preempted: it goes back to the head
of the queue and is computed again, and that step admits no request. A remote prompt has its memory reserved while its
KV is transferred, and goes first once the KV has come.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from weft.twin.engine.batch import DecodeBatch
from weft.twin.engine.memory import KvMemory
from weft.twin.engine.request import RequestStage, SimulatedRequest

if TYPE_CHECKING:
    from weft.twin.engine.counts import Counts
    from weft.twin.engine.speed import EngineSpeed


class EngineScheduler:
    """The requests of one engine, and after `plan` what the next step computes.

    `tokens` counts its prompt tokens and `contexts` the sum of the contexts that they read; `done` are prompts that end
    with it, `seated` requests whose KV came and who get their first token. `held_back`: waiting requests cannot be
    admitted, whatever comes behind them. `untested`: after a preemption nobody checked whether waiting requests fit.
    """

    def __init__(self, speed: EngineSpeed, counts: Counts, now: float) -> None:
        """Start without requests."""
        self._counts = counts
        self._speed = speed
        self._block, self._group = speed.block_tokens, speed.group_tokens
        self._span = self._group // self._block
        self.batch = DecodeBatch(self._block)
        self.memory = KvMemory(speed.kv_blocks, self._span)
        self.waiting: deque[SimulatedRequest] = deque()
        self.fetched: deque[SimulatedRequest] = deque()
        self.fetching: deque[tuple[float, SimulatedRequest, float]] = deque()  # (KV comes at, request, asked at)
        self.under_way = 0  # requests in `fetching` that were not cancelled
        self.running: dict[int, SimulatedRequest] = {}  # by turn: the last one was admitted last
        self.tokens, self.contexts = 0, 0.0
        self.done: list[SimulatedRequest] = []
        self.seated: list[SimulatedRequest] = []
        self.held_back = self.untested = False
        self._prompt: SimulatedRequest | None = None  # continues in the next step; always the last one admitted
        self._turns = 0
        self._link_free_at = now

    @property
    def is_empty(self) -> bool:
        """Whether no request is running, waiting or in transfer."""
        return not (self.running or self.waiting or self.fetching or self.fetched)

    def plan(self, now: float) -> None:
        """Plan the step that begins at `now`, and take the memory for it."""
        self.tokens, self.contexts, self.held_back, self.untested = 0, 0.0, False, False
        if self.fetching:
            self._receive(now)
        preempted = bool(self.running) and self._go_on(now)
        if preempted and self.running:
            self.untested = True
        elif self.waiting or self.fetched:
            self._let_in(now)

    # --------------------------------------------------------------------------------------------------- who runs

    def _go_on(self, now: float) -> bool:
        """Take memory and tokens for running requests; returns whether any had to be preempted."""
        memory, batch = self.memory, self.batch
        preempted = False
        needed = batch.next_growth
        while needed > memory.available:
            needed -= memory.available
            memory.take(memory.available)
            youngest = self.running[next(reversed(self.running))]
            needed -= youngest.stage is RequestStage.Decoding and batch.needs(youngest)
            self._preempt(youngest, now)
            preempted = True
        if needed:
            memory.take(needed)
        prompt = self._prompt
        if prompt is not None and not self._compute(prompt, self._speed.batched_tokens - batch.size):
            self._preempt(prompt, now)
            preempted = True
        return preempted

    def _preempt(self, request: SimulatedRequest, now: float) -> None:
        if request.stage is RequestStage.Decoding:
            request.last_token_at = now
        self._stop(request)
        self._free(request)
        request.stage = RequestStage.Waiting
        request.preemptions += 1
        self._counts.preemptions += 1
        self.waiting.appendleft(request)

    def _compute(self, request: SimulatedRequest, room: int) -> int:
        """Plan as many tokens of a prompt as fit into `room`, and return how many; 0 if memory is short."""
        begin, total = request.computed, request.input_tokens + request.made
        end = min(total, begin + room)
        blocks = (-begin // self._block) - (-end // self._block)
        if blocks > self.memory.available:
            return 0
        self.memory.take(blocks)
        self.tokens += end - begin
        self.contexts += (end - begin) * (begin + end) / 2
        request.computed = end
        if request.hashes:
            self._offer(request)
        if end == total:
            self._prompt = None
            self.done.append(request)
        else:
            self._prompt = request
        return end - begin

    # --------------------------------------------------------------------------------------------------- who waits

    def _let_in(self, now: float) -> None:
        waiting, fetched, running = self.waiting, self.fetched, self.running
        room, seats = self._speed.batched_tokens - self.batch.size - self.tokens, self._speed.max_batch
        while (waiting or fetched) and room > 0 and len(running) < seats:
            if fetched:
                self._seat(fetched.popleft(), now)
                room -= 1
            elif not self._reserve(waiting[0]):
                break
            elif waiting[0].remote:
                self._fetch(waiting.popleft(), now)
            else:
                request = waiting.popleft()
                self._run(request, now)
                room -= self._compute(request, room)
        self.held_back = bool(waiting or fetched)

    def _run(self, request: SimulatedRequest, now: float) -> None:
        self._turns += 1
        request.turn, request.stage = self._turns, RequestStage.Prompt
        self.running[self._turns] = request
        if request.scheduled_at < 0.0:
            request.scheduled_at = now

    def _seat(self, request: SimulatedRequest, now: float) -> None:
        """Admit a request whose KV has come: the next step, for which it has memory, gives its first token."""
        self._run(request, now)
        self.batch.join(request)
        self.seated.append(request)

    def _reserve(self, request: SimulatedRequest) -> bool:
        """Hold what the prefix cache has of a prompt; returns False if memory is too short for all of it."""
        total, hashes, memory = request.input_tokens + request.made, request.hashes, self.memory
        hits = memory.hits(hashes, (total - 1) // self._group) if hashes else 0
        needed = -(-total // self._block) - hits * self._span
        found = hashes[:hits]
        if found:
            needed += memory.idle_among(found)
        if request.remote and self._prompt is not None:
            needed += self._left(self._prompt)
        if needed > memory.available:
            return False
        if found:
            memory.hold(found)
        request.shared, request.hashed, request.computed = list(found), hits, hits * self._group
        if not request.preemptions:
            self._counts.prefix_queries += total
            self._counts.prefix_hits += request.computed
            request.cached_tokens = request.computed
        return True

    def _left(self, prompt: SimulatedRequest) -> int:
        """Count the blocks that a prompt still needs, which KV under way must not take."""
        return (-prompt.computed // self._block) - (-(prompt.input_tokens + prompt.made) // self._block)

    def _fetch(self, request: SimulatedRequest, now: float) -> None:
        """Reserve memory for a request's KV and start its transfer; from then on it is like any other request."""
        tokens, speed = request.input_tokens - request.computed, self._speed
        self.memory.take((-request.computed // self._block) - (-request.input_tokens // self._block))
        pace = 1.0 if self._link_free_at <= now else speed.transfer_beside_others
        self._link_free_at = max(now, self._link_free_at) + tokens * speed.transfer_seconds_per_token / pace
        request.computed, request.stage, request.remote = request.input_tokens, RequestStage.Fetching, False
        self.fetching.append((self._link_free_at + speed.transfer_seconds, request, now))
        self.under_way += 1

    def _receive(self, now: float) -> None:
        """Move the requests whose KV has come by now to `fetched`."""
        while self.fetching and self.fetching[0][0] <= now:
            comes, request, since = self.fetching.popleft()
            self._counts.transfer.observe(comes - since)
            if request.stage is RequestStage.Cancelled:
                self._free(request)
                continue
            self.under_way -= 1
            self._offer(request)
            request.stage = RequestStage.Fetched
            self.fetched.append(request)

    # --------------------------------------------------------------------------------------------------- who leaves

    def end(self, request: SimulatedRequest) -> None:
        """End a request that has its last token; KV that a decode engine will fetch stays."""
        self._stop(request)
        if request.keeps_kv:
            request.stage = RequestStage.Kept
        else:
            self._free(request)
            request.stage = RequestStage.Answered

    def leave(self, request: SimulatedRequest) -> None:
        """Remove a cancelled request, or free kept KV; does nothing for a request that has left before."""
        stage = request.stage
        if stage in {RequestStage.Answered, RequestStage.Cancelled}:
            return
        if stage is RequestStage.Kept:
            self._free(request)
            request.stage = RequestStage.Answered
            return
        self._counts.cancelled += 1
        if stage is RequestStage.Waiting:
            self.waiting.remove(request)
        elif stage is RequestStage.Fetching:  # its memory is written to until the transfer ends
            self.under_way -= 1
        else:
            self._remove(request)
        request.stage = RequestStage.Cancelled

    def _remove(self, request: SimulatedRequest) -> None:
        if request.stage is RequestStage.Fetched:
            self.fetched.remove(request)
        else:
            self._stop(request)
        self._free(request)

    def _stop(self, request: SimulatedRequest) -> None:
        """Take a request out of the running ones; it still holds its memory."""
        if request.stage is RequestStage.Decoding:
            self.batch.leave(request)
        elif request is self._prompt:
            self._prompt = None
        del self.running[request.turn]

    def _free(self, request: SimulatedRequest) -> None:
        """Free a request's memory; what others may share stays cached until its room is needed."""
        if request.hashes and request.stage is not RequestStage.Cancelled:
            self._offer(request)
        self.memory.give_back(-(-request.computed // self._block) - self._span * len(request.shared))
        if request.shared:
            self.memory.let_go(request.shared)
            request.shared = []
        request.computed = request.hashed = 0

    def _offer(self, request: SimulatedRequest) -> None:
        """Cache the whole groups that a request has computed; of a group cached already it keeps its own copy."""
        whole = request.computed // self._group
        if request.hashed < whole and request.hashed < len(request.hashes):
            request.shared += self.memory.offer(request.hashes[request.hashed : whole])
            request.hashed = whole
