"""How fast the twin is: a day of 1.4 million requests on 40 replicas, on one core.

First its engines alone, round robin, and then all of serving: the least loaded engine for each request, scrapes, and
what the operator is told at every scrape.

Lengths are log-normal, 1000 tokens of prompt and 800 of answer on average with the spread of ServeGen's reasoning model
(Alibaba, Apache-2.0), and so is the curve of the day.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.percentiles import replica_of
from bench.result import Result
from weft.domain.hardware import Precision
from weft.twin.engine.engine import SimulatedEngine
from weft.twin.engine.modelled import step_table
from weft.twin.engine.request import SimulatedRequest
from weft.twin.engine.speed import EngineSpeed
from weft.twin.serving.front import FrontOptions
from weft.twin.serving.scrapes import ScrapeOptions
from weft.twin.serving.stream import Route, Serving
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[1]
REQUESTS, ENGINES, SEED = 1_400_000, 40, 7
MAX_BATCH, BATCHED_TOKENS, KV_TOKENS = 256, 8192, 800_000
HASH_TOKENS, FAMILIES = 512, 300
TIMED_TOGETHER = 10_000
DAY_SECONDS, MILLION, KIBI = 86_400.0, 1e6, 1024
# For a million requests: 56 s for the day, and 70 s where prompts have prefixes in common.
SECONDS_LIMIT, SECONDS_WITH_PREFIXES_LIMIT, RESIDENT_LIMIT_BYTES = 40.0, 50.0, 1e9
SECONDS_SERVED_LIMIT, SCRAPED_EVERY_SECONDS = 65.0, 15.0
_PROMPT, _PROMPT_SPREAD, _ANSWER, _ANSWER_SPREAD = 1000.0, 1.2, 800.0, 0.97
_LONGEST = 32_768
# Requests of each hour of ServeGen's day, in thousands.
_HOURS = (18, 20, 29, 26, 16, 13, 11, 8, 8, 10, 12, 12, 7, 8, 10, 10, 13, 9, 11, 9, 18, 23, 32, 17)


@dataclass(frozen=True, slots=True)
class Day:
    """What one run took, seconds of the engines and of making requests, and what came out.

    `mean_inside` are requests inside one engine, on average over the day.
    """

    engine_seconds: float
    traffic_seconds: float
    answered: int
    generated_tokens: int
    mean_inside: float
    prefix_hit_percent: float
    peak_resident_bytes: int


@dataclass(frozen=True, slots=True)
class ServedDay:
    """What a day took through a front, in seconds: `served` is everything, of which `observing` is a part."""

    served_seconds: float
    observing_seconds: float
    traffic_seconds: float
    answered: int
    peak_resident_bytes: int


def replica_speed(*, prefixes: bool) -> EngineSpeed:
    """Llama 70B in FP8 on two H200, as the performance model has it."""
    replica = replica_of("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
    steps = step_table(replica, MAX_BATCH, BATCHED_TOKENS)
    return EngineSpeed(steps, MAX_BATCH, KV_TOKENS, BATCHED_TOKENS, hash_tokens=HASH_TOKENS if prefixes else 0)


def requests(count: int, generator: random.Random, *, prefixes: bool = False) -> Iterator[SimulatedRequest]:
    """Arrivals at random under the curve of the day. With prefixes two of three prompts begin like others."""
    gap = DAY_SECONDS / len(_HOURS)
    for hour, part in enumerate(_HOURS):
        wanted = round(count * part / sum(_HOURS))
        for moment in sorted(generator.uniform(hour * gap, (hour + 1) * gap) for _ in range(wanted)):
            prompt = _drawn(generator, _PROMPT, _PROMPT_SPREAD)
            hashes = _hashes(generator, prompt) if prefixes else ()
            yield SimulatedRequest(moment, prompt, _drawn(generator, _ANSWER, _ANSWER_SPREAD), hashes)


def _drawn(generator: random.Random, mean: float, spread: float) -> int:
    return max(1, min(_LONGEST, round(generator.lognormvariate(math.log(mean) - spread**2 / 2, spread))))


def _hashes(generator: random.Random, prompt: int) -> tuple[int, ...]:
    """A beginning that others have too, and then its own."""
    family, shared, own = generator.randrange(FAMILIES), generator.randrange(3), generator.getrandbits(48)
    return tuple(family * 1000 + place if place < shared else own + place for place in range(prompt // HASH_TOKENS))


def day(count: int, engines: int, *, prefixes: bool = False) -> Day:
    """Feed the engines a day. Seconds are of the processor, which neighbours on the machine change less."""
    speed, clock, spent, answered = replica_speed(prefixes=prefixes), time.process_time, 0.0, 0
    fleet = [SimulatedEngine(speed) for _ in range(engines)]
    begun, front, coming = clock(), cycle(fleet), requests(count, random.Random(SEED), prefixes=prefixes)
    while some := list(islice(coming, TIMED_TOGETHER)):
        before = clock()
        for request in some:
            engine = next(front)
            engine.submit(request, request.arrived)
            answered += len(engine.take_ended())
        spent += clock() - before
    before = clock()
    answered += sum(len(engine.advance(2 * DAY_SECONDS)) for engine in fleet)
    spent += clock() - before
    counts = [engine.counts for engine in fleet]
    queries = sum(each.prefix_queries for each in counts)
    return Day(
        engine_seconds=round(spent, 2),
        traffic_seconds=round(clock() - begun - spent, 2),
        answered=answered,
        generated_tokens=sum(each.generated_tokens for each in counts),
        mean_inside=round(sum(each.latency.total for each in counts) / DAY_SECONDS / engines, 2),
        prefix_hit_percent=round(100.0 * sum(each.prefix_hits for each in counts) / queries, 1),
        peak_resident_bytes=KIBI * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


def served_day(count: int, engines: int) -> ServedDay:
    """The same day through a front, and observed."""
    clock, begun = time.process_time, time.process_time()
    trace, speed, names = day_trace(count), replica_speed(prefixes=False), [f"engine-{each}" for each in range(engines)]
    options = ScrapeOptions(interval_seconds=SCRAPED_EVERY_SECONDS)
    serving, observing = Serving(trace, Route("day", "day"), FrontOptions(), options, SEED), 0.0
    for name in names:
        serving.start(name, "day", speed, 0.0)
    made = clock()
    for turn in range(1, math.ceil(DAY_SECONDS / SCRAPED_EVERY_SECONDS)):
        now = turn * SCRAPED_EVERY_SECONDS + options.delay_seconds
        serving.advance(now)
        before = clock()
        serving.observe("day", names, now)
        observing += clock() - before
    serving.advance(2 * DAY_SECONDS)
    answers = serving.answers()
    return ServedDay(
        served_seconds=round(clock() - made, 2),
        observing_seconds=round(observing, 2),
        traffic_seconds=round(made - begun, 2),
        answered=int(answers.completed.sum()),
        peak_resident_bytes=KIBI * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


def day_trace(count: int) -> Trace:
    """The requests of a day in columns."""
    made = ((each.arrived, each.input_tokens, each.output_tokens) for each in requests(count, random.Random(SEED)))
    rows = np.fromiter(made, dtype=[("at", np.float64), ("input", np.int32), ("output", np.int32)])
    return Trace(rows["at"], rows["input"], rows["output"])


def measure(count: int = REQUESTS, engines: int = ENGINES) -> tuple[Result, ...]:
    """All days, each in a process of its own: what it holds is nobody else's."""
    plain, shared = (Day(**_apart(count, engines, *option)) for option in ((), ("--prefixes",)))
    served = ServedDay(**_apart(count, engines, "--served"))
    return (*_results(plain), *_results(shared), _served(served))


