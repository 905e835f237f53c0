"""Kinds of ours that the API server does not serve, as nobody has applied their definitions yet or they were deleted.

Both the watches and the lists meet it, again and again: people are told once that a kind is absent, and once that it
is back.
"""

from __future__ import annotations

import logging
import threading

from weft.domain import labels

log = logging.getLogger(__name__)


class AbsentKinds:
    """What is absent, by plural. Thread-safe."""

    def __init__(self) -> None:
        """Every kind counts as served until an answer says that it is not."""
        self._absent: set[str] = set()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        """Whether any kind is absent."""
        return bool(self._absent)

    def note_absent(self, plural: str) -> None:
        """The API server answered that it does not know the kind."""
        with self._lock:
            is_news = plural not in self._absent
            self._absent.add(plural)
        if is_news:
            told = (
                "the API server has no %s.%s: apply the definitions (CRDs) of Weft's release; Weft goes on without them"
            )
            log.warning(told, plural, labels.GROUP)

    def note_served(self, plural: str) -> None:
        """The API server answered for the kind."""
        with self._lock:
            is_news = plural in self._absent
            self._absent.discard(plural)
        if is_news:
            log.info("the API server has %s.%s again", plural, labels.GROUP)
