"""Traces from files: Azure's and BurstGPT's CSV, JSON lines of Mooncake and Bailian, three columns; gzip or not.

Formats: Azure/AzurePublicDataset (TIMESTAMP, ContextTokens, GeneratedTokens), HPMLL/BurstGPT (Timestamp in seconds,
Request tokens, Response tokens, where a failed request has 0), kvcache-ai/Mooncake (timestamp in milliseconds,
input_length, output_length, hash_ids of 512 tokens), alibaba-edu/qwen-bailian-usagetraces-anon (the same names and
parent_chat_id, but timestamp in seconds and hash_ids of 16 tokens), what microsoft/vidur and Mutinifni/splitwise-sim
replay (arrived_at, num_prefill_tokens, num_decode_tokens; arrival_timestamp, prompt_size, token_size), and
`arrival_s,input_tokens,output_tokens`.
"""

from __future__ import annotations

import codecs
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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weft.domain.separators import other_separator
from weft.twin.trace import LONGEST_SECONDS, MOST_TOKENS, Trace, TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    Row = tuple[float, int, int, tuple[int, ...]]

_LATEST_SECOND = 1e11  # latest plausible second since 1970; today's time in milliseconds is beyond it
_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MOONCAKE = ("timestamp", "input_length", "output_length")
_EACH = "each has timestamp (in milliseconds), input_length and output_length"
_HEADS = (
    "arrival_s, input_tokens, output_tokens (or TIMESTAMP, ContextTokens, GeneratedTokens, "
    "or Timestamp, Request tokens, Response tokens; docs/cli.md has all)"
)


class _Head(NamedTuple):
    """A known CSV header: its columns in lower case, what makes its clock, and the hint for times it cannot read."""

    columns: tuple[str, str, str]
    clock: Callable[[], Callable[[str], float]]
    times: str
    from_first: bool = True


def _counted() -> Callable[[str], float]:
    """Make a clock that reads seconds as they are written."""
    return float


def _counted_from_the_first() -> Callable[[str], float]:
    """Make a clock of seconds since its first reading, which may count from 1970, but in no finer unit."""
    first: list[float] = []

    def seconds(text: str) -> float:
        moment = float(text)
        if moment > _LATEST_SECOND:
            raise ValueError
        first[:] = first or [moment if math.isfinite(moment) else 0.0]
        return moment - first[0]

    return seconds


def _since_the_first() -> Callable[[str], float]:
    """Make a clock that reads dates as seconds since its first reading."""
    first: list[datetime] = []

    def seconds(text: str) -> float:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        first[:] = first or [moment]
        return (moment - first[0]).total_seconds()

    return seconds


_FINER = "divide milliseconds by 1000, and nanoseconds by 1e9"
_PLAIN = _Head(
    ("arrival_s", "input_tokens", "output_tokens"),
    _counted,
    "arrival_s takes seconds; for dates name the columns TIMESTAMP, ContextTokens and GeneratedTokens",
    from_first=False,
)
_AZURE = _Head(
    ("timestamp", "contexttokens", "generatedtokens"),
    _since_the_first,
    "TIMESTAMP takes dates such as 2026-05-01 12:00:00.5; for seconds name the columns " + ", ".join(_PLAIN.columns),
)
_BURST = _Head(
    ("timestamp", "request tokens", "response tokens"),
    _counted_from_the_first,
    f"Timestamp takes seconds; for dates name the columns TIMESTAMP, ContextTokens and GeneratedTokens; {_FINER}",
)
_VIDUR = _Head(
    ("arrived_at", "num_prefill_tokens", "num_decode_tokens"),
    _counted_from_the_first,
    f"arrived_at takes seconds; {_FINER}",
)
_SPLITWISE = _Head(
    ("arrival_timestamp", "prompt_size", "token_size"),
    _counted_from_the_first,
    f"arrival_timestamp takes seconds; {_FINER}",
)
_KNOWN = (_PLAIN, _AZURE, _BURST, _VIDUR, _SPLITWISE)


