"""KV memory of one engine: blocks that belong to one request, and groups of blocks that requests share by their hash.

A group holds as many tokens as one hash stands for, in whole blocks. A group that no request holds stays cached until
its room is needed; the one that was released first is evicted first (vLLM's `block_pool`).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class KvMemory:
    """Counts of blocks. `available` ones can be taken: unused blocks, and cached groups that no request holds."""

    __slots__ = ("_holders", "_idle", "_span", "_unused", "available", "blocks")

    def __init__(self, blocks: int, blocks_of_group: int) -> None:
        """Start with all blocks free."""
        self.blocks = self.available = self._unused = blocks
        self._span = blocks_of_group
        self._holders: dict[int, int] = {}  # number of holders of each cached group
        self._idle: OrderedDict[int, None] = OrderedDict()  # cached groups without a holder, the oldest first

    @property
    def usage(self) -> float:
        """Fraction of all blocks that requests hold, 0 to 1."""
        return 1.0 - self.available / self.blocks

    def hits(self, hashes: Sequence[int], most: int) -> int:
        """Count the cached groups from the first hash on, until one is missing; at most `most`."""
        found, holders = 0, self._holders
        for name in hashes[:most]:
            if name not in holders:
                break
            found += 1
        return found

    def idle_among(self, hashes: Iterable[int]) -> int:
        """Count the blocks of those of these cached groups that no request holds: holding them takes room."""
        return self._span * sum([not self._holders[name] for name in hashes])

    def take(self, blocks: int) -> None:
        """Give a request blocks, at most as many as are available; evicts idle groups where no block is unused."""
        self.available -= blocks
        self._unused -= blocks
        while self._unused < 0:
            del self._holders[self._idle.popitem(last=False)[0]]
            self._unused += self._span

    def give_back(self, blocks: int) -> None:
        """Free blocks of a request."""
        self.available += blocks
        self._unused += blocks

    def hold(self, hashes: Sequence[int]) -> None:
        """Let one more request hold these cached groups."""
        holders, idle = self._holders, self._idle
        for name in hashes:
            if not holders[name]:
                del idle[name]
                self.available -= self._span
            holders[name] += 1

    def offer(self, hashes: Sequence[int]) -> list[int]:
        """Cache groups that a request has filled, and hold those that were not cached before; returns these."""
        holders, taken = self._holders, []
        for name in hashes:
            if name not in holders:
                holders[name] = 1
                taken.append(name)
        return taken

    def let_go(self, hashes: Sequence[int]) -> None:
        """Release groups that a request held, given in order: the end of a prompt is evicted before its beginning."""
        holders, idle = self._holders, self._idle
        for name in reversed(hashes):
            left = holders[name] - 1
            holders[name] = left
            if not left:
                idle[name] = None
                self.available += self._span
