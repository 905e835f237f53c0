"""What somebody deletes again and again is made again ever more seldom: each time would go on for ever.

A few times at once, as whoever lacks a Service cannot wait, and then at growing intervals, the longest of which is
short beside those of edits: nothing answers in the place of an object that is gone. They count from when it was made
last, so that what is deleted more seldom is there again at once.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.apply.patience import AT_ONCE, REMEMBERED, SETTLED_SECONDS, rest_seconds
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.apply.sending import Json

LONGEST_ABSENCE_SECONDS = 60.0


class DeletedAgain(Blocked):
    """Somebody deletes an object of ours each time; it is made again once so many `seconds` are over."""

    def __init__(self, reason: Reason, message: str, seconds: float) -> None:
        """0 where it was just made."""
        super().__init__(reason, message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made by its digest, when (in the clock's seconds), and how often before within a quarter of an hour."""

    body: str
    at: float
    before: int

    @property
    def rest_seconds(self) -> float:
        """For how long it is not made anew."""
        return rest_seconds(self.before, LONGEST_ABSENCE_SECONDS)


class Recreations:
    """Which objects were made lately, and how often again, by their path. Thread-safe: entries are only replaced."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was made yet."""
        self._clock = clock
        self._made: dict[str, _Made] = {}

    def note(self, path: str, body: Json) -> None:
        """It was made, where there was none."""
        if len(self._made) >= REMEMBERED:
            self._made = {key: each for key, each in self._made.items() if self._is_recent(each)}
        known = self._made.get(path)
        again = known is not None and known.body == _digest(body) and self._is_recent(known)
        self._made[path] = _Made(_digest(body), self._clock(), known.before + 1 if again and known is not None else 0)

    def forget(self, path: str) -> None:
        """It was Weft that deleted it."""
        self._made.pop(path, None)

    def expect_to_stay(self, path: str, body: Json) -> None:
        """Raise `DeletedAgain` for what was just made where it was deleted so often before."""
        known = self._made.get(path)
        if known is not None and known.before >= AT_ONCE:
            raise deleted_again(body, 0.0)

    def expect_rested(self, path: str, body: Json) -> None:
        """Raise `DeletedAgain` while the same is not to be made."""
        known = self._made.get(path)
        if known is None or known.body != _digest(body):
            return
        left = known.at + known.rest_seconds - self._clock()
        if left > 0.0:
            raise deleted_again(body, left)

    def _is_recent(self, made: _Made) -> bool:
        return self._clock() - made.at < SETTLED_SECONDS


def deleted_again(body: Json, seconds: float) -> DeletedAgain:
    """Why it is not made at once any more. Who deletes it, its absence does not tell."""
    kind, meta = str(body["kind"]), body["metadata"]
    name = f"{kind} {meta['namespace']}/{meta['name']}"
    told = f"{name} is deleted each time that Weft makes it: have whoever does so leave it alone"
    why = f"{told}; Weft makes it again ever more seldom, once a minute in the end"
    return DeletedAgain(Reason.PodDeleted if kind == "Pod" else Reason.ChildReverted, why, seconds)


def _digest(body: Json) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
