"""Back-off for objects that somebody keeps deleting: they are recreated ever more seldom, or it would never stop.

They are recreated at once a few times, as others need the Service, and then at growing intervals. The longest is
shorter than for edits, as nothing serves in place of a missing object. Intervals count from the last creation, so
that an object that is deleted rarely is recreated at once.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.apply.lately import Lately
from weft.apply.patience import AT_ONCE, SETTLED_SECONDS, rest_seconds
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.apply.sending import Json

LONGEST_ABSENCE_SECONDS = 60.0


class DeletedAgain(Blocked):
    """Somebody keeps deleting one of our objects; it is recreated after `seconds`."""

    def __init__(self, reason: Reason, message: str, seconds: float) -> None:
        """`seconds` is 0 if it was just created."""
        super().__init__(reason, message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class _Made:
    """The digest of what was created, when (in the clock's seconds), and how often in a row before."""

    body: str
    at: float
    before: int

    @property
    def rest_seconds(self) -> float:
        """Seconds for which it is not recreated."""
        return rest_seconds(self.before, LONGEST_ABSENCE_SECONDS)


class Recreations:
    """Which objects were created lately, and how often in a row, by path. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with no known creations."""
        self._clock = clock
        self._made: Lately[_Made] = Lately(self._is_recent)

    def note(self, path: str, body: Json) -> None:
        """Remember that the object at `path` was created."""
        known = self._made.get(path)
        again = known is not None and known.body == _digest(body) and self._is_recent(known)
        before = known.before + 1 if again and known is not None else 0
        self._made.put(path, _Made(_digest(body), self._clock(), before))

    def forget(self, path: str) -> None:
        """Forget an object that Weft itself deleted."""
        self._made.drop(path)

    def expect_to_stay(self, path: str, body: Json) -> None:
        """Raise `DeletedAgain` right after creating something that was deleted so often before."""
        known = self._made.get(path)
        if known is not None and known.before >= AT_ONCE:
            raise deleted_again(body, 0.0)

    def expect_rested(self, path: str, body: Json) -> None:
        """Raise `DeletedAgain` while the same object may not be recreated yet."""
        known = self._made.get(path)
        if known is None or known.body != _digest(body):
            return
        left = known.at + known.rest_seconds - self._clock()
        if left > 0.0:
            raise deleted_again(body, left)

    def _is_recent(self, made: _Made) -> bool:
        return self._clock() - made.at < SETTLED_SECONDS


def deleted_again(body: Json, seconds: float) -> DeletedAgain:
    """The error that says why an object is not recreated at once. Who deletes it is unknown."""
    kind, meta = str(body["kind"]), body["metadata"]
    name = f"{kind} {meta['namespace']}/{meta['name']}"
    told = f"{name} is deleted each time that Weft creates it: find what deletes it and stop that"
    why = f"{told}; Weft retries less and less often, at least once a minute"
    return DeletedAgain(Reason.PodDeleted if kind == "Pod" else Reason.ChildReverted, why, seconds)


def _digest(body: Json) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
