"""Tables as kubectl prints them: headings in capitals, aligned columns, no lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Container


def named_rows(columns: int) -> Table:
    """Make an empty table without headings: what names a row stays whole, and a long word goes on in the next line."""
    found = Table.grid(padding=(0, 2, 0, 0))
    found.add_column(no_wrap=True)
    for _ in range(1, columns):
        found.add_column(overflow="fold")
    return found


def headed_table(*headings: str, right: Container[str] = (), wraps: Container[str] = (), gap: int = 2) -> Table:
    """Make an empty table with these headings; columns in `right` hold numbers, and only those in `wraps` wrap."""
    found = Table(box=None, padding=(0, gap, 0, 0), header_style="dim")
    for each in headings:
        found.add_column(each.upper(), justify="right" if each in right else "left", no_wrap=each not in wraps)
    return found
