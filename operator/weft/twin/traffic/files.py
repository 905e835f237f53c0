"""Traces from files: CSV tables, JSON lines and results of benchmarks, compressed or not.

Public formats: Azure/AzurePublicDataset (TIMESTAMP, ContextTokens, GeneratedTokens), HPMLL/BurstGPT (Timestamp in
seconds, Request tokens, Response tokens, where a failed request has 0), kvcache-ai/Mooncake (timestamp in milliseconds,
input_length, output_length, hash_ids of 512 tokens), alibaba-edu/qwen-bailian-usagetraces-anon (the same names and
parent_chat_id, but timestamp in seconds and hash_ids of 16 tokens), what microsoft/vidur and Mutinifni/splitwise-sim
replay (arrived_at, num_prefill_tokens, num_decode_tokens; arrival_timestamp, prompt_size, token_size), the detailed
result of `vllm bench serve`, and `arrival_s,input_tokens,output_tokens`. `trace_columns` has the names of others.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import math
import zlib
from array import array
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.domain.texts.figures import agreeing
from weft.twin.traffic.json_lines import json_lines
from weft.twin.traffic.tables import table
from weft.twin.traffic.trace import LONGEST_SECONDS, MOST_TOKENS, Trace, TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from weft.twin.traffic.rows import Row, TraceSource

_MAGIC_BYTES = 6  # most that tell what a file is
_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_OPENERS: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (_GZIP, lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
)
_PANDAS = 'import pandas; pandas.read_parquet("FILE").to_csv("trace.csv", index=False)'
# What begins with these bytes, and how it is read.
_OTHERS = (
    (b"PAR1", f"is a Parquet file: `python -c '{_PANDAS}'` makes a CSV of it"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: unpack it with `zstd -dc FILE | weft simulate --trace - ...`"),
    (b"PK\x03\x04", "is a ZIP archive: unpack it with `unzip -p FILE | weft simulate --trace - ...`"),
)
_WHOLE_SECONDS = "times are whole seconds: the requests of each arrive at random moments inside it"
_EXPONENT_FROM = 10**15
_TAR = "\0"  # fills the header of each file in an archive


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
        kinds = "a trace is a CSV or JSON lines, compressed with gzip, bzip2, xz or not"
        raise TraceError(f"{name} is not text in UTF-8: {kinds}") from None
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise TraceError(f"{name} cannot be read: {error}") from None


def _text(file: BinaryIO) -> io.TextIOWrapper:
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)  # type: ignore[type-var]
    begins = buffered.peek(_MAGIC_BYTES)
    for magic, words in _OTHERS:
        if begins.startswith(magic):
            raise TraceError(f" {words}")
    opener = next((each for magic, each in _OPENERS if begins.startswith(magic)), None)
    encoding = "utf-16" if begins[:2] in _UTF_16 else "utf-8-sig"  # PowerShell writes both
    return io.TextIOWrapper(buffered if opener is None else opener(buffered), encoding=encoding, newline="")


def _source(lines: Iterator[tuple[int, str]]) -> TraceSource:
    """Return every request with its line number, in the format that the first line shows."""
    first, head = next(((number, line) for number, line in lines if not line.lstrip().startswith("#")), (0, ""))
    if not head:
        raise TraceError(" is empty")
    if _TAR in head:
        raise TraceError(" is an archive: unpack it, and give the file inside")
    if head.lstrip().startswith("["):
        raise TraceError(" is one JSON list: write its requests as JSON lines, with `jq -c .[]`")
    return json_lines(head, chain([(first, head)], lines)) if head.lstrip().startswith("{") else table(head, lines)


@dataclass(slots=True)
class _Read:
    """The rows read so far, in compact columns."""

    from_first: bool
    arrivals: array[float] = field(default_factory=lambda: array("d"))
    inputs: array[int] = field(default_factory=lambda: array("i"))
    outputs: array[int] = field(default_factory=lambda: array("i"))
    blocks: list[tuple[int, ...]] = field(default_factory=list)
    left_out: int = 0
    reordered: int = 0
    late_line: int | None = None
    latest: float = -math.inf

    def add(self, row: Row, line: int) -> None:
        arrival, tokens_in, tokens_out, blocks = row
        for tokens in (tokens_in, tokens_out):
            if not 0 <= tokens <= MOST_TOKENS:
                most = f"a request has at most {MOST_TOKENS} of input or of output"
                raise TraceError(f": {_shown(tokens)} tokens: {'write 0 or more' if tokens < 0 else most}")
        if not (tokens_in and tokens_out):
            self.left_out += 1
            return
        if not (0.0 <= arrival <= LONGEST_SECONDS):
            self._refuse_no_moment(arrival)
        if arrival < self.latest:
            self.reordered += 1
            self.late_line = self.late_line or line
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
                f": a request arrives at {arrival:.15g} s, more than a year after the beginning: arrival_s counts "
                "seconds since the trace began; for times since 1970 name the column timestamp"
            )
        if not self.from_first:
            raise TraceError(f": a request arrives at {arrival:g} s, but times count from 0")


def _shown(tokens: int) -> str:
    """A count in full, or as a power of ten where it is longer than a reader counts."""
    return str(tokens) if abs(tokens) < _EXPONENT_FROM else f"{Decimal(tokens):.2e}"


def _gathered(source: TraceSource) -> Trace:
    found = _Read(source.columns.from_first)
    for line, row in source.rows:
        try:
            found.add(row, line)
        except TraceError as error:
            raise TraceError(f", line {line}{error}") from None
    if not found.arrivals:
        why = ": no row has tokens of both, a prompt and an answer" if found.left_out else ""
        raise TraceError(f" has no requests{why}")
    return _by_time(found, source)


def _without_hashes(found: _Read) -> tuple[str, ...]:
    """A sentence about requests whose prompts count as new text, where those of others may begin alike; else none."""
    lacking = found.blocks.count(())
    if not 0 < lacking < len(found.blocks):
        return ()
    lack = agreeing(lacking, "lacks hash_ids: its prompt counts", "lack hash_ids: their prompts count")
    return (f"{lacking:,} of {len(found.blocks):,} requests {lack} as new text",)


def _by_time(found: _Read, source: TraceSource) -> Trace:
    """Make the trace of what was read, sorted by time: logs written as requests end are in another order."""
    trace = Trace(
        np.frombuffer(found.arrivals, dtype=np.float64),
        np.frombuffer(found.inputs, dtype=np.int32),
        np.frombuffer(found.outputs, dtype=np.int32),
        tuple(found.blocks) if any(found.blocks) else (),  # a prompt without hashes shares nothing with others
        source.block_tokens,
        found.left_out,
        found.reordered,
        found.late_line,
        (*source.columns.told(), *_without_hashes(found)),
    )
    if found.reordered or found.from_first:
        trace = trace.in_order(begin=found.from_first)
    if found.from_first and trace.counts_whole_seconds:
        trace = replace(trace.within_seconds(), told=(*trace.told, _WHOLE_SECONDS))
    if trace.seconds > LONGEST_SECONDS:
        raise TraceError(f" lasts {trace.seconds:.15g} s, which is more than a year")
    return trace
