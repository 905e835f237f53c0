"""Traffic, recorded or synthetic: when each request arrives, and how long its prompt and its answer are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_SECONDS = 366 * 86400.0  # longest trace: all the time until the last arrival is simulated
MOST_REQUESTS = 50_000_000  # most requests of a synthetic or scaled trace, by the memory that they take
MOST_TOKENS = 2**31 - 1  # most tokens of a prompt or of an answer
COARSE_FROM_SECONDS = 60  # distinct times of a log from which on their being whole seconds is no chance
JITTER_SECONDS = 5.0  # most by which a copy of a request comes earlier or later than the request itself


class TraceError(ValueError):
    """Raised for a trace that cannot be replayed; the message says what is wrong and where."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival, as columns of one length.

    `arrivals` are seconds since the trace began (float64), `inputs` and `outputs` tokens of each request (int32, at
    least 1). `blocks`, where known, are hashes of the prompt's blocks of `block_tokens` tokens, one tuple per request:
    prompts with a common prefix start with the same hashes. Of the rows in the trace's file, `left_out` had no prompt
    or answer tokens, and `reordered` stood below later ones, the first of them in line `late_line`; `told` says in
    sentences what had to be guessed of it.
    """

    arrivals: NDArray[np.float64]
    inputs: NDArray[np.int32]
    outputs: NDArray[np.int32]
    blocks: tuple[tuple[int, ...], ...] = ()
    block_tokens: int = 512
    left_out: int = 0
    reordered: int = 0
    late_line: int | None = None
    told: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Number of requests."""
        return len(self.arrivals)

    @property
    def seconds(self) -> float:
        """Seconds from the beginning to the last arrival."""
        return float(self.arrivals[-1]) if len(self) else 0.0

    @property
    def rate(self) -> float:
        """Mean requests per second."""
        return len(self) / self.seconds if self.seconds > 0 else 0.0

    def part(self, begin: float, end: float) -> Trace:
        """Return the requests that arrive in [begin, end) seconds, with a clock that starts at `begin`."""
        first, last = np.searchsorted(self.arrivals, [begin, end])
        return self._rows(np.arange(first, last), self.arrivals[first:last] - begin)

    def in_order(self, *, begin: bool) -> Trace:
        """Sort the requests by time, stably; with `begin` the clock starts at the first one."""
        order = np.argsort(self.arrivals, kind="stable")
        arrivals = self.arrivals[order]
        return self._rows(order, arrivals - arrivals[0] if begin else arrivals)

    @property
    def counts_whole_seconds(self) -> bool:
        """Whether this is a log that tells whole seconds alone, with several requests in one of them and another."""
        if np.any(self.arrivals % 1.0):
            return False
        return COARSE_FROM_SECONDS <= len(np.unique(self.arrivals)) < len(self)

    def within_seconds(self, seed: int = 0) -> Trace:
        """Let the requests of each whole second arrive at random inside it, in their order; the first one begins."""
        moments = np.sort(self.arrivals + np.random.default_rng(seed).random(len(self)))
        return replace(self, arrivals=moments - moments[0])

    def scaled(self, factor: float, seed: int = 0) -> Trace:
        """Multiply the number of requests by `factor`, with copies a few seconds apart or by leaving some out.

        Lengths and the shape of the day stay; copies share only the first block with each other, as users share a
        system prompt. Raises `TraceError` unless the factor is a positive number, and for more than `MOST_REQUESTS`
        requests.
        """
        if not (np.isfinite(factor) and factor > 0):
            raise TraceError(f"a rate cannot be scaled by {factor:g}: give a number above 0")
        if len(self) * factor > MOST_REQUESTS:
            raise TraceError(f"{len(self) * factor:.3g} requests are more than the {MOST_REQUESTS:,} that can be made")
        random = np.random.default_rng(seed)
        whole = int(factor)
        times = whole + (random.random(len(self)) < factor - whole)
        source = np.repeat(np.arange(len(self)), times)
        copy = np.arange(len(source)) - np.repeat(np.cumsum(times) - times, times)
        shift = np.where(copy > 0, random.uniform(-JITTER_SECONDS, JITTER_SECONDS, len(source)), 0.0)
        moments = np.clip(self.arrivals[source] + shift, 0.0, self.seconds)
        order = np.argsort(moments, kind="stable")
        found = self._rows(source[order], moments[order])
        return found if not self.blocks else _told_apart(found, copy[order])

    def _rows(self, rows: NDArray[np.intp], arrivals: NDArray[np.float64]) -> Trace:
        blocks = tuple([self.blocks[row] for row in rows]) if self.blocks else ()
        return replace(self, arrivals=arrivals, inputs=self.inputs[rows], outputs=self.outputs[rows], blocks=blocks)


def _told_apart(trace: Trace, copies: NDArray[np.intp]) -> Trace:
    """Give each copy blocks of its own after the first: hashes of copy 2 differ from those of copy 1."""
    most = 1 + max((max(each, default=0) for each in trace.blocks), default=0)
    blocks = [
        each if copy == 0 else (*each[:1], *[hashed + int(copy) * most for hashed in each[1:]])
        for each, copy in zip(trace.blocks, copies, strict=True)
    ]
    return replace(trace, blocks=tuple(blocks))
