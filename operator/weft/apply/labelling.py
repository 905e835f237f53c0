"""Labels that admission rewrites: what a webhook undoes within the same request is not asked for again and again.

A policy that writes a label of each pod would otherwise be answered once a minute for every pod there is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.apply.lately import Lately

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.apply.sending import Json

ASKED_AGAIN_SECONDS = 3600.0  # whoever rewrote it may be gone


@dataclass(frozen=True, slots=True)
class _InVain:
    """What was asked of which pod, and when (in the clock's seconds)."""

    uid: str
    tags: tuple[tuple[str, str | None], ...]
    at: float


class Labelling:
    """Labels that were asked for in vain, by the path of the pod. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing that was asked for."""
        self._clock = clock
        self._known: Lately[_InVain] = Lately(self._is_recent)

    def note(self, path: str, tags: Mapping[str, str | None], became: Json) -> None:
        """Remember what became of labels (None: removed) that were asked for."""
        if has_labels(became, tags):
            self._known.drop(path)
        else:
            self._known.put(path, _InVain(became["metadata"]["uid"], _ordered(tags), self._clock()))

    def is_in_vain(self, path: str, uid: str, tags: Mapping[str, str | None]) -> bool:
        """Whether the same was asked for lately, and admission kept it from being so."""
        known = self._known.get(path)
        asked = known is not None and (known.uid, known.tags) == (uid, _ordered(tags))
        return known is not None and asked and self._is_recent(known)

    def _is_recent(self, known: _InVain) -> bool:
        return self._clock() - known.at < ASKED_AGAIN_SECONDS


def has_labels(pod: Json, tags: Mapping[str, str | None]) -> bool:
    """Whether a pod has these labels, and lacks those that are None."""
    found = pod["metadata"].get("labels") or {}
    return all(found.get(key) == value for key, value in tags.items())


def _ordered(tags: Mapping[str, str | None]) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted(tags.items()))
