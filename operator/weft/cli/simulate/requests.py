"""The requests for each simulated resource: from a file, a synthetic trace, or a Prometheus."""

from __future__ import annotations

import csv
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.reading import STANDARD_INPUT, shown
from weft.cli.simulate.live_trace import Recorded, live_trace
from weft.cli.simulate.resources import NO_REQUESTS
from weft.domain.errors import Invalid
from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.twin.traffic.files import read_trace
from weft.twin.traffic.made_up import SHAPES, made_up
from weft.twin.traffic.trace import Trace, TraceError

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.cli.simulate.resources import TracedResource
    from weft.cli.simulate.wishes import SimulationWishes
    from weft.engines import EngineSeries

Json = dict[str, Any]


def seed_of(chosen: TracedResource, wishes: SimulationWishes, *, alone: bool) -> int:
    """Return the seed of a resource's requests, one each, so that requests of several resources do not coincide."""
    if alone:
        return wishes.seed
    return int.from_bytes(hashlib.sha256(f"{wishes.seed}/{chosen.resource.full}".encode()).digest()[:8])


def requests_of(chosen: TracedResource, wishes: SimulationWishes, catalog: Catalog, seed: int) -> tuple[str, Trace]:
    """Return the source of a resource's requests in words, and the requests.

    Without a trace they are those that a Prometheus counted. Raises `CommandFailure` where they cannot be read.
    """
    if chosen.trace == NO_REQUESTS:
        return "no requests", Trace(np.zeros(0), *np.zeros((2, 0), dtype=np.int32))
    if chosen.trace is not None:
        words, trace = shown(chosen.trace), _trace_of(chosen.trace, seed)
        if not wishes.sort:
            _refuse_disorder(trace, words)
    else:
        recorded = _recorded(chosen.resource.body, wishes, catalog)
        words, trace = recorded.words, live_trace(recorded, seed)
    return words, trace if wishes.scale == 1.0 else _scaled(trace, wishes.scale, seed)


def _recorded(body: Json, wishes: SimulationWishes, catalog: Catalog) -> Recorded:
    """Return where requests were counted; for a split its decode engines count them, as each request ends there."""
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    pool = f"{name}-decode" if body["kind"] == "PDSplit" else name
    return Recorded(wishes.prometheus or "", wishes.hours, namespace, pool, _series_of(body, catalog))


def _scaled(trace: Trace, factor: float, seed: int) -> Trace:
    try:
        return trace.scaled(factor, seed)
    except TraceError as error:
        raise CommandFailure(f"--scale: {error}") from None


def _series_of(body: Json, catalog: Catalog) -> EngineSeries:
    """Return the metric names of the engine that a resource names; vLLM's where it names none."""
    named = body["spec"].get("engine") or {}
    name = EngineName(named["name"]) if named.get("name") in set(EngineName) else EngineName.VLLM
    try:
        return series_for(name, str(named.get("version") or catalog.engine(name).version))
    except Invalid as error:
        raise CommandFailure(f"spec.engine.version: {error.message}") from None


def _trace_of(text: str, seed: int) -> Trace:
    """Read a trace from a file, or make the synthetic one that a line describes."""
    if not text:
        raise CommandFailure(f"--trace has no trace: give a file, or one of {', '.join(SHAPES)} with its numbers")
    try:
        if _is_made_up(text):
            return made_up(text, seed)
        if text == STANDARD_INPUT:
            return read_trace(sys.stdin.buffer, shown(text))
        with Path(text).open("rb") as file:
            return read_trace(file, shown(text))
    except (TraceError, csv.Error) as error:
        raise CommandFailure(f"--trace: {error}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise CommandFailure(_cannot_read(text, error)) from None


def _refuse_disorder(trace: Trace, words: str) -> None:
    """Raise `CommandFailure` for rows that are not in order of time, as two traces in one file are not."""
    if trace.reordered:
        others = f" ({trace.reordered:,} requests do)" if trace.reordered > 1 else ""
        raise CommandFailure(
            f"--trace: {words}, line {trace.late_line}: a request arrives before one above it{others}: put the rows in "
            "order of time, or let --sort do it"
        )


def _is_made_up(text: str) -> bool:
    """Whether the text is a shape with its numbers, or can only be meant as one."""
    name, colon, wishes = text.partition(":")
    return name in SHAPES or bool(colon and "=" in wishes and not Path(text).exists())


def _cannot_read(text: str, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or error
    return f"cannot read {shown(text)}: {reason}; a trace is a file, or one of {', '.join(SHAPES)} with its numbers"
