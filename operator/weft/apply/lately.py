"""What is remembered of objects by path: bounded, at a cost per object that does not grow with their number."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

REMEMBERED = 20_000  # objects, of each kind of entry: the largest clusters measured have 10,000 pods


Entry = TypeVar("Entry")


class Lately(Generic[Entry]):
    """Entries by path, of which the latest are kept. Threads may share it: at worst one of their entries is lost."""

    def __init__(self, is_recent: Callable[[Entry], bool]) -> None:
        """Entries that are not recent are the first to go when there are too many."""
        self._is_recent = is_recent
        self._entries: dict[str, Entry] = {}

    def get(self, path: str) -> Entry | None:
        """What is remembered of the object at `path`."""
        return self._entries.get(path)

    def put(self, path: str, entry: Entry) -> None:
        """Remember this of the object at `path`. Once there are too many, old entries and the oldest half go."""
        self.drop(path)  # so that the order is that of the last time
        if len(self._entries) >= REMEMBERED:
            recent = {key: each for key, each in list(self._entries.items()) if self._is_recent(each)}
            self._entries = dict(islice(recent.items(), max(0, len(recent) - REMEMBERED // 2), None))
        self._entries[path] = entry

    def drop(self, path: str) -> None:
        """Forget the object at `path`."""
        self._entries.pop(path, None)