class _Source(NamedTuple):
    """Requests with their line numbers; `from_first`: the first request is at second 0, whatever its time says."""

    rows: Iterator[tuple[int, Row]]
    from_first: bool = True
    block_tokens: int = 512


def read_trace(file: BinaryIO, name: str) -> Trace:
    """Read a file in any of the formats, sorted by time; only `arrival_s` does not count from the first request.

    Rows without prompt or answer tokens, as failed requests leave them, are counted and left out. Raises `TraceError`
    with the name and the line of what cannot be read.
    """
    try:
        with _text(file) as text:
            return _gathered(_source((number, line) for number, line in enumerate(text, start=1) if line.strip()))
    except TraceError as error:
        raise TraceError(f"{name}{error}") from None
    except UnicodeDecodeError:
        kinds = "a trace is a CSV or JSON lines, compressed with gzip or not"
        raise TraceError(f"{name} is not text in UTF-8: {kinds}") from None
    except (EOFError, OSError, zlib.error) as error:
        raise TraceError(f"{name} cannot be read: {error}") from None


def _text(file: BinaryIO) -> io.TextIOWrapper:
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)  # type: ignore[type-var]
    packed = buffered.peek(2)[:2] == _GZIP
    plain = gzip.GzipFile(fileobj=buffered) if packed else buffered
    encoding = "utf-16" if buffered.peek(2)[:2] in _UTF_16 else "utf-8-sig"  # PowerShell writes both
    return io.TextIOWrapper(plain, encoding=encoding, newline="")


def _source(lines: Iterator[tuple[int, str]]) -> _Source:
    """Return every request with its line number, in the format that the first line shows."""
    first, head = next(lines, (0, ""))
    if not head:
        raise TraceError(" is empty")
    if head.lstrip().startswith("["):
        raise TraceError(f" is one JSON list: write its requests as JSON lines, each with {', '.join(_MOONCAKE)}")
    return _json_lines(head, chain([(first, head)], lines)) if head.lstrip().startswith("{") else _csv(head, lines)


@dataclass(slots=True)
class _Columns:
    """The rows read so far, in compact columns."""

    from_first: bool
    arrivals: array[float] = field(default_factory=lambda: array("d"))
    inputs: array[int] = field(default_factory=lambda: array("i"))
    outputs: array[int] = field(default_factory=lambda: array("i"))
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    left_out: int = 0
    reordered: int = 0
    latest: float = -math.inf

    def add(self, row: Row) -> None:
        arrival, tokens_in, tokens_out, blocks = row
        for tokens in (tokens_in, tokens_out):
            if tokens < 0:
                raise TraceError(f": {tokens!s:.20} tokens: write 0 or more")
            if tokens > MOST_TOKENS:
                raise TraceError(f": {tokens!s:.20} tokens: a request has at most {MOST_TOKENS} of input or of output")
        if not (tokens_in and tokens_out):
            self.left_out += 1
            return
        if not (0.0 <= arrival <= LONGEST_SECONDS):
            self._refuse_no_moment(arrival)
        self.reordered += arrival < self.latest
        self.latest = max(self.latest, arrival)
        self.arrivals.append(arrival)
        self.inputs.append(tokens_in)
        self.outputs.append(tokens_out)
        self.blocks.append(blocks)

    def _refuse_no_moment(self, arrival: float) -> None:
        """Raise for a time that no trace can have; where times count from the first request, some may be before it."""
        if not math.isfinite(arrival):
            raise TraceError(f": a request arrives at {arrival:g} s, which is no time")
        if abs(arrival) > LONGEST_SECONDS and self.from_first:
            raise TraceError(f": a request arrives {abs(arrival):.15g} s from the first one, which is more than a year")
        if arrival > LONGEST_SECONDS:
            raise TraceError(
                f": a request arrives at {arrival:.15g} s, more than a year after the beginning: times are seconds "
                "since the trace began, so subtract the first one, and divide milliseconds by 1000"
            )
        if not self.from_first:
            raise TraceError(f": a request arrives at {arrival:g} s, but times count from 0")


