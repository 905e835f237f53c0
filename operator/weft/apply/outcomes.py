"""What came of each object that was applied: admission may make another one of it, and would do so again.

A webhook or a policy that rewrites a field of ours (the registry of an image, a count) leaves an object that is never
as it was rendered. Without a memory of that every pass would write it once more, and change nothing.

A controller that changes an object back some time after each apply is answered at once a few times, as whoever edits
by hand is, and then at growing intervals: both would go on for ever.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from weft.apply.patience import AT_ONCE, REMEMBERED, SETTLED_SECONDS, rest_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.apply.sending import Json
    from weft.domain.action import ApplyObject

TRIED_AGAIN_SECONDS = 3600.0  # whoever rewrote it may be gone
LONGEST_REST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What one apply asks of the object at `path`; the digests are told once, as bodies are large.

    `first` is of what has to be patched before, which goes by what others did.
    """

    path: str
    wanted: Json
    body: str
    first: str

    @classmethod
    def of(cls, path: str, action: ApplyObject) -> Self:
        """What an action asks of the object at a path."""
        return cls(path, action.body, _digest(action.body), _digest(action.first))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What was asked and what came of it, when (in the clock's seconds), and how often that was undone.

    All by digests, those of what was asked as `Asked` has them.
    """

    body: str
    first: str
    became: str
    at: float
    undone: int

    @property
    def rest_seconds(self) -> float:
        """For how long the next apply waits."""
        return rest_seconds(self.undone, LONGEST_REST_SECONDS)


class Outcomes:
    """What became of objects that were applied, by their path. Thread-safe: entries are only replaced."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was applied yet."""
        self._clock = clock
        self._known: dict[str, _Outcome] = {}

    def note(self, asked: Asked, became: Json) -> None:
        """The API server made this of what was applied, after what had to be patched first.

        The same again soon after it was applied means that somebody undid it in between.
        """
        if len(self._known) >= REMEMBERED:
            self._known = {}  # all are applied once more
        now, before = self._clock(), self._of(asked)
        undone = before.undone + 1 if before is not None and now - before.at < SETTLED_SECONDS else 0
        came = _digest(_ours(became, asked.wanted))
        self._known[asked.path] = _Outcome(asked.body, asked.first, came, now, undone)

    def begin(self, asked: Asked, became: Json) -> None:
        """The same as `note` for an object that was not there: nobody can have changed it yet."""
        self._known.pop(asked.path, None)
        self.note(asked, became)

    def is_one(self, asked: Asked, live: Json) -> bool:
        """Whether an object is what came of the same apply not long ago: nobody touched what is ours of it since."""
        known = self._of(asked)
        if known is None or known.first != asked.first or self._clock() - known.at >= TRIED_AGAIN_SECONDS:
            return False
        return known.became == _digest(_ours(live, asked.wanted))

    def is_contested(self, asked: Asked) -> bool:
        """Whether the same apply was undone so often that it is not repeated at once any more."""
        known = self._of(asked)
        return known is not None and known.undone >= AT_ONCE

    def rests(self, asked: Asked) -> bool:
        """Whether the next apply of the same has to wait."""
        known = self._of(asked)
        return known is not None and self._clock() - known.at < known.rest_seconds

    def _of(self, asked: Asked) -> _Outcome | None:
        known = self._known.get(asked.path)
        return known if known is not None and known.body == asked.body else None


def _ours(body: Json, wanted: Json) -> Json:
    """All but the status, and of the metadata what we render: others note theirs there."""
    meta, rendered = body.get("metadata") or {}, wanted["metadata"]
    notes = {
        kind: {key: (meta.get(kind) or {}).get(key) for key in rendered.get(kind) or ()}
        for kind in ("labels", "annotations")
    }
    kept = {name: value for name, value in body.items() if name not in {"metadata", "status"}}
    return {**kept, "metadata": {**notes, "uid": meta.get("uid"), "ownerReferences": meta.get("ownerReferences")}}


def _digest(content: Json | tuple[Json, ...]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
