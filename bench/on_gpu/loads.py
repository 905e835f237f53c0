"""Users of an engine in several processes: one cannot read the tokens of hundreds of streams in time."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, chain
from multiprocessing import get_context
from typing import TYPE_CHECKING

from bench.truth_bench.asking import closed_loop, open_loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.truth_bench.asking import Served, Timed

PROCESSES = 8
_SHORTEST = 0.8  # of the nominal length


@dataclass(frozen=True, slots=True)
class Lengths:
    """Nominal tokens of a prompt and of its answer."""

    input: int
    output: int

    def drawn(self, count: int, seed: int) -> Iterator[tuple[int, int]]:
        """Of so many requests, evenly from 0.8 of the nominal ones to all of them."""
        chance = random.Random(seed)
        nominal = (self.input, self.output)
        for _ in range(count):
            prompt, answer = (chance.randint(round(_SHORTEST * each), each) for each in nominal)
            yield prompt, answer


class Crowd:
    """Processes that ask; started once, since that takes seconds."""

    def __init__(self) -> None:
        """Start them with the first load."""
        self._pool = ProcessPoolExecutor(PROCESSES, get_context("spawn"))

    def users(self, url: str, model: Served, loop: Mapping[str, int]) -> list[Timed]:
        """A closed loop: `input`, `output`, `users` and `rounds`."""
        lengths, users = Lengths(loop["input"], loop["output"]), loop["users"]
        shares = [len(range(each, users, PROCESSES)) for each in range(min(PROCESSES, users))]
        jobs = [
            self._pool.submit(_closed, url, list(lengths.drawn(share * loop["rounds"], seed)), share, model)
            for seed, share in enumerate(shares)
        ]
        return list(chain.from_iterable(job.result() for job in jobs))

    def arrivals(self, url: str, model: Served, lengths: Lengths, rate: float, count: int) -> list[Timed]:
        """Requests at random times, of a rate a second, in the order of their sending."""
        chance = random.Random(count)
        times = list(accumulate(chance.expovariate(rate) for _ in range(count)))
        shares = [times[each::PROCESSES] for each in range(PROCESSES)]
        jobs = [
            self._pool.submit(_open, url, list(lengths.drawn(len(share), seed)), share, model)
            for seed, share in enumerate(shares)
        ]
        return sorted(chain.from_iterable(job.result() for job in jobs), key=lambda each: each.sent)

    def leave(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


def _closed(url: str, lengths: Sequence[tuple[int, int]], users: int, model: Served) -> list[Timed]:
    return closed_loop(url, iter(lengths), users, model)


def _open(url: str, lengths: Sequence[tuple[int, int]], arrivals: Sequence[float], model: Served) -> list[Timed]:
    return open_loop(url, iter(lengths), arrivals, model)
