"""Traces from files: Azure's CSV, Mooncake's JSON lines, and three columns with a head; compressed with gzip or not.

Formats: Azure/AzurePublicDataset (TIMESTAMP, ContextTokens, GeneratedTokens), kvcache-ai/Mooncake (timestamp in
milliseconds, input_length, output_length, hash_ids of 512 tokens), and `arrival_s,input_tokens,output_tokens`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import zlib
from array import array
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.domain.separators import other_separator
from weft.twin.trace import LONGEST_SECONDS, MOST_TOKENS, Trace, TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    Row = tuple[float, int, int, tuple[int, ...]]

_GZIP = b"\x1f\x8b"
_PLAIN = ("arrival_s", "input_tokens", "output_tokens")
_AZURE = ("timestamp", "contexttokens", "generatedtokens")
_MOONCAKE = ("timestamp", "input_length", "output_length")
_MILLISECONDS = 1000.0
_TIMES = {
    True: "arrival_s takes seconds; for dates name the columns TIMESTAMP, ContextTokens and GeneratedTokens",
    False: "TIMESTAMP takes dates such as 2026-05-01 12:00:00.5; for seconds name the columns " + ", ".join(_PLAIN),
}


def read_trace(file: BinaryIO, name: str) -> Trace:
    """The requests of a file, whatever of the formats it has; its first arrival is second 0 of Azure's and Mooncake's.

    Raises `TraceError` with the name and the line of what cannot be read.
    """
    try:
        with _text(file) as text:
            return _gathered(_rows((number, line) for number, line in enumerate(text, start=1) if line.strip()))
    except TraceError as error:
        raise TraceError(f"{name}{error}") from None
    except UnicodeDecodeError:
        raise TraceError(f"{name} is not text: a trace is a CSV or JSON lines, compressed with gzip or not") from None
    except (EOFError, OSError, zlib.error) as error:
        raise TraceError(f"{name} cannot be read: {error}") from None


def _text(file: BinaryIO) -> io.TextIOWrapper:
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)  # type: ignore[type-var]
    packed = buffered.peek(2)[:2] == _GZIP
    plain = gzip.GzipFile(fileobj=buffered) if packed else buffered
    return io.TextIOWrapper(plain, encoding="utf-8-sig", newline="")


def _rows(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Row]]:
    """Every request with its line, in the format that the first line shows."""
    first, head = next(lines, (0, ""))
    if not head:
        raise TraceError(" is empty")
    return _mooncake(chain([(first, head)], lines)) if head.lstrip().startswith("{") else _csv(head, lines)


@dataclass(slots=True)
class _Columns:
    """What was read so far, as compact as it is kept."""

    arrivals: array[float] = field(default_factory=lambda: array("d"))
    inputs: array[int] = field(default_factory=lambda: array("i"))
    outputs: array[int] = field(default_factory=lambda: array("i"))
    blocks: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, row: Row) -> None:
        arrival, tokens_in, tokens_out, blocks = row
        before = self.arrivals[-1] if self.arrivals else 0.0
        if arrival < before:
            above = f"before the one above it at {before:g} s: sort the file by time"
            why = above if self.arrivals else "but times count from 0"
            raise TraceError(f": a request arrives at {arrival:g} s, {why}")
        if not math.isfinite(arrival):
            raise TraceError(f": a request arrives at {arrival:g} s, which is no time")
        if arrival > LONGEST_SECONDS:
            raise TraceError(
                f": a request arrives at {arrival:.15g} s, more than a year after the beginning: times are seconds "
                "since the trace began, so subtract the first one, and divide milliseconds by 1000"
            )
        for tokens in (tokens_in, tokens_out):
            if tokens < 1:
                raise TraceError(f": {tokens!s:.20} tokens: a request has at least one of input and one of output")
            if tokens > MOST_TOKENS:
                raise TraceError(f": {tokens!s:.20} tokens: a request has at most {MOST_TOKENS} of input or of output")
        self.arrivals.append(arrival)
        self.inputs.append(tokens_in)
        self.outputs.append(tokens_out)
        self.blocks.append(blocks)


def _gathered(rows: Iterator[tuple[int, Row]]) -> Trace:
    found = _Columns()
    for line, row in rows:
        try:
            found.add(row)
        except TraceError as error:
            raise TraceError(f", line {line}{error}") from None
    if not found.arrivals:
        raise TraceError(" has no requests")
    blocks = tuple(found.blocks) if any(found.blocks) else ()  # a prompt without hashes shares nothing with others
    return Trace(
        np.frombuffer(found.arrivals, dtype=np.float64),
        np.frombuffer(found.inputs, dtype=np.int32),
        np.frombuffer(found.outputs, dtype=np.int32),
        blocks,
    )


def _csv(head: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Row]]:
    if (between := other_separator(head)) is not None:
        raise TraceError(f" has {between} between its columns: put commas there")
    names = [name.strip().lower() for name in next(csv.reader([head]))]
    if set(_AZURE) <= set(names):
        columns, time = _AZURE, _since_the_first()
    elif set(_PLAIN) <= set(names):
        columns, time = _PLAIN, float
    else:
        raise TraceError(_lacking(names))
    twice = next((column for column in columns if names.count(column) > 1), None)
    if twice is not None:
        raise TraceError(f" has the column {twice} twice: leave one")
    places = [names.index(column) for column in columns]
    for number, line in lines:
        yield number, _cells(number, line, places, time)


def _lacking(names: list[str]) -> str:
    wanted = _AZURE if len(set(names) & set(_AZURE)) > len(set(names) & set(_PLAIN)) else _PLAIN
    missing = ", ".join(name for name in wanted if name not in names)
    if not set(names) & set(wanted):
        return f" has no head with the columns {', '.join(_PLAIN)} (or TIMESTAMP, ContextTokens, GeneratedTokens)"
    return f" lacks the column {missing}: a head has {', '.join(_PLAIN)} (or TIMESTAMP, ContextTokens, GeneratedTokens)"


def _cells(number: int, line: str, places: list[int], time: Callable[[str], float]) -> Row:
    try:
        cells = next(csv.reader([line])) if '"' in line else line.split(",")
        moment, tokens_in, tokens_out = [cells[place].strip().strip('"') for place in places]
        return time(moment), _tokens(tokens_in), _tokens(tokens_out), ()
    except (ValueError, IndexError, csv.Error):
        shown, why = line.strip()[:60], _why_no_time(line.split(","), places[0], time)
        raise TraceError(f", line {number}: {shown!r} is no time and two whole numbers of tokens{why}") from None


def _why_no_time(cells: list[str], place: int, time: Callable[[str], float]) -> str:
    """What the column of times takes; nothing where the time is one, or is not there."""
    try:
        time("".join(cells[place : place + 1]).strip().strip('"') or "0")
    except ValueError:
        return f": {_TIMES[time is float]}"
    return ""


def _tokens(text: str) -> int:
    """`200`, or `200.0` as tables write a column that once had gaps."""
    return int(text.removesuffix(".0"))


def _since_the_first() -> Callable[[str], float]:
    """Seconds between a time of day and the first one that was asked for."""
    first: list[datetime] = []

    def seconds(text: str) -> float:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        first[:] = first or [moment]
        return (moment - first[0]).total_seconds()

    return seconds


def _mooncake(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Row]]:
    start: float | None = None
    for number, line in lines:
        moment, tokens_in, tokens_out, blocks = _request(number, line)
        start = moment if start is None else start
        yield number, ((moment - start) / _MILLISECONDS, tokens_in, tokens_out, blocks)


def _request(number: int, line: str) -> Row:
    try:
        body: dict[str, Any] = json.loads(line)
        moment, tokens_in, tokens_out = (body[name] for name in _MOONCAKE)
        return float(moment), _whole(tokens_in), _whole(tokens_out), tuple(map(_whole, body.get("hash_ids") or ()))
    except KeyError as error:
        raise TraceError(f", line {number} lacks {error.args[0]}") from None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):  # a number or a list without end
        raise TraceError(f", line {number}: {line.strip()[:60]!r} is no request") from None


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value
