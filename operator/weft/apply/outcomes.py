"""What came of each object that was applied: admission may make another one of it, and would do so again.

A webhook or a policy that rewrites a field of ours (the registry of an image, a count) leaves an object that is never
as it was rendered. Without a memory of that every pass would write it once more, and change nothing.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.apply.sending import Json
    from weft.domain.action import ApplyObject

TRIED_AGAIN_SECONDS = 3600.0  # whoever rewrote it may be gone
REMEMBERED = 10_000  # objects; beyond, all are forgotten and applied once more


class Outcomes:
    """By path of the object. Thread-safe: entries are only replaced."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was applied yet."""
        self._clock = clock
        self._known: dict[str, tuple[str, str, float]] = {}

    def note(self, path: str, action: ApplyObject, became: Json) -> None:
        """The API server made this of what was applied, after what had to be patched first."""
        if len(self._known) >= REMEMBERED:
            self._known = {}
        until = self._clock() + TRIED_AGAIN_SECONDS
        self._known[path] = _asked(action), _digest(_ours(became, action.body)), until

    def is_one(self, path: str, action: ApplyObject, live: Json) -> bool:
        """Whether an object is what came of the same apply not long ago: nobody touched what is ours of it since."""
        known = self._known.get(path)
        same = known is not None and known[:2] == (_asked(action), _digest(_ours(live, action.body)))
        return same and known is not None and self._clock() < known[2]


def _ours(body: Json, wanted: Json) -> Json:
    """All but the status, and of the metadata what we render: others note theirs there."""
    meta, rendered = body.get("metadata") or {}, wanted["metadata"]
    notes = {
        kind: {key: (meta.get(kind) or {}).get(key) for key in rendered.get(kind) or ()}
        for kind in ("labels", "annotations")
    }
    kept = {name: value for name, value in body.items() if name not in {"metadata", "status"}}
    return {**kept, "metadata": {**notes, "uid": meta.get("uid"), "ownerReferences": meta.get("ownerReferences")}}


def _asked(action: ApplyObject) -> str:
    return _digest({"body": action.body, "first": action.first})


def _digest(body: Json) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
