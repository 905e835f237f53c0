"""What became of applied objects: admission may change what we apply, and would do so again each time.

If a webhook or a policy rewrites one of our fields (an image registry, a count), the object never equals what was
rendered. Without remembering that, every pass would apply it again and change nothing.

If a controller reverts an object some time after each apply, Weft re-applies it at once a few times, as after edits
by hand, and then at growing intervals: otherwise both would go on for ever.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from weft.apply.lately import Lately
from weft.apply.patience import AT_ONCE, SETTLED_SECONDS, rest_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.apply.sending import Json
    from weft.domain.action import ApplyObject

TRIED_AGAIN_SECONDS = 3600.0  # whoever rewrote it may be gone
LONGEST_REST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class ApplyIntent:
    """What one apply asks of the object at `path`; bodies are large, so their digests are computed once.

    `first` is the digest of what is patched before the apply, which depends on what others did.
    """

    path: str
    wanted: Json
    body: str
    first: str

    @classmethod
    def of(cls, path: str, action: ApplyObject) -> Self:
        """What an action asks of the object at `path`."""
        return cls(path, action.body, _digest(action.body), _digest(action.first))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What was asked, what it became, when (in the clock's seconds), and how often that was undone in a row.

    All as digests; those of what was asked are `ApplyIntent`'s.
    """

    body: str
    first: str
    became: str
    at: float
    undone: int

    @property
    def rest_seconds(self) -> float:
        """Seconds that the next apply waits."""
        return rest_seconds(self.undone, LONGEST_REST_SECONDS)


class Outcomes:
    """What became of applied objects, by path; what is forgotten is applied once more. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with no applied objects."""
        self._clock = clock
        self._known: Lately[_Outcome] = Lately(self._is_recent)

    def note(self, asked: ApplyIntent, became: Json) -> None:
        """Remember what the API server made of an apply.

        The same apply again soon after means that somebody undid it in between.
        """
        now, before = self._clock(), self._of(asked)
        undone = before.undone + 1 if before is not None and now - before.at < SETTLED_SECONDS else 0
        came = _digest(_ours(became, asked.wanted))
        self._known.put(asked.path, _Outcome(asked.body, asked.first, came, now, undone))

    def begin(self, asked: ApplyIntent, became: Json) -> None:
        """As `note`, for an object that did not exist: nobody can have changed it yet."""
        self._known.drop(asked.path)
        self.note(asked, became)

    def is_unchanged(self, asked: ApplyIntent, live: Json) -> bool:
        """Whether a live object is what the same apply recently produced, so that nobody touched our fields since."""
        known = self._of(asked)
        if known is None or known.first != asked.first or not self._is_recent(known):
            return False
        return known.became == _digest(_ours(live, asked.wanted))

    def is_contested(self, asked: ApplyIntent) -> bool:
        """Whether the same apply was undone so often that it is no longer repeated at once."""
        known = self._of(asked)
        return known is not None and known.undone >= AT_ONCE

    def rests(self, asked: ApplyIntent) -> bool:
        """Whether the next identical apply has to wait."""
        known = self._of(asked)
        return known is not None and self._clock() - known.at < known.rest_seconds

    def _is_recent(self, known: _Outcome) -> bool:
        return self._clock() - known.at < TRIED_AGAIN_SECONDS

    def _of(self, asked: ApplyIntent) -> _Outcome | None:
        known = self._known.get(asked.path)
        return known if known is not None and known.body == asked.body else None


def _ours(body: Json, wanted: Json) -> Json:
    """The object without its status, and of its labels and annotations only those we render; others may add theirs."""
    meta, rendered = body.get("metadata") or {}, wanted["metadata"]
    notes = {
        kind: {key: (meta.get(kind) or {}).get(key) for key in rendered.get(kind) or ()}
        for kind in ("labels", "annotations")
    }
    kept = {name: value for name, value in body.items() if name not in {"metadata", "status"}}
    return {**kept, "metadata": {**notes, "uid": meta.get("uid"), "ownerReferences": meta.get("ownerReferences")}}


def _digest(content: Json | tuple[Json, ...]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
