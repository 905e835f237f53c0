"""One router under one traffic: what engines answered, and how much more one had to do than another."""

from __future__ import annotations

import asyncio
import statistics
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import aiohttp
import numpy as np

from bench.routers_bench.engine import PREFILL_SECONDS, Answered, Clock, PlayedEngine, PrefixCache
from bench.routers_bench.serving import CHAT, body_of, served
from bench.routers_bench.starting import join, started

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.routers_bench.starting import Router, Setting
    from bench.routers_bench.traffic import Prompt, Session, Traffic

THINKS_SECONDS = (1.0, 3.0)  # from an answer to the next turn
WARM_UP_PART, JOINS_PART = 0.2, 1 / 3  # of the time; from the end of the warm-up, or from joining on, requests count
AROUND_SECONDS = 4.0  # to start routers, answer the last requests and end
_TURN_SECONDS = 3.5  # about, with its answer of some length
_LOOKS_SECONDS, _OUTSTANDING_SECONDS = 0.05, 60.0
_OK = 200


@dataclass(frozen=True, slots=True)
class Conditions:
    """What all runs have in common. `busy`: of the engines' time, if each knew all that came before."""

    seconds: float = 25.0  # in which sessions begin
    busy: float = 0.7
    engines: int = 4
    fronts: int = 1
    output_tokens: int = 60  # 0: engines only prefill
    pace: float = 1.0  # seconds of the machine for one of engines


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    router: Router
    traffic: Traffic
    setting: Setting
    seed: int

    def takes_seconds(self, conditions: Conditions) -> float:
        """About how long it takes on this machine."""
        last_session = (self.traffic.turns - 1) * _TURN_SECONDS
        return AROUND_SECONDS + (conditions.seconds + last_session) * conditions.pace

    def counts_from(self, conditions: Conditions) -> float:
        """Seconds after the start."""
        return conditions.seconds * (JOINS_PART if self.traffic.joins else WARM_UP_PART)


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run, in seconds of the engines.

    `most_more`: the most requests that one engine had more than another, `mean_more` on average over arrivals that
    count. `hits` and `to_last` (what the last engine got) are parts. `late`: for how long the played engines did not
    run at most: figures of that size say nothing.
    """

    most_more: float
    mean_more: float
    ttft: float
    ttft_p95: float
    hits: float
    to_last: float
    requests: float
    failed: float
    late: float


@dataclass
class Driving:
    """Requests of one run, sent to fronts at random; `joined` are the engines that fronts know."""

    clock: Clock
    fronts: Sequence[str]
    joined: list[PlayedEngine]
    session: aiohttp.ClientSession
    random: Random
    begun: float = field(init=False)
    more: list[tuple[float, int]] = field(default_factory=list)  # at which time
    failed: int = 0
    late: float = 0.0

    def __post_init__(self) -> None:
        self.begun = self.clock.now()

    def passed(self) -> float:
        """Seconds since the start."""
        return self.clock.now() - self.begun

    async def requests(self, sessions: Iterator[Session], rate: float, seconds: float) -> None:
        """Begin so many sessions a second for so long, and wait until all that was sent is answered."""
        arrivals, thinking = Random(self.random.random()), Random(self.random.random())
        due = arrivals.expovariate(rate)
        async with asyncio.TaskGroup() as tasks:
            while due < seconds:
                await self.clock.sleep(due - self.passed())
                each = next(sessions)
                pauses = [thinking.uniform(*THINKS_SECONDS) for _ in each[1:]]
                tasks.create_task(self._turns(each, pauses))
                due += arrivals.expovariate(rate)

    async def _turns(self, prompts: Session, pauses: Sequence[float]) -> None:
        for prompt, pause in zip(prompts, [0.0, *pauses], strict=True):
            await self.clock.sleep(pause)
            await self._ask(prompt)

    async def _ask(self, prompt: Prompt) -> None:
        inside = [each.inside for each in self.joined]
        self.more.append((self.passed(), max(inside) - min(inside)))
        try:
            async with self.session.post(self.random.choice(self.fronts) + CHAT, json=body_of(prompt)) as answer:
                await answer.read()
                self.failed += answer.status != _OK
        except (aiohttp.ClientError, TimeoutError):
            self.failed += 1

    async def watch(self) -> None:
        """Notice when this loop, in which all engines run, is late."""
        while True:
            before = self.clock.now()
            await asyncio.sleep(_LOOKS_SECONDS)
            self.late = max(self.late, self.clock.now() - before - _LOOKS_SECONDS / self.clock.pace)


async def run(case: Case, conditions: Conditions) -> Figures:
    """Start engines and routers, send the traffic, and end them."""
    clock = Clock(conditions.pace)
    engines = [
        PlayedEngine(clock, PrefixCache(case.traffic.cache_blocks), conditions.output_tokens)
        for _ in range(conditions.engines)
    ]
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(served(each)) for each in engines]
        known = len(urls) - case.traffic.joins
        fronts = await stack.enter_async_context(started(case.router, case.setting, conditions.fronts, urls[:known]))
        return await drive(case, conditions, fronts, dict(zip(urls, engines, strict=True)))


async def drive(case: Case, conditions: Conditions, fronts: Sequence[str], engines: dict[str, PlayedEngine]) -> Figures:
    """Send the traffic to fronts of some engines, given by address."""
    all_engines, seed = list(engines.values()), Random(case.seed)
    sessions = case.traffic.sessions(Random(seed.random()))
    rate = conditions.busy * len(engines) / (PREFILL_SECONDS * case.traffic.new_tokens)
    async with _session(conditions) as session:
        known = all_engines[: len(all_engines) - case.traffic.joins]
        driving = Driving(Clock(conditions.pace), fronts, known, session, Random(seed.random()))
        sending = driving.requests(sessions, rate, conditions.seconds)
        joining = [_joining(driving, case.counts_from(conditions), engines)] if case.traffic.joins else []
        watching, *working = [asyncio.create_task(each) for each in (driving.watch(), sending, *joining)]
        try:
            await asyncio.gather(*working)
        finally:
            for each in (watching, *working):
                each.cancel()
    return _figures(driving, case.counts_from(conditions), all_engines)


def _session(conditions: Conditions) -> aiohttp.ClientSession:
    """As many connections as there are requests, none of which takes for ever."""
    limit = aiohttp.ClientTimeout(total=_OUTSTANDING_SECONDS * conditions.pace)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=limit)


async def _joining(driving: Driving, at: float, engines: dict[str, PlayedEngine]) -> None:
    """Tell all fronts of the last engine at that time."""
    url, engine = list(engines.items())[-1]
    await driving.clock.sleep(at - driving.passed())
    for front in driving.fronts:
        await join(driving.session, front, url)
    driving.joined.append(engine)
    driving.more.clear()  # what was before says nothing of how soon the new one gets its part


def _figures(driving: Driving, since: float, engines: Sequence[PlayedEngine]) -> Figures:
    counted = [[one for one in each.answered if one.at - driving.begun >= since] for each in engines]
    answered: list[Answered] = [one for each in counted for one in each]
    if not answered:
        raise RuntimeError(f"no request was answered, and {driving.failed} failed")
    ttft = [one.ttft for one in answered]
    return Figures(
        most_more=max(more for _, more in driving.more),
        mean_more=statistics.fmean(more for at, more in driving.more if at >= since),
        ttft=statistics.fmean(ttft),
        ttft_p95=float(np.quantile(ttft, 0.95)),
        hits=sum(one.known for one in answered) / sum(one.tokens for one in answered),
        to_last=len(counted[-1]) / len(answered),
        requests=len(answered),
        failed=driving.failed,
        late=driving.late,
    )
