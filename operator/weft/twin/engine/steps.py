"""Step times as a table, linear between its points, so that many equal steps are timed in closed form.

A table comes from the performance model (`modelled`) or from measured points. In a step every decoding sequence gets a
token, and prompts get the tokens that are left. A step with both takes the sum of both, less the launch that they
share.
"""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Points = Mapping[tuple[float, float], float]

_CLOSE = 1e-9  # fraction of a step: a boundary this near counts as met


class PiecewiseLinear:
    """Seconds as a function of a length in tokens: linear between knots, and extrapolated beyond the last ones."""

    __slots__ = ("_bases", "_inner", "_slopes", "_tops")

    def __init__(self, knots: Sequence[float], values: Sequence[float]) -> None:
        """`knots` ascend; a single one makes a constant."""
        pairs = zip(pairwise(knots), pairwise(values), strict=True)
        self._inner = list(knots[1:-1])
        self._tops = [*self._inner, math.inf]  # the upper end of each piece
        self._slopes = [(high - low) / (end - start) for (start, end), (low, high) in pairs] or [0.0]
        self._bases = [value - knot * slope for value, knot, slope in zip(values, knots, self._slopes, strict=False)]

    def at(self, length: float) -> float:
        """Return the seconds at a length."""
        piece = bisect_right(self._inner, length)
        return self._bases[piece] + length * self._slopes[piece]

    def run(self, length: float, steps: int) -> float:
        """Return the seconds of `steps` steps, each one token longer than the one before, the first at `length`."""
        piece = bisect_right(self._inner, length)
        middle = length + (steps - 1) / 2
        if 2 * middle - length <= self._tops[piece]:
            return steps * (self._bases[piece] + middle * self._slopes[piece])
        first = math.ceil(self._tops[piece] - length)
        return self.run(length, first) + self.run(length + first, steps - first)

    def within(self, length: float, seconds: float) -> int:
        """Return the fewest steps that take at least `seconds`, each one token longer than the one before."""
        piece = bisect_right(self._inner, length)
        slope = self._slopes[piece]
        straight = self._bases[piece] + (length - 0.5) * slope
        steps = 2.0 * seconds / (straight + math.sqrt(max(0.0, straight * straight + 2.0 * slope * seconds)))
        wanted = max(0, math.ceil(steps - _CLOSE))
        if length + wanted - 1 <= self._tops[piece]:
            return wanted
        first = math.ceil(self._tops[piece] - length)
        return first + self.within(length + first, seconds - self.run(length, first))


class Grid:
    """Seconds as a function of a size and a length: bilinear between points, and extrapolated beyond the last ones."""

    def __init__(self, points: Points) -> None:
        """Every size needs every length; raises `ValueError` where a point is missing or takes no time.

        More tokens never take less time: a point that says so is noise, and is raised to the one before it.
        """
        self._sizes = sorted({size for size, _ in points})
        self._lengths = sorted({length for _, length in points})
        missing = [pair for pair in product(self._sizes, self._lengths) if pair not in points]
        if missing or not points:
            raise ValueError(f"no time for {missing[0] if missing else 'anything'}")
        if min(points.values()) <= 0.0:
            raise ValueError("every step takes time")
        self._rows = [_never_less([points[size, length] for length in self._lengths]) for size in self._sizes]
        self._lines: dict[float, PiecewiseLinear] = {}

    def line(self, size: float) -> PiecewiseLinear:
        """Return seconds over length at one size."""
        found = self._lines.get(size)
        if found is None:
            found = self._lines[size] = PiecewiseLinear(self._lengths, self._row(size))
        return found

    def at(self, size: float, length: float) -> float:
        """Return the seconds at a size and a length, without caching, for sizes that seldom recur."""
        low, share = self._place(size)
        if not share:
            return self.line(self._sizes[low]).at(length)
        below, above = self.line(self._sizes[low]).at(length), self.line(self._sizes[low + 1]).at(length)
        return below + share * (above - below)

    @property
    def points(self) -> dict[tuple[float, float], float]:
        """The seconds of each (size, length) that it was made of."""
        pairs = zip(self._sizes, self._rows, strict=True)
        return {(size, length): time for size, row in pairs for length, time in zip(self._lengths, row, strict=True)}

    def _row(self, size: float) -> list[float]:
        low, share = self._place(size)
        if not share:
            return self._rows[low]
        pairs = zip(self._rows[low], self._rows[low + 1], strict=True)
        return [below + share * (above - below) for below, above in pairs]

    def _place(self, size: float) -> tuple[int, float]:
        """Return the index of the size below, and the fraction of the way to the next; (0, 0) below the smallest."""
        sizes = self._sizes
        if size <= sizes[0] or len(sizes) == 1:
            return 0, 0.0
        low = min(bisect_right(sizes, size) - 1, len(sizes) - 2)
        return low, (size - sizes[low]) / (sizes[low + 1] - sizes[low])


