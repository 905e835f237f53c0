"""`python -m bench.fronts`: how long prompts wait behind fronts that choose in one way or another, and as predicted.

The replicas of `bench.calibration`, as fast as predicted. Of each front the 95th percentile of TTFT in seconds, beside
three predictions: of a lone replica with a random share (M/G/1), of one queue for all, and of what capacity counts on
behind a front that goes by load, where a part of the requests is as good as astray (ADR 0113). Ten minutes.
"""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from bench.calibration import MODEL, PROMPTS, TENSOR_PARALLEL, Case, serve
from bench.machine import this_machine
from bench.percentiles import replica_of
from weft.domain.hardware import Precision
from weft.domain.workload import Role
from weft.perf import ASTRAY
from weft.perf.service import service
from weft.twin.serving.front import FrontRule, LeastLoad, RoundRobin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.twin.serving.front import Choice
    from weft.twin.serving.served import ServedEngine

LOADS = (0.6, 0.7, 0.8, 0.9)  # of the time in which an engine computes
REPLICAS = (2, 4, 8)
SECONDS = 14_400.0  # of all replicas together
SEEDS = (0, 1)
WARM_UP = 120.0


@dataclass
class Drawing:
    """A front that leaves something to chance, among the engines that it has; loads are read and not remembered."""

    random: Random
    engines: list[ServedEngine] = field(default_factory=list)

    def add(self, served: ServedEngine) -> None:
        self.engines.append(served)

    def remove(self, served: ServedEngine) -> None:
        self.engines.remove(served)

    def choose(self) -> ServedEngine | None:
        """Return any of them."""
        return self.random.choice(self.engines)

    def sent(self, served: ServedEngine) -> None:
        """Do nothing."""

    def left(self, served: ServedEngine) -> None:
        """Do nothing."""

    def least(self, engines: list[ServedEngine]) -> ServedEngine:
        """Return the one with the fewest requests inside, and of several any."""
        fewest = min(len(each.inside) for each in engines)
        return self.random.choice([each for each in engines if len(each.inside) == fewest])


class OfTwo(Drawing):
    """Draws two and takes the one with fewer (`power_of_two`)."""

    def choose(self) -> ServedEngine | None:
        return self.least(self.random.sample(self.engines, min(2, len(self.engines))))


@dataclass
class Astray(Drawing):
    """Takes the least loaded, but for a part of the requests that goes to any, as if its prefix were there."""

    part: float = 0.3

    def choose(self) -> ServedEngine | None:
        return super().choose() if self.random.random() < self.part else self.least(self.engines)


@dataclass
class Fronts(Drawing):
    """Several fronts, to which requests come at random; each only knows those that it sent itself."""

    number: int = 2
    asked: int = 0
    own: dict[tuple[int, ServedEngine], set[object]] = field(default_factory=dict)

    def choose(self) -> ServedEngine | None:
        self.asked = self.random.randrange(self.number)
        for each in self.engines:
            known = self.own.get((self.asked, each), set())
            self.own[self.asked, each] = {request for request in known if request in each.inside}
        fewest = min(len(self.own[self.asked, each]) for each in self.engines)
        return self.random.choice([each for each in self.engines if len(self.own[self.asked, each]) == fewest])

    def sent(self, served: ServedEngine) -> None:
        self.own[self.asked, served].add(next(reversed(served.inside)))


FRONTS: dict[str, Callable[[Random], Choice]] = {
    "at random": Drawing,
    "in turn": lambda _: RoundRobin(),
    "better of two": OfTwo,
    "least loaded": lambda _: LeastLoad(),
    "two fronts": Fronts,
    "three fronts": functools.partial(Fronts, number=3),
    "30 % astray": Astray,
}


def measured(busy: float, replicas: int, front: str, seconds: float = SECONDS) -> float:
    """The 95th percentile of TTFT in seconds, of so many seconds of all replicas for each seed."""
    case = Case(busy, replicas, FrontRule.LeastLoad, 1.0)
    served = (serve(case, seconds / replicas, seed, FRONTS[front](Random(seed))) for seed in SEEDS)
    return float(np.quantile([each.ttft for run in served for each in run if each.arrived > WARM_UP], 0.95))


def predicted(busy: float, replicas: int | None, astray: float) -> float:
    """The same by the model, where so many replicas share a queue but for the part that goes astray."""
    replica = replica_of(MODEL, "H100", Precision.BF16, TENSOR_PARALLEL)
    server = replace(service(replica, PROMPTS, Role.Prefill), in_one_queue=replicas, astray=astray)
    return server.at_utilisation(busy).ttft.at(95)


def rows(seconds: float = SECONDS) -> Iterator[str]:
    """Lines of a Markdown table: one for each load and count."""
    yield f"| replicas | busy | alone | one queue | counted on | {' | '.join(FRONTS)} |"
    yield "|" + "---|" * (5 + len(FRONTS))
    for replicas in REPLICAS:
        for busy in LOADS:
            expected = (predicted(busy, None, 0.0), predicted(busy, replicas, 0.0), predicted(busy, replicas, ASTRAY))
            found = (measured(busy, replicas, front, seconds) for front in FRONTS)
            told = " | ".join(f"{each:.2f}" for each in (*expected, *found))
            yield f"| {replicas} | {math.floor(100 * busy + 0.5)} % | {told} |"


def main() -> int:
    """Print the table."""
    print(f"TTFT p95 in seconds ({this_machine()}):\n")
    for line in rows():
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
