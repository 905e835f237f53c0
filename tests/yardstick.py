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

    Both are measured by turns, and yards as many in a row as the first round was long: what slows one slows the other,
    and neither finds a quiet moment that the other is too long for. What is short takes more rounds: on a busy machine
    few of them are undisturbed. What takes longer than a turn on a processor is measured in processor time.
    """
    first = _seconds(partial(work, 0), clock)
    row = max(1, round(first / _seconds(_yard, clock)))
    works, rows = [first], [_seconds(partial(_yards, row), clock)]
    for each in range(1, rounds):
        works.append(_seconds(partial(work, each), clock))
        rows.append(_seconds(partial(_yards, row), clock))
    return min(works) / (min(rows) / row)


def _yards(count: int) -> None:
    for _ in range(count):
        _yard()


def _yard() -> int:
    return sum(number * number for number in range(1000))


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start
