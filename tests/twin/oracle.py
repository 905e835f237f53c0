"""An engine in the plainest way: one step after the other, every sum worked out anew. What leaps are held against."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.twin.engine.speed import EngineSpeed


@dataclass(eq=False)
class Asked:
    """A request with what happens to it from outside, and the times of its tokens."""

    number: int
    arrives: float
    prompt: int
    answer: int
    hashes: tuple[int, ...] = ()
    remote: bool = False
    keeps_kv: bool = False
    cancelled_at: float | None = None
    released_at: float | None = None
    times: list[float] = field(default_factory=list)
    scheduled_at: float | None = None
    computed: int = 0
    room: int = 0  # tokens whose KV has blocks
    shared: list[int] = field(default_factory=list)
    offered: int = 0
    decodes: bool = False
    preempted: int = 0
    arrived_kv_at: float | None = None
    gone: bool = False

    @property
    def total(self) -> int:
        return self.prompt + len(self.times)


@dataclass(frozen=True)
class Look:
    """An engine at the beginning of a step."""

    time: float
    held_blocks: int
    running: int
    for_capacity: int
    for_transfer: int
    tokens: int


class Oracle:
    """Runs a load to its end."""

    def __init__(self, speed: EngineSpeed, load: list[Asked]) -> None:
        self.speed, self.load, self.now = speed, load, 0.0
        self.coming = sorted(load, key=lambda asked: asked.arrives)
        self.leaving = sorted((at, asked.number) for asked in load if (at := asked.cancelled_at) is not None)
        self.releases = sorted((at, asked.number) for asked in load if (at := asked.released_at) is not None)
        self.waiting: list[Asked] = []
        self.fetching: list[Asked] = []
        self.fetched: list[Asked] = []
        self.running: list[Asked] = []
        self.kept: list[Asked] = []
        self.idle: list[int] = []
        self.ended: list[Asked] = []
        self.looks: list[Look] = []
        self.link_free = 0.0
        self.tokens = self.prefix_queries = self.prefix_hits = self.preemptions = self.cancelled = 0

    def run(self) -> None:
        while True:
            self.take_in()
            plan, preempted = self.schedule()
            if preempted and not self.running:
                plan, _ = self.schedule()
            self.look()
            if plan:
                self.do(plan)
                continue
            times = [asked.arrives for asked in self.coming[:1]] + [asked.arrived_kv_at or 0 for asked in self.fetching]
            times += [at for at, _ in self.leaving[:1]] + [at for at, _ in self.releases[:1]]
            if not times:
                return
            self.now = min(times)

    def look(self) -> None:
        under_way = sum(not asked.gone for asked in self.fetching)
        held, capacity = self.speed.kv_blocks - self.available, len(self.waiting) + len(self.fetched)
        self.looks.append(Look(self.now, held, len(self.running), capacity, under_way, self.tokens))

    # memory

    def blocks(self, tokens: int) -> int:
        return -(-tokens // self.speed.block_tokens)

    @property
    def span(self) -> int:
        return self.speed.group_tokens // self.speed.block_tokens

    @property
    def holders(self) -> list[Asked]:
        return [*self.running, *self.fetching, *self.fetched, *self.kept]

    @property
    def cached(self) -> set[int]:
        return {name for asked in self.holders for name in asked.shared} | set(self.idle)

    @property
    def available(self) -> int:
        own = sum(self.blocks(asked.room) - self.span * len(asked.shared) for asked in self.holders)
        shared = {name for asked in self.holders for name in asked.shared}
        return self.speed.kv_blocks - own - self.span * len(shared)

    def grow(self, asked: Asked, tokens: int) -> None:
        asked.room = max(asked.room, tokens)
        assert self.available >= 0
        while self.available < self.span * len(self.idle):
            self.idle.pop(0)

    def offer(self, asked: Asked, computed: int) -> None:
        whole = min(len(asked.hashes), computed // self.speed.group_tokens)
        while asked.offered < whole:
            if asked.hashes[asked.offered] not in self.cached:
                asked.shared.append(asked.hashes[asked.offered])
            asked.offered += 1

    def free(self, asked: Asked, *, offers: bool = True) -> None:
        """Called while it is still among the holders; the caller takes it out."""
        if offers:
            self.offer(asked, asked.computed)
        names, asked.shared = asked.shared, []
        still = self.cached
        self.idle += [name for name in reversed(names) if name not in still]
        asked.room = asked.computed = asked.offered = 0
        asked.decodes = False

    # what comes from outside

    def take_in(self) -> None:
        while self.coming and self.coming[0].arrives <= self.now:
            self.waiting.append(self.coming.pop(0))
        while self.leaving and self.leaving[0][0] <= self.now:
            self.cancel(self.load[self.leaving.pop(0)[1]])
        while self.releases and self.releases[0][0] <= self.now:
            at, number = self.releases.pop(0)
            asked = self.load[number]
            if asked in self.kept and asked.times[-1] <= at:
                self.free(asked)
                self.kept.remove(asked)
        for asked in list(self.fetching):
            if (asked.arrived_kv_at or 0) <= self.now:
                if asked.gone:
                    self.free(asked, offers=False)
                else:
                    self.offer(asked, asked.prompt)
                    self.fetched.append(asked)
                self.fetching.remove(asked)

    def cancel(self, asked: Asked) -> None:
        if asked in self.kept:
            self.free(asked)
            self.kept.remove(asked)
            return
        if asked in self.ended or asked.gone:
            return
        asked.gone = True
        self.cancelled += 1
        if asked in self.waiting:
            self.waiting.remove(asked)
        for group in (self.running, self.fetched):
            if asked in group:
                self.free(asked)
                group.remove(asked)

    # a step

    def schedule(self) -> tuple[list[tuple[Asked, int]], bool]:
        plan: list[tuple[Asked, int]] = []
        room, place, preempted = self.speed.batched_tokens, 0, False
        while place < len(self.running):
            asked = self.running[place]
            tokens = min(asked.total - asked.computed, room)
            while self.blocks(max(asked.room, asked.computed + tokens)) - self.blocks(asked.room) > self.available:
                preempted = True
                self.preempt(self.running[-1])
                if asked not in self.running:
                    return plan, True
            self.grow(asked, asked.computed + tokens)
            self.offer(asked, asked.computed + tokens) if not asked.decodes else None
            plan.append((asked, tokens))
            room -= tokens
            place += 1
        if not preempted:
            self.let_in(plan, room)
        return plan, preempted

    def preempt(self, asked: Asked) -> None:
        self.free(asked)
        self.running.remove(asked)
        asked.preempted += 1
        self.preemptions += 1
        self.waiting.insert(0, asked)

    def let_in(self, plan: list[tuple[Asked, int]], room: int) -> None:
        while room > 0 and (self.fetched or self.waiting) and len(self.running) < self.speed.max_batch:
            if self.fetched:
                asked = self.fetched.pop(0)
                asked.computed, asked.decodes = asked.prompt - 1, True
                tokens = 1
            else:
                asked = self.waiting[0]
                if not self.fits(asked):
                    return
                self.waiting.pop(0)
                if asked.remote:
                    self.fetch(asked)
                    continue
                tokens = min(asked.total - asked.computed, room)
            self.running.append(asked)
            asked.scheduled_at = self.now if asked.scheduled_at is None else asked.scheduled_at
            self.grow(asked, asked.computed + tokens)
            if not asked.decodes:
                self.offer(asked, asked.computed + tokens)
            plan.append((asked, tokens))
            room -= tokens

    def fits(self, asked: Asked) -> bool:
        size, hits = self.speed.group_tokens, 0
        while hits < min(len(asked.hashes), (asked.total - 1) // size) and asked.hashes[hits] in self.cached:
            hits += 1
        found = list(asked.hashes[:hits])
        needed = self.blocks(asked.total) - hits * self.span + self.span * sum(name in self.idle for name in found)
        if asked.remote:
            needed += sum(
                self.blocks(other.total) - self.blocks(other.room) for other in self.running if not other.decodes
            )
        if needed > self.available:
            return False
        self.idle = [name for name in self.idle if name not in found]
        asked.shared, asked.offered, asked.computed, asked.room = found, hits, hits * size, hits * size
        if not asked.preempted:
            self.prefix_queries += asked.total
            self.prefix_hits += asked.computed
        return True

    def fetch(self, asked: Asked) -> None:
        each = self.speed.transfer_seconds_per_token
        if self.link_free > self.now:
            each /= self.speed.transfer_beside_others
        self.link_free = max(self.link_free, self.now) + each * (asked.prompt - asked.computed)
        asked.arrived_kv_at = self.link_free + self.speed.transfer_seconds
        asked.remote = False
        self.fetching.append(asked)
        self.grow(asked, asked.prompt)
        asked.computed = asked.prompt

    def seconds(self, plan: list[tuple[Asked, int]]) -> float:
        table = self.speed.steps
        contexts = [asked.total for asked, _ in plan if asked.decodes]
        prompts = [(asked.computed + tokens / 2, tokens) for asked, tokens in plan if not asked.decodes]
        new = sum(tokens for _, tokens in prompts)
        seconds = table.batch(len(contexts)).at(sum(contexts) / len(contexts)) if contexts else 0.0
        if prompts:
            return table.prompts(
                new, sum(context * tokens for context, tokens in prompts) / new, seconds, len(contexts)
            )
        return seconds

    def do(self, plan: list[tuple[Asked, int]]) -> None:
        self.now += self.seconds(plan)
        for asked, tokens in plan:
            asked.computed += tokens
            if asked.computed < asked.total:
                continue
            asked.times.append(self.now)
            asked.decodes = True
            self.tokens += 1
            if len(asked.times) == asked.answer:
                self.ended.append(asked)
                if asked.keeps_kv:
                    self.kept.append(asked)
                else:
                    self.free(asked)
                self.running.remove(asked)

    # what it counts

    def gaps(self, bounds: tuple[float, ...]) -> list[int]:
        """Times between tokens by bucket, of all requests."""
        buckets = [0] * (len(bounds) + 1)
        for asked in self.load:
            for before, after in zip(asked.times, asked.times[1:], strict=False):
                buckets[bisect_left(bounds, after - before)] += 1
        return buckets
