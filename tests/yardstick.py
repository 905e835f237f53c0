"""How long something takes in units of this machine's own speed, so that a slow or busy machine fails nothing."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 20


def in_yards(
    work: Callable[[int], object], rounds: int = ROUNDS, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Best time of `work(round)` over the best time of a yard: a thousand squares added up in plain Python.

    Both are measured by turns, so that what slows one slows the other. What is short takes more rounds: on a busy
    machine few of them are undisturbed. What takes longer than a turn on a processor is measured in processor time.
    """
    times = [(_seconds(_yard, clock), _seconds(partial(work, each), clock)) for each in range(rounds)]
    return min(work for _, work in times) / min(yard for yard, _ in times)


def _yard() -> int:
    return sum(number * number for number in range(1000))


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start
