"""What the readers of all formats of a trace hand over: requests by line, and the columns that they are from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.twin.traffic.columns import Columns

    Row = tuple[float, int, int, tuple[int, ...]]  # seconds, tokens of the prompt and of the answer, hashes of blocks


class TraceSource(NamedTuple):
    """Requests with the numbers of their lines, the columns that they are read from, and the tokens of a hash."""

    rows: Iterator[tuple[int, Row]]
    columns: Columns
    block_tokens: int = 512


def whole(value: object) -> int:
    """Read a whole number, even one that is a float in the file, or between quotes, as 64 bits are in exported JSON.

    A gap (None, NaN) counts as 0. Raises `TypeError` or `ValueError` for all else.
    """
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    if value is None or value != value:  # noqa: PLR0124 - only NaN differs from itself
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise TypeError
    return int(value)
