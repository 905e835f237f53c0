"""Detection of table columns that are not separated by commas."""

from __future__ import annotations

_NAMES = {"\t": "tabs", ";": "semicolons"}


def separator_of(head: str) -> str:
    """The character between the columns in the first line of a table: a comma, unless there is none but another."""
    found = max(_NAMES, key=head.count)
    return found if "," not in head and found in head else ","


def other_separator(head: str) -> str | None:
    """The separator in the first line of a table, in words; None for commas, or one column alone."""
    return _NAMES.get(separator_of(head))