def _apart(count: int, engines: int, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.twin", str(count), str(engines), *options]
    ended = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _served(day: ServedDay) -> Result:
    seconds = round(day.served_seconds / day.answered * MILLION, 1)
    return Result("twin-served-million-requests", seconds, "s", SECONDS_SERVED_LIMIT, asdict(day))


def _results(day: Day) -> tuple[Result, ...]:
    """Seconds for a million requests, and memory."""
    details = {name: value for name, value in asdict(day).items() if name != "peak_resident_bytes"}
    shares = day.prefix_hit_percent > 0.0
    name, limit = ("twin-prefixes", SECONDS_WITH_PREFIXES_LIMIT) if shares else ("twin", SECONDS_LIMIT)
    seconds = round(day.engine_seconds / day.answered * MILLION, 1)
    return (
        Result(f"{name}-million-requests", seconds, "s", limit, details),
        Result(f"{name}-peak-resident", day.peak_resident_bytes, "bytes", RESIDENT_LIMIT_BYTES),
    )


def main() -> None:
    """One day, as JSON."""
    parser = argparse.ArgumentParser(description="A day of requests on simulated engines, as JSON.")
    parser.add_argument("count", nargs="?", type=int, default=REQUESTS)
    parser.add_argument("engines", nargs="?", type=int, default=ENGINES)
    parser.add_argument("--prefixes", action="store_true", help="some prompts begin like others")
    parser.add_argument("--served", action="store_true", help="through a front, and scraped")
    options = parser.parse_args()
    count, engines = options.count, options.engines
    print(
        json.dumps(
            asdict(served_day(count, engines) if options.served else day(count, engines, prefixes=options.prefixes))
        )
    )


if __name__ == "__main__":
    main()
