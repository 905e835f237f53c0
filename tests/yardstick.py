"""How long something takes in units of this machine's own speed, so that a slow or busy machine fails nothing."""

from __future__ import annotations

import gc
import time
from contextlib import contextmanager
from functools import partial
from itertools import count, repeat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FEWEST_ROUNDS = 3
LONGEST_SECONDS = 30.0


def assert_quick(work: Callable[[], object], yards: float) -> None:
    """`work` takes at most so many yards: a thousand squares added up in plain Python, in processor time.

    Both are measured by turns, and yards as many in a row as the first round was long: what slows one slows the other,
    and neither finds a quiet moment that the other is too long for. The best of each counts, and a busy machine is
    asked again until it had such a moment, for half a minute. What is too slow never is quick.
    """
    assert_each_quick(repeat(work), yards)


def assert_each_quick(works: Iterable[Callable[[], object]], yards: float) -> None:
    """As `assert_quick`, of work that is remembered once it is done, so that each round needs another one."""
    each = iter(works)
    first = next(each)
    row = max(1, round(_seconds(first) / _seconds(_yard)))
    ratios = (ratio * row for ratio in _best_ratios(each, repeat(partial(_yards, row))))
    _assert_once_below(yards, ratios, "yards")


def assert_no_steeper(few: Iterable[Callable[[], object]], many: Iterable[Callable[[], object]], times: float) -> None:
    """What has to be done for `many` takes at most so many times as long as for `few`, found in the same way."""
    _assert_once_below(times, _best_ratios(many, few), "times as long")


def _assert_once_below(limit: float, ratios: Iterator[float], unit: str) -> None:
    """The best of the rounds so far falls below the limit while there is time."""
    ends, found = time.monotonic() + LONGEST_SECONDS, float("inf")
    with _what_others_left_is_not_collected():
        for rounds, found in zip(count(1), ratios, strict=False):
            if rounds >= FEWEST_ROUNDS and (found <= limit or time.monotonic() > ends):
                break
    assert found <= limit, f"{found:.4g} {unit}, where {limit:.4g} are allowed"


def _best_ratios(works: Iterable[Callable[[], object]], others: Iterable[Callable[[], object]]) -> Iterator[float]:
    best = [float("inf"), float("inf")]
    for pair in zip(works, others, strict=False):
        best = [min(seconds, _seconds(work)) for seconds, work in zip(best, pair, strict=True)]
        yield best[0] / best[1]


def _yards(count: int) -> None:
    for _ in range(count):
        _yard()


def _yard() -> int:
    return sum(number * number for number in range(1000))


def _seconds(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    start = clock()
    work()
    return clock() - start


@contextmanager
def _what_others_left_is_not_collected() -> Iterator[None]:
    """By the garbage collector, while something is measured."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
