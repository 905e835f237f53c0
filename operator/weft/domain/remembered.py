"""The last answer of a pure function for each of many things, so that what did not change is not worked out again.

An answer is given again only to the very question that it answered: memory saves time and never changes a decision.
Unlike `functools.lru_cache` nothing is hashed but the name of the thing. The question is compared with the last one,
which is a matter of nanoseconds where values are the same objects as before, as they are from pass to pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class LastAnswers(Generic[Question, Answer]):
    """Answers by name, of at most so many things; beyond, everything is forgotten and learnt anew. Thread-safe."""

    __slots__ = ("_known", "_most")

    def __init__(self, most: int) -> None:
        """Nothing is known yet."""
        self._most = most
        self._known: dict[Hashable, tuple[Question, Answer]] = {}

    def ask(self, name: Hashable, question: Question, work_out: Callable[[Question], Answer]) -> Answer:
        """The answer to a question about a thing; what raises is not remembered."""
        known = self._known.get(name)
        if known is not None and known[0] == question:
            return known[1]
        answer = work_out(question)
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[name] = question, answer
        return answer

    def last(self, name: Hashable) -> Answer | None:
        """The last answer about a thing, to whatever question: for those who can tell which parts of it still hold."""
        known = self._known.get(name)
        return None if known is None else known[1]
