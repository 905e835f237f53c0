"""What became of every request of a trace, in columns: one record for each would take too much memory."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING

import numpy as np

from weft.twin.outcome import Answers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from weft.twin.engine.request import SimulatedRequest
    from weft.twin.traffic.trace import Trace

UNDECIDED_SECONDS = 60.0  # a request without a first token after so long has failed when the simulation ends


class Ledger:
    """Each row of the trace ends once, answered or failed. `ended_at` is when the last did; -infinity before any."""

    def __init__(self, trace: Trace) -> None:
        """Start with every request of the trace open."""
        self._trace = trace
        self._arrivals = array("d", trace.arrivals.tobytes())
        self._ttft = array("f", [math.inf]) * len(trace)
        self._tpot = array("f", [math.inf]) * len(trace)
        self._ended = bytearray(len(trace))
        self._open = len(trace)
        self.ended_at = -math.inf

    @property
    def is_closed(self) -> bool:
        """Whether every row has ended."""
        return not self._open

    @property
    def ended(self) -> int:
        """How many rows have ended."""
        return len(self._ended) - self._open

    def answered(self, row: int, request: SimulatedRequest) -> None:
        """Record that a request has its last token; raises `ValueError` if it has ended before."""
        self._end(row, request.last_token_at + request.api_seconds)
        self._ttft[row] = request.first_token_at - self._arrivals[row] + request.api_seconds
        self._tpot[row] = request.tpot if request.made > 1 else math.nan

    def failed(self, row: int, now: float) -> None:
        """Record that a request will not be answered; raises `ValueError` if it has ended before."""
        self._end(row, now)

    def answers(self, arrived: int, now: float, begun: Iterable[int]) -> Answers:
        """Return the outcome of the first `arrived` rows; one that waited too long for a first token has failed.

        Other open rows are left out, as are rows in `begun`, which have a first token: their outcome is not known yet.
        """
        kept = np.flatnonzero(self._decided(arrived, now, begun))
        ttft, tpot = (np.array(column, dtype=np.float32)[kept] for column in (self._ttft, self._tpot))
        return Answers(self._trace.arrivals[kept], ttft, tpot)

    def unfinished(self, arrived: int, now: float, begun: Iterable[int]) -> NDArray[np.float64]:
        """Return the arrival times, in seconds, of the rows that `answers` leaves out."""
        found: NDArray[np.float64] = self._trace.arrivals[:arrived][~self._decided(arrived, now, begun)]
        return found

    def _decided(self, arrived: int, now: float, begun: Iterable[int]) -> NDArray[np.bool_]:
        overdue = self._trace.arrivals[:arrived] < now - UNDECIDED_SECONDS
        overdue[list(begun)] = False
        found: NDArray[np.bool_] = np.array(self._ended[:arrived], dtype=np.bool_) | overdue
        return found

    def _end(self, row: int, at: float) -> None:
        if self._ended[row]:
            raise ValueError(f"request {row} has ended before")
        self._ended[row] = True
        self._open -= 1
        if at > self.ended_at:  # noqa: PLR1730 - `max` takes several times as long
            self.ended_at = at