def _gathered(source: _Source) -> Trace:
    found = _Columns(source.from_first)
    for line, row in source.rows:
        try:
            found.add(row)
        except TraceError as error:
            raise TraceError(f", line {line}{error}") from None
    if not found.arrivals:
        why = ": no row has tokens of both, a prompt and an answer" if found.left_out else ""
        raise TraceError(f" has no requests{why}")
    return _by_time(found, source)


def _by_time(found: _Columns, source: _Source) -> Trace:
    """Make the trace of what was read, sorted by time: logs written as requests end are in another order."""
    trace = Trace(
        np.frombuffer(found.arrivals, dtype=np.float64),
        np.frombuffer(found.inputs, dtype=np.int32),
        np.frombuffer(found.outputs, dtype=np.int32),
        tuple(found.blocks) if any(found.blocks) else (),  # a prompt without hashes shares nothing with others
        source.block_tokens,
        found.left_out,
        found.reordered,
    )
    trace = trace.in_order(begin=source.from_first) if found.reordered or source.from_first else trace
    if trace.seconds > LONGEST_SECONDS:
        raise TraceError(f" lasts {trace.seconds:.15g} s, which is more than a year")
    return trace


def _csv(head: str, lines: Iterable[tuple[int, str]]) -> _Source:
    if (between := other_separator(head)) is not None:
        raise TraceError(f" has {between} between its columns: put commas there")
    names = [name.strip().lower() for name in next(csv.reader([head]))]
    known = next((each for each in _KNOWN if set(each.columns) <= set(names)), None)
    if known is None:
        raise TraceError(_lacking(names))
    twice = next((column for column in known.columns if names.count(column) > 1), None)
    if twice is not None:
        raise TraceError(f" has the column {twice} twice: remove one")
    places, time = [names.index(column) for column in known.columns], known.clock()
    rows = ((number, _cells(number, cells, places, known, time)) for number, cells in _records(head, lines))
    return _Source(rows, known.from_first)


