"""`weft predict`: a table of configurations and loads, with the performance model's prediction for each row."""

from __future__ import annotations

import csv
import io
import sys
from typing import TYPE_CHECKING

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.plain_text import plain_text
from weft.cli.files.reading import STANDARD_INPUT, shown
from weft.cli.files.whole import write_whole
from weft.domain.errors import WeftError
from weft.domain.texts.separators import other_separator
from weft.perf.benchmarks.expected import expected
from weft.perf.benchmarks.measured import impossible_number, measurement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from weft.catalog import Catalog
    from weft.perf.benchmarks.expected import Estimate

NEEDED = ("model", "gpu", "engine", "isl", "osl")
_READ = frozenset(
    (
        *NEEDED,
        *("concurrency", "request_rate", "engine_version", "precision", "kv_precision", "tp", "pp", "dp", "ep"),
        *("n_gpus", "note", "source"),
    )
)
_MILLI = 1e3
_VALUES = ("predicted_ttft_ms", "predicted_tpot_ms", "predicted_output_tok_s_total")
ADDED = (*(f"{name}{end}" for name in _VALUES for end in ("", "_low", "_high")), "answered", "reason")


def read_table(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return columns and rows of a CSV file (`-`: standard input); raises `CommandFailure` for anything else."""
    name = shown(str(path))
    reader = csv.DictReader(io.StringIO(_text(path, name), newline=""), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise CommandFailure(f"{name}, line {reader.line_num}: {error}: is the file whole?") from None
    columns = list(reader.fieldnames or [])
    if (wrong := _why_not_a_table(columns, rows)) is not None:
        raise CommandFailure(f"{name}{wrong}")
    return columns, rows


def _text(path: Path, name: str) -> str:
    try:
        content = sys.stdin.buffer.read() if str(path) == STANDARD_INPUT else path.read_bytes()
        return plain_text(content)
    except UnicodeDecodeError:
        raise CommandFailure(f"{name} is not text: give CSV in UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise CommandFailure(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None


def _why_not_a_table(columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> str | None:
    """Return what is wrong, to follow the name of the file; None for a good table."""
    if not columns:
        return " is empty: the first line must name the columns, and each other one is a row"
    if len(columns) == 1 and (between := other_separator(columns[0])) is not None:
        return f" has {between} between its columns: put commas there"
    names = [_meant(column) for column in columns]
    if missing := [name for name in NEEDED if name not in names]:
        return f" has no column {', '.join(missing)}: the first line must name the columns"
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        return f" has column {', '.join(twice)} twice: either could be meant"
    if not rows:
        return " has no rows, only the names of columns: there is nothing to predict"
    refused = ((number, _wrong_with(row, len(columns))) for number, row in enumerate(rows, start=2))
    return next((f", row {number}: {wrong}" for number, wrong in refused if wrong is not None), None)


def _wrong_with(row: Mapping[str, str], values: int) -> str | None:
    if None in row or None in row.values():
        return f"{values} values are needed: is the file whole?"
    return impossible_number(_as_read(row))


def _meant(column: str) -> str:
    """Return the column that is meant by `ISL`, ` gpu` or `Request Rate`; unknown ones stay as they are."""
    plain = "_".join(column.casefold().replace("_", " ").split())
    return plain if plain in _READ else column


def _as_read(row: Mapping[str, str]) -> dict[str, str]:
    return {_meant(column): value for column, value in row.items()}


def predicted(rows: Sequence[Mapping[str, str]], catalog: Catalog) -> Iterator[dict[str, str]]:
    """Yield each row with the added columns; a row that cannot be answered has the reason."""
    for row in rows:
        yield {**row, **_answer(row, catalog)}


def _answer(row: Mapping[str, str], catalog: Catalog) -> dict[str, str]:
    try:
        found = expected(measurement(_as_read(row), catalog), catalog)
    except WeftError as error:
        return {**dict.fromkeys(ADDED, ""), "answered": "false", "reason": f"{error.reason.value}: {error}"}
    answer = {
        **_columns(_VALUES[0], found.ttft, _MILLI),
        **_columns(_VALUES[1], found.tpot, _MILLI),
        **_columns(_VALUES[2], found.output_rate, 1.0),
    }
    return {**answer, "answered": "true", "reason": ""}


def _columns(name: str, estimate: Estimate | None, unit: float) -> dict[str, str]:
    if estimate is None:
        return dict.fromkeys((name, f"{name}_low", f"{name}_high"), "")
    values = (estimate.value, estimate.low, estimate.high)
    return {f"{name}{end}": f"{value * unit:.6g}" for end, value in zip(("", "_low", "_high"), values, strict=True)}


def write_table(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    """Write a CSV file whole or not at all."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=columns)
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())