class Graphs(NamedTuple):
    """Graphs hold steps of up to so many `tokens`; the host launches a larger one for `host_seconds`.

    Those of prompts count, and one of each sequence that decodes beside them.
    """

    tokens: float
    host_seconds: float


class StepTable:
    """Times of steps in seconds.

    `decode` is over the sequences of a batch and their mean context in tokens. `prompts` is over the prompt tokens of a
    step and the mean context of these tokens, which for a whole prompt of n tokens is n / 2. A step with prompts and
    decoding sequences takes `launch_seconds` less than the sum of both. One with prompts beyond `graphs` takes as long
    as the host launches it, at least.
    """

    def __init__(
        self, decode: Points, prompts: Points, launch_seconds: float = 0.0, graphs: Graphs | None = None
    ) -> None:
        """Raise `ValueError` where a grid is incomplete or a point takes no time; without `graphs` these hold all."""
        self._decode, self._prompts = Grid(decode), Grid(prompts)
        self.launch_seconds, self.graphs = launch_seconds, graphs or Graphs(math.inf, 0.0)

    @property
    def decode_points(self) -> dict[tuple[float, float], float]:
        """Seconds by (sequences, mean context in tokens)."""
        return self._decode.points

    @property
    def prompt_points(self) -> dict[tuple[float, float], float]:
        """Seconds by (prompt tokens, their mean context in tokens)."""
        return self._prompts.points

    def batch(self, sequences: int) -> PiecewiseLinear:
        """Return the seconds of a decode step over the mean context, for one batch size."""
        return self._decode.line(sequences)

    def prompts(self, tokens: int, mean_context: float, decode_seconds: float = 0.0, decoding: int = 0) -> float:
        """Return the seconds of a step with so many prompt tokens, beside `decoding` sequences for `decode_seconds`."""
        seconds, graphs = self._prompts.at(tokens, mean_context), self.graphs
        if decode_seconds:
            seconds += decode_seconds - self.launch_seconds
        return max(seconds, graphs.host_seconds) if tokens + decoding > graphs.tokens else seconds


def read_table(lines: Iterable[str]) -> StepTable:
    """Read a table of measured points from CSV with the columns step (decode, prompts), size, context_tokens, seconds.

    Raises `ValueError` where a column, a number or a point is missing.
    """
    grids: dict[str, dict[tuple[float, float], float]] = {"decode": {}, "prompts": {}}
    for number, row in enumerate(csv.DictReader(lines), 2):
        try:
            grids[row["step"]][float(row["size"]), float(row["context_tokens"])] = float(row["seconds"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"line {number} is no point of a step: {row}") from error
    return StepTable(grids["decode"], grids["prompts"])


def _never_less(values: list[float]) -> list[float]:
    """Raise each value to the largest before it."""
    highest, lifted = 0.0, []
    for value in values:
        highest = max(highest, value)
        lifted.append(highest)
    return lifted
