"""Max-min fairness by whole replicas: who has least of what its traffic needs gets the next one, then of what it wants.

A replica that traffic needs now lets requests meet their SLO at once; one against a peak or with a forecast may do so
later. So nobody gets the latter while a peer lacks the former, and it is shared out by the same rule. Among those who
have equally little, the one whose attainment rises most for each GPU comes first (one replica of `want` adds 1/want of
it, so that gain is 1 / (want x GPUs of a replica)), and then the one that stands first.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Fill(NamedTuple):
    """What somebody has of what its traffic needs now, and of all that it wants, each from 0 to 1."""

    needed: float
    wanted: float


def fill_of(have: int, needed: int, want: int) -> Fill:
    """Which part `have` replicas are of those that are needed, and of those that are wanted."""
    return Fill(min(1.0, have / max(1, needed)), have / max(1, want))


class Party(Protocol):
    """Somebody who takes part in rounds."""

    @property
    def fill(self) -> Fill:
        """What it has."""

    @property
    def cost(self) -> float:
        """GPUs that its whole want takes: the larger, the less each of them adds."""

    def advance(self) -> bool:
        """Take one replica, or give up; whether it wants another turn."""


def in_rounds(parties: Sequence[Party]) -> None:
    """Let the parties advance one at a time, always the one that has least."""
    queue = [(party.fill, party.cost, index) for index, party in enumerate(parties)]
    heapify(queue)
    while queue:
        index = heappop(queue)[2]
        party = parties[index]
        if party.advance():
            heappush(queue, (party.fill, party.cost, index))
