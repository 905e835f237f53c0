"""Traffic as it came, or as it is made up: when each request arrives, and how long it and its answer are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LONGEST_SECONDS = 366 * 86400.0  # every second until the last arrival is simulated
MOST_REQUESTS = 50_000_000  # that are made up or copied: what memory is counted on for
MOST_TOKENS = 2**31 - 1  # of a prompt or of an answer
JITTER_SECONDS = 5.0  # by which copies of a request come earlier or later than the request itself


class TraceError(ValueError):
    """A trace that cannot be replayed; the sentence says what is wrong and where."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival, as columns of one length.

    `arrivals` are seconds since the trace began (float64), `inputs` and `outputs` tokens of each request (int32, at
    least 1). `blocks`, where known, are hashes of the prompt's blocks of `block_tokens` tokens, one tuple a request: a
    prefix that two prompts share has the same hashes. Of the file that they are from, `left_out` rows had no token of a
    prompt or of an answer, and `reordered` ones stood below later ones.
    """

    arrivals: NDArray[np.float64]
    inputs: NDArray[np.int32]
    outputs: NDArray[np.int32]
    blocks: tuple[tuple[int, ...], ...] = ()
    block_tokens: int = 512
    left_out: int = 0
    reordered: int = 0

    def __len__(self) -> int:
        """Requests."""
        return len(self.arrivals)

    @property
    def seconds(self) -> float:
        """From its beginning to its last arrival."""
        return float(self.arrivals[-1]) if len(self) else 0.0

    @property
    def rate(self) -> float:
        """Mean requests per second."""
        return len(self) / self.seconds if self.seconds > 0 else 0.0

    def part(self, begin: float, end: float) -> Trace:
        """What arrives in [begin, end) seconds, with a clock that starts at `begin`."""
        first, last = np.searchsorted(self.arrivals, [begin, end])
        return self._rows(np.arange(first, last), self.arrivals[first:last] - begin)

    def in_order(self, *, begin: bool) -> Trace:
        """The requests by time, those of one moment as they stand; with `begin` the clock starts at the first."""
        order = np.argsort(self.arrivals, kind="stable")
        arrivals = self.arrivals[order]
        return self._rows(order, arrivals - arrivals[0] if begin else arrivals)

    def scaled(self, factor: float, seed: int = 0) -> Trace:
        """As many requests times `factor`, by copies that come a few seconds apart, or by leaving some out.

        Lengths and the shape of the day stay; copies share only the first block with each other, as users share a
        system prompt. Raises `TraceError` unless the factor is a positive number, and for more requests than can be.
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
    """Blocks after the first are each copy's own: hashes of copy 2 differ from those of copy 1."""
    most = 1 + max((max(each, default=0) for each in trace.blocks), default=0)
    blocks = [
        each if copy == 0 else (*each[:1], *[hashed + int(copy) * most for hashed in each[1:]])
        for each, copy in zip(trace.blocks, copies, strict=True)
    ]
    return replace(trace, blocks=tuple(blocks))
