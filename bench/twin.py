"""How fast the twin's engines are: a day of 1.4 million requests on 40 replicas, round robin, on one core.

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
from typing import TYPE_CHECKING

from bench.percentiles import replica_of
from bench.result import Result
from weft.domain.hardware import Precision
from weft.twin.engine import SimulatedEngine
from weft.twin.modelled import step_table
from weft.twin.request import Request
from weft.twin.speed import EngineSpeed

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


def replica_speed(*, prefixes: bool) -> EngineSpeed:
    """Llama 70B in FP8 on two H200, as the performance model has it."""
    replica = replica_of("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
    steps = step_table(replica, MAX_BATCH, BATCHED_TOKENS)
    return EngineSpeed(steps, MAX_BATCH, KV_TOKENS, BATCHED_TOKENS, hash_tokens=HASH_TOKENS if prefixes else 0)


def requests(count: int, generator: random.Random, *, prefixes: bool) -> Iterator[Request]:
    """Arrivals at random under the curve of the day. With prefixes two of three prompts begin like others."""
    gap = DAY_SECONDS / len(_HOURS)
    for hour, part in enumerate(_HOURS):
        wanted = round(count * part / sum(_HOURS))
        for moment in sorted(generator.uniform(hour * gap, (hour + 1) * gap) for _ in range(wanted)):
            prompt = _drawn(generator, _PROMPT, _PROMPT_SPREAD)
            hashes = _hashes(generator, prompt) if prefixes else ()
            yield Request(moment, prompt, _drawn(generator, _ANSWER, _ANSWER_SPREAD), hashes)


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


def measure(count: int = REQUESTS, engines: int = ENGINES) -> tuple[Result, ...]:
    """Both days, each in a process of its own: what it holds is nobody else's."""
    return tuple(result for prefixes in (False, True) for result in _results(_apart(count, engines, prefixes=prefixes)))


def _apart(count: int, engines: int, *, prefixes: bool) -> Day:
    command = [sys.executable, "-m", "bench.twin", str(count), str(engines), *(["--prefixes"] if prefixes else [])]
    ended = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    return Day(**json.loads(ended.stdout))


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
    options = parser.parse_args()
    print(json.dumps(asdict(day(options.count, options.engines, prefixes=options.prefixes))))


if __name__ == "__main__":
    main()
