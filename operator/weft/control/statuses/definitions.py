"""Status fields that the cluster's CRDs lack, as they are from an earlier release than the operator."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.apply import Path

Json = dict[str, Any]

LOOK_AGAIN_SECONDS = 300.0  # somebody may have applied the right ones

log = logging.getLogger(__name__)


class Definitions:
    """Remembers for a while which status fields each kind lacks. Thread-safe: entries are only replaced."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start by assuming that all fields exist."""
        self._clock = clock
        self._lacking: dict[str, tuple[frozenset[Path], float]] = {}

    def note(self, kind: str, paths: frozenset[Path]) -> None:
        """Remember that the CRD of a kind lacks these fields."""
        every = self._known_to_lack(kind) | paths
        self._lacking[kind] = every, self._clock() + LOOK_AGAIN_SECONDS
        named = ", ".join(sorted(".".join(path) for path in every))
        log.warning("the definition of %s is of an earlier release and lacks status fields: %s", kind, named)

    def known_part(self, kind: str, status: Json) -> Json:
        """The status without the fields that the CRD lacks."""
        return _without(status, self._known_to_lack(kind))

    def _known_to_lack(self, kind: str) -> frozenset[Path]:
        known = self._lacking.get(kind)
        return known[0] if known is not None and self._clock() < known[1] else frozenset()


def _without(value: Json, paths: Iterable[Path]) -> Json:
    """A copy of an object without the fields at these paths."""
    gone = {path[0] for path in paths if len(path) == 1}
    inner = {name: [path[1:] for path in paths if path[0] == name and len(path) > 1] for name in value}
    kept = ((name, each) for name, each in value.items() if name not in gone)
    return {name: _without(each, inner[name]) if isinstance(each, dict) else each for name, each in kept}
