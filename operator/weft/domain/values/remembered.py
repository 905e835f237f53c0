"""A cache of the last answer of a pure function per key, so that what did not change is not computed again.

An answer is reused only for an equal question: the cache saves time and never changes a decision. Unlike
`functools.lru_cache` it hashes nothing but the key. The question is compared with the last one, which takes nanoseconds
where values are the same objects as before, as they are from pass to pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class LastAnswers(Generic[Question, Answer]):
    """Answers by name, for a bounded number of names; beyond that, all are dropped and computed again. Thread-safe."""

    __slots__ = ("_known", "_most")

    def __init__(self, most: int) -> None:
        """Start with an empty cache."""
        self._most = most
        self._known: dict[Hashable, tuple[Question, Answer]] = {}

    def ask(self, name: Hashable, question: Question, work_out: Callable[[Question], Answer]) -> Answer:
        """The answer to a question about a name, by `work_out` if the question is new; exceptions are not cached."""
        known = self._known.get(name)
        if known is not None and known[0] == question:
            return known[1]
        answer = work_out(question)
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[name] = question, answer
        return answer

    def last(self, name: Hashable) -> Answer | None:
        """The last answer about a name, to any question, for callers that can tell which parts of it still hold."""
        known = self._known.get(name)
        return None if known is None else known[1]
