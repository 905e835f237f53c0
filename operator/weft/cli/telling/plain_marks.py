"""Marks for output without Unicode, as in the C locale: each character has one of its own in ASCII.

A name for `errors=` of a stream, `PLAIN_MARKS`, replaces what the stream cannot show. Marks that mean different things
stay different, so that the legend below a picture still explains it.
"""

from __future__ import annotations

import codecs

PLAIN_MARKS = "weft-plain-marks"
_UNKNOWN = "?"
_BRAILLE = range(0x2800, 0x2900)  # the dots of a line in a chart
_MARKS = {
    "■": "#",
    "▣": "+",
    "□": ".",
    "◌": "o",
    "×": "x",  # GPUs of `weft fabric`
    "│": "|",
    "┤": "+",
    "─": "-",
    "└": "+",
    "┬": "+",
    "┊": ":",
    "●": "@",
    "━": "*",  # axes and points of `weft plan --chart`
    "·": "-",
    "…": "...",
    "–": "-",
    "—": "-",
    "≥": ">=",
    "≤": "<=",
    "→": "->",
}


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_plain(each) for each in error.object[error.start : error.end]), error.end


def _plain(character: str) -> str:
    return "*" if ord(character) in _BRAILLE else _MARKS.get(character, _UNKNOWN)


codecs.register_error(PLAIN_MARKS, _replaced)
