"""Rows of a trace that is a CSV: Azure's, BurstGPT's, the simulators' and whatever a gateway exports.

Spreadsheets and databases also write semicolons or tabs between the columns; the header says which.
"""

from __future__ import annotations

import csv
from itertools import chain
from typing import TYPE_CHECKING

from weft.domain.texts.separators import separator_of
from weft.twin.traffic.columns import Columns, columns_of, is_header
from weft.twin.traffic.rows import TraceSource, whole
from weft.twin.traffic.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weft.twin.traffic.rows import Row

_HEADS = (
    "arrival_s, input_tokens, output_tokens (or TIMESTAMP, ContextTokens, GeneratedTokens, "
    "or created_at, prompt_tokens, completion_tokens; docs/cli.md has all)"
)


def table(head: str, lines: Iterable[tuple[int, str]]) -> TraceSource:
    """Return the requests of a CSV with this header; raises `TraceError` for one that cannot be read."""
    separator = separator_of(head)
    names = [name.strip() for name in next(csv.reader([head], delimiter=separator))]
    if not is_header(names):
        raise TraceError(f" has no header line with the columns {_HEADS}")
    columns = columns_of(names)
    return TraceSource(_requests(_records(head, lines, separator), columns), columns)


def _requests(records: Iterable[tuple[int, list[str]]], columns: Columns) -> Iterator[tuple[int, Row]]:
    model = columns.model
    for number, cells in records:
        yield number, _request(number, cells, columns)
        if model is not None and model < len(cells):
            columns.seen(cells[model])


def _records(head: str, lines: Iterable[tuple[int, str]], separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row with the number of its first line; a cell in quotes may go on for lines.

    The header of a second file that was joined to the first is left out.
    """
    heading, following = head.strip(), iter(lines)
    for number, line in following:
        if '"' not in line:
            if line.strip("\ufeff\r\n\t ") != heading:
                yield number, line.split(separator)
            continue
        try:
            whole_row = chain([line], (more for _, more in following))
            cells = next(csv.reader(whole_row, delimiter=separator, strict=True))
        except csv.Error as error:  # at the end of the file, say, as the quote is never closed
            raise TraceError(f", line {number}: the quotes from there on cannot be read: {error}") from None
        if cells != next(csv.reader([heading], delimiter=separator)):
            yield number, cells


def _request(number: int, cells: list[str], columns: Columns) -> Row:
    try:
        moment, tokens_in, tokens_out = [cells[place].strip().strip('"') for place in columns.places]
        return columns.clock(moment), _tokens(tokens_in), _tokens(tokens_out), ()
    except (ValueError, TypeError, OverflowError, IndexError):
        why, row = _why_no_row(cells, columns), ",".join(cells).strip()
        raise TraceError(f", line {number}: {row[:60]!r} is no request: {why}") from None


def _why_no_row(cells: list[str], columns: Columns) -> str:
    """Name the first column of a row that cannot be read, with what it takes."""
    reads: tuple[Callable[[str], float], ...] = (columns.clock, _tokens, _tokens)
    takes = (columns.clock.takes, "a whole number", "a whole number")
    for name, place, read, words in zip(columns.names, columns.places, reads, takes, strict=True):
        if place >= len(cells):
            return f"it has no column {name}"
        value = cells[place].strip().strip('"')
        try:
            read(value)
        except (ValueError, TypeError, OverflowError):
            comma = "; write numbers with a decimal point, and none with a comma" if "," in value else ""
            return f"{name} takes {words}, not {value[:40]!r}{comma}"
    return "it is no row of a CSV file"


def _tokens(text: str) -> int:
    """Read `200`, or `200.0`, `200.00` and `2e2` as tools write a column with gaps; a gap, also `nan`, counts as 0."""
    plain = text.removesuffix(".0") or "0"
    return int(plain) if plain.isdecimal() else whole(float(plain))
