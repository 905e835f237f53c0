"""Merges notes that differ only in the node's name: a hundred nodes of one kind become one note."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation
from weft.domain.texts.figures import some_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_NODE = re.compile(r"^node (?P<name>\S+?):? ")
_MOST_NAMES = 6


def told_once(notes: Iterable[Explanation]) -> list[Explanation]:
    """Return the first note of each kind, in order, with the names of the other nodes that it holds for."""
    found: dict[tuple[str, str], list[tuple[str, Explanation]]] = {}
    for note in notes:
        name = _node_of(note.message)
        kind = _without(note.message, name) if name else note.message
        found.setdefault((note.reason.value, kind), []).append((name, note))
    return [_together(alike) for alike in found.values()]


def _node_of(message: str) -> str:
    match = _NODE.match(message)
    return match["name"] if match else ""


def _without(message: str, name: str) -> str:
    return re.sub(rf"(?<!\S){re.escape(name)}(?![^\s:,;])", "", message)


def _together(alike: list[tuple[str, Explanation]]) -> Explanation:
    (_, first), *others = alike
    names = list(dict.fromkeys(name for name, _ in others if name))
    if not names:
        return first
    return Explanation(first.reason, f"{first.message}; likewise {some_of(names, _MOST_NAMES)}")