def _records(head: str, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row with the number of its first line; a cell in quotes may go on for lines.

    The header of a second file that was joined to the first is left out.
    """
    heading, following = head.strip(), iter(lines)
    for number, line in following:
        if '"' not in line:
            if line.strip("\ufeff\r\n\t ") != heading:
                yield number, line.split(",")
            continue
        try:
            cells = next(csv.reader(chain([line], (more for _, more in following)), strict=True))
        except csv.Error as error:  # at the end of the file, say, as the quote is never closed
            raise TraceError(f", line {number}: the quotes from there on cannot be read: {error}") from None
        if cells != _split(heading):
            yield number, cells


def _lacking(names: list[str]) -> str:
    wanted = max(_KNOWN, key=lambda each: len(set(names) & set(each.columns))).columns
    if not set(names) & set(wanted):
        return f" has no header line with the columns {_HEADS}"
    return f" lacks the column {', '.join(name for name in wanted if name not in names)}: a header has {_HEADS}"


def _cells(number: int, cells: list[str], places: list[int], head: _Head, time: Callable[[str], float]) -> Row:
    try:
        moment, tokens_in, tokens_out = [cells[place].strip().strip('"') for place in places]
        return time(moment), _tokens(tokens_in), _tokens(tokens_out), ()
    except (ValueError, TypeError, OverflowError, IndexError):
        why, row = _why_no_row(cells, places, head, time), ",".join(cells).strip()
        raise TraceError(f", line {number}: {row[:60]!r} is no request: {why}") from None


def _split(line: str) -> list[str]:
    return next(csv.reader([line])) if '"' in line else line.split(",")


def _why_no_row(cells: list[str], places: list[int], head: _Head, time: Callable[[str], float]) -> str:
    """Name the first column of a row that cannot be read, with what it takes."""
    reads = (time, _tokens, _tokens)
    takes = (head.times, *(f"{name} takes a whole number" for name in head.columns[1:]))
    for name, place, read, words in zip(head.columns, places, reads, takes, strict=True):
        if place >= len(cells):
            return f"it has no column {name}"
        value = cells[place].strip().strip('"')
        try:
            read(value)
        except (ValueError, TypeError, OverflowError):
            return f"{words}, not {value[:40]!r}"
    return "it is no row of a CSV file"


def _tokens(text: str) -> int:
    """Read `200`, or `200.0`, `200.00` and `2e2` as tools write a column with gaps; a gap, also `nan`, counts as 0."""
    whole = text.removesuffix(".0") or "0"
    return int(whole) if whole.isdecimal() else _whole(float(whole))


def _json_lines(head: str, lines: Iterable[tuple[int, str]]) -> _Source:
    """Read JSON lines of Mooncake, or of Bailian, where requests name the request that they follow."""
    bailian = '"parent_chat_id"' in head
    block_tokens = 16 if bailian else 512
    return _Source(_requests(lines, 1.0 if bailian else 1000.0, block_tokens), block_tokens=block_tokens)


def _requests(lines: Iterable[tuple[int, str]], per_second: float, block_tokens: int) -> Iterator[tuple[int, Row]]:
    start: float | None = None
    for number, line in lines:
        moment, tokens_in, tokens_out, blocks = _request(number, line)
        if len(blocks) > -(-tokens_in // block_tokens) and tokens_in > 0:
            raise TraceError(
                f", line {number}: {len(blocks):,} hash_ids for {tokens_in:,} tokens: each stands for "
                f"{block_tokens} (for 16 where requests have a parent_chat_id and times are seconds, as in Bailian's)"
            )
        start = moment if start is None else start
        yield number, ((moment - start) / per_second, tokens_in, tokens_out, blocks)


def _request(number: int, line: str) -> Row:
    try:
        body: dict[str, Any] = json.loads(line)
        moment, tokens_in, tokens_out = (body[name] for name in _MOONCAKE)
        return float(moment), _whole(tokens_in), _whole(tokens_out), _wholes(body.get("hash_ids"))
    except KeyError as error:
        raise TraceError(f", line {number} lacks {error.args[0]}: {_EACH}") from None
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):  # a number or a list without end
        raise TraceError(f", line {number}: {line.strip()[:60]!r} is no request: {_why_no_object(line)}") from None


def _why_no_object(line: str) -> str:
    """Name the first field of a request that cannot be read, with what it takes."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        return f"each line is a JSON object, and {_EACH}"
    for name, (read, takes) in _FIELDS.items():
        try:
            read(body.get(name))
        except (ValueError, TypeError, OverflowError):
            return f"{name} takes {takes}, not {str(body[name])[:40]!r}"
    return _EACH


def _wholes(values: object) -> tuple[int, ...]:
    """Read the numbers of a list; a missing or an empty one is none. Raises `TypeError` for all else."""
    if values and not isinstance(values, list):
        raise TypeError
    return tuple(map(_whole, values)) if isinstance(values, list) else ()


def _whole(value: object) -> int:
    """Read a whole number, even one that is a float in the file; a gap (None, NaN) counts as 0. Raises for all else."""
    if value is None or value != value:  # noqa: PLR0124 - only NaN differs from itself
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise TypeError
    return int(value)


_FIELDS: dict[str, tuple[Callable[[Any], object], str]] = {
    "timestamp": (float, "a number of milliseconds"),
    "input_length": (_whole, "a whole number"),
    "output_length": (_whole, "a whole number"),
    "hash_ids": (_wholes, "a list of whole numbers"),
}
