"""Suggestions for an unknown name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALIKE = 0.7  # similarity: two letters of ten wrong, but not another name of the same length
_MOST = 3
_TELLING, _LONGEST = 3, 128  # the least characters of a meaningful prefix, and the most that are compared


def nearest(name: str, known: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Names that start with this one, the shortest first, and then the most similar ones.

    `known` pairs each spelling with the name to show for it.
    """
    given, shown = name.casefold()[:_LONGEST], {spelling.casefold(): full for spelling, full in known}
    longer = sorted((each for each in shown if each.startswith(given)), key=len) if len(given) >= _TELLING else []
    close = get_close_matches(given, shown, n=2 * _MOST, cutoff=_ALIKE)
    return tuple(dict.fromkeys(shown[each] for each in (*longer, *close)))[:_MOST]


def named_by_first_words(name: str, known: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The name with the most characters that more words follow here (`GB200-NVL72`); pairs as in `nearest`."""
    given = name.casefold()
    begun = [(len(each), full) for each, full in known if _more_words_follow(each.casefold(), given)]
    return (max(begun)[1],) if begun else ()


def _more_words_follow(known: str, given: str) -> bool:
    return given.startswith(known) and not given[len(known) : len(known) + 1].isalnum()


def perhaps(names: Iterable[str]) -> str:
    """The end of a sentence that suggests `names`; empty without any."""
    meant = " or ".join(names)
    return f", perhaps {meant}" if meant else ""
