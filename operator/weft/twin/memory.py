"""KV memory of one engine: blocks that belong to one request, and groups of blocks that requests share by their hash.

A group is as many tokens as a hash stands for, and so many whole blocks. One that nobody holds stays until its room is
needed, the one that was let go first goes first (vLLM's `block_pool`).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class KvMemory:
    """Counts of blocks. `available` are those that can be taken: unused ones and groups that nobody holds."""

    __slots__ = ("_holders", "_idle", "_span", "_unused", "available", "blocks")

    def __init__(self, blocks: int, blocks_of_group: int) -> None:
        """All free."""
        self.blocks = self.available = self._unused = blocks
        self._span = blocks_of_group
        self._holders: dict[int, int] = {}  # of every group that is cached
        self._idle: OrderedDict[int, None] = OrderedDict()  # those that nobody holds, the oldest first

    @property
    def usage(self) -> float:
        """Part of all blocks that somebody holds."""
        return 1.0 - self.available / self.blocks

    def hits(self, hashes: Sequence[int], most: int) -> int:
        """How many groups, from the first one on, are cached; at most so many."""
        found, holders = 0, self._holders
        for name in hashes[:most]:
            if name not in holders:
                break
            found += 1
        return found

    def idle_among(self, hashes: Iterable[int]) -> int:
        """Blocks of those cached groups that nobody holds: holding them takes room."""
        return self._span * sum([not self._holders[name] for name in hashes])

    def take(self, blocks: int) -> None:
        """Give blocks to a request, not more than are available; groups are forgotten where nothing is unused."""
        self.available -= blocks
        self._unused -= blocks
        while self._unused < 0:
            del self._holders[self._idle.popitem(last=False)[0]]
            self._unused += self._span

    def give_back(self, blocks: int) -> None:
        """Blocks of a request that are no longer needed."""
        self.available += blocks
        self._unused += blocks

    def hold(self, hashes: Sequence[int]) -> None:
        """Share cached groups."""
        holders, idle = self._holders, self._idle
        for name in hashes:
            if not holders[name]:
                del idle[name]
                self.available -= self._span
            holders[name] += 1

    def offer(self, hashes: Sequence[int]) -> list[int]:
        """Cache groups of blocks that a request has filled, which then holds them; those that were not cached yet."""
        holders, taken = self._holders, []
        for name in hashes:
            if name not in holders:
                holders[name] = 1
                taken.append(name)
        return taken

    def let_go(self, hashes: Sequence[int]) -> None:
        """Groups that a request held, in order: the end of a prompt is forgotten before its beginning."""
        holders, idle = self._holders, self._idle
        for name in reversed(hashes):
            left = holders[name] - 1
            holders[name] = left
            if not left:
                idle[name] = None
                self.available += self._span
