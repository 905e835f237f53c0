"""What stands between the columns of a table where it is not the comma."""

from __future__ import annotations

_NAMES = {"\t": "tabs", ";": "semicolons"}


def other_separator(head: str) -> str | None:
    """In words, what separates the columns of the first line of a table; None for commas, or one column alone."""
    found = max(_NAMES, key=head.count)
    return _NAMES[found] if "," not in head and found in head else None
