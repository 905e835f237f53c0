"""Max-min fairness by whole replicas: who has least of what it wants gets the next one.

Among those who have equally little, the one whose attainment rises most for each GPU comes first (one replica of `want`
adds 1/want of it, so that gain is 1 / (want x GPUs of a replica)), and then the one that stands first.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Party(Protocol):
    """Somebody who takes part in rounds."""

    @property
    def fill(self) -> float:
        """What it has of what it wants, from 0 to 1."""

    @property
    def cost(self) -> float:
        """GPUs that its whole want takes: the larger, the less each of them adds."""

    def advance(self) -> bool:
        """Take one replica, or give up; whether it wants another turn."""


def in_rounds(parties: Sequence[Party]) -> None:
    """Let them advance, always the one that has least."""
    queue = [(party.fill, party.cost, index) for index, party in enumerate(parties)]
    heapify(queue)
    while queue:
        index = heappop(queue)[2]
        party = parties[index]
        if party.advance():
            heappush(queue, (party.fill, party.cost, index))
