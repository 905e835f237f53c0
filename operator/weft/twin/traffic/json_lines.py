"""Requests of a trace in JSON: lines of Mooncake, Bailian and others, or the result of `vllm bench serve`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from weft.twin.traffic.columns import columns_of, usual_of
from weft.twin.traffic.rows import TraceSource, whole
from weft.twin.traffic.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weft.twin.traffic.columns import Columns
    from weft.twin.traffic.rows import Row

_MOONCAKE = ("timestamp", "input_length", "output_length")
_INSIDE = ("usage", "data")  # objects in a request that hold its tokens: OpenAI's, and ServeGen's
_BAILIAN = {"chat_id", "parent_chat_id"}
_BENCH = ("start_times", "input_lens", "output_lens")  # lists in what `vllm bench serve --save-detailed` writes
_DETAILED = "run `vllm bench serve` with --save-result --save-detailed, in a version that writes start_times"
Json = dict[str, Any]


def json_lines(head: str, lines: Iterator[tuple[int, str]]) -> TraceSource:
    """Return the requests of a file whose first line, also the first of `lines`, begins an object.

    Raises `TraceError` where they are none.
    """
    body = _object("".join(line for _, line in lines) if head.strip() == "{" else head)
    if body is not None and not set(body).isdisjoint(_BENCH[1:]):
        return _benchmark(body)
    if head.strip() == "{":
        raise TraceError(" has a JSON object over several lines: write each request in one line")
    flat = _flat(body or {})
    known = body is None or not set(flat).isdisjoint(_MOONCAKE[1:])
    names = [*_MOONCAKE, *flat] if known else list(flat)
    columns = columns_of(list(dict.fromkeys(names)), usual_of(names))
    bailian = not _BAILIAN.isdisjoint(flat)
    columns.known = bailian or "hash_ids" in flat
    block_tokens = 16 if bailian else 512
    return TraceSource(_requests(lines, columns, block_tokens), columns, block_tokens)


def _benchmark(body: Json) -> TraceSource:
    """Read the lists of a benchmark's result, of which each has an entry for each request."""
    missing = next((name for name in _BENCH if not isinstance(body.get(name), list)), None)
    if missing is not None:
        raise TraceError(f" is a benchmark's result without the list {missing}: {_DETAILED}")
    if len({len(body[name]) for name in _BENCH}) > 1:
        raise TraceError(f" has lists of several lengths: {', '.join(_BENCH)} have an entry for each request")
    columns = columns_of(("start_time", "input_len", "output_len"))
    columns.known = True
    rows = (dict(zip(columns.names, row, strict=True)) for row in zip(*(body[name] for name in _BENCH), strict=True))
    return TraceSource(((1, _request(1, json.dumps(row), row, columns)) for row in rows), columns)


def _requests(lines: Iterable[tuple[int, str]], columns: Columns, block_tokens: int) -> Iterator[tuple[int, Row]]:
    nested = any("." in name for name in columns.names)
    for number, line in lines:
        body = _object(line)
        row = _request(number, line, _flat(body) if nested and body is not None else body, columns)
        _, tokens_in, _, blocks = row
        if len(blocks) > -(-tokens_in // block_tokens) and tokens_in > 0:
            raise TraceError(
                f", line {number}: {len(blocks):,} hash_ids for {tokens_in:,} tokens: each stands for "
                f"{block_tokens} (for 16 where requests have a parent_chat_id and times are seconds, as in Bailian's)"
            )
        if body is not None:
            columns.seen(body.get("model"))
        yield number, row


def _request(number: int, line: str, body: Json | None, columns: Columns) -> Row:
    try:
        if body is None:
            raise TypeError  # noqa: TRY301 - told like any other line that is no request
        moment, tokens_in, tokens_out = [body[name] for name in columns.names]
        return columns.clock(moment), whole(tokens_in), whole(tokens_out), _wholes(body.get("hash_ids"))
    except KeyError as error:
        raise TraceError(f", line {number} lacks {error.args[0]}: {_each(columns)}") from None
    except (ValueError, TypeError, OverflowError):
        why = _why_no_request(body, columns)
        raise TraceError(f", line {number}: {line.strip()[:60]!r} is no request: {why}") from None


def _each(columns: Columns) -> str:
    time, prompt, answer = columns.names
    return f"each has {time} (in {columns.clock.unit}), {prompt} and {answer}"


def _why_no_request(body: Json | None, columns: Columns) -> str:
    """Name the first field of a request that cannot be read, with what it takes."""
    if body is None:
        return f"each line is a JSON object, and {_each(columns)}"
    fields: tuple[tuple[Callable[[Any], object], str], ...] = (
        (columns.clock, columns.clock.takes),
        (whole, "a whole number"),
        (whole, "a whole number"),
        (_wholes, "a list of whole numbers"),
    )
    for name, (read, takes) in zip((*columns.names, "hash_ids"), fields, strict=True):
        try:
            read(body.get(name))
        except (ValueError, TypeError, OverflowError):
            return f"{name} takes {takes}, not {str(body[name])[:40]!r}"
    return _each(columns)


def _object(text: str) -> Json | None:
    """Read a JSON object; None for anything else, be it a number or a list without end."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _flat(body: Json) -> Json:
    """Put what the objects inside a request hold beside its own fields, as `usage.prompt_tokens`."""
    inside = {name: body[name] for name in _INSIDE if isinstance(body.get(name), dict)}
    return {**body, **{f"{name}.{key}": value for name, each in inside.items() for key, value in each.items()}}


def _wholes(values: object) -> tuple[int, ...]:
    """Read the numbers of a list; a missing or an empty one is none. Raises `TypeError` for all else."""
    if values and not isinstance(values, list):
        raise TypeError
    return tuple(map(whole, values)) if isinstance(values, list) else ()
