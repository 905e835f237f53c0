"""Detection of table columns that are not separated by commas."""

from __future__ import annotations

_NAMES = {"\t": "tabs", ";": "semicolons"}


def other_separator(head: str) -> str | None:
    """The separator in the first line of a table, in words; None for commas, or one column alone."""
    found = max(_NAMES, key=head.count)
    return _NAMES[found] if "," not in head and found in head else None
