"""Measured rows of one deployment at several concurrencies, and which of them a fit may see."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.fitting.rows import of_kind
from bench.truth_bench.clients import Client
from weft.perf.benchmarks.measured import Kind
from weft.perf.benchmarks.seats import seats
from weft.perf.memory import kv_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.fitting.rows import Row

FEWEST = 3  # concurrencies: two make a line, and the one between them is scored
_COLUMNS = ("source", "model", "gpu", "n_gpus", "engine", "engine_version", "precision", "kv_precision")
_SIZES = ("tp", "ep", "pp", "dp", "isl", "osl")
_DAY = re.compile(r"measured (\d{4}-\d\d-\d\d)")
_NAMED = ("model", "gpu", "engine", "engine_version", "precision")


@dataclass(frozen=True, slots=True)
class Point:
    """One row: seconds of a first token and between tokens, with so many users of whom so many have a seat."""

    users: int
    seated: int
    ttft: float
    tpot: float


@dataclass(frozen=True, slots=True)
class Replica:
    """What is known of an engine without any measurement: room for KV and seats, tokens of a step."""

    kv_tokens: int
    max_batch: int
    batched_tokens: int


@dataclass(frozen=True, slots=True)
class Series:
    """Rows that differ in their concurrency only, in its order."""

    name: str
    engine: str
    replica: Replica
    client: Client
    points: tuple[Point, ...]

    @property
    def left_out(self) -> str | None:
        """Why nothing can be scored here."""
        if len(self.concurrencies) < FEWEST:
            return f"fewer than {FEWEST} concurrencies"
        if self.replica.kv_tokens < self.client.input_tokens + self.client.output_tokens:
            return "the memory model has no room for one request"
        return None

    @property
    def concurrencies(self) -> tuple[int, ...]:
        """Those that were measured, each once, from the lowest."""
        return tuple(sorted({point.users for point in self.points}))

    def every_other(self, first: int = 0) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
        """Points of every other concurrency, beginning with the lowest (or with 1 the one after it), and the rest."""
        chosen = set(self.concurrencies[first::2])
        fitted = tuple(point for point in self.points if point.users in chosen)
        return fitted, tuple(point for point in self.points if point.users not in chosen)


def all_series(rows: tuple[Row, ...]) -> tuple[Series, ...]:
    """Every closed loop with a TTFT and a TPOT, in the order of the table."""
    grouped: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in of_kind(rows, Kind.ClosedLoop):
        if row.ttft is not None and row.tpot is not None:
            grouped[_key(row)].append(row)
    return tuple(_series(each) for each in grouped.values())


def _key(row: Row) -> tuple[str, ...]:
    """An engine is measured again after it has changed: another day is another series."""
    day = _DAY.search(row.columns["note"])
    return (*(row.columns[name] for name in (*_COLUMNS, *_SIZES)), day[1] if day else "")


def _series(rows: list[Row]) -> Series:
    columns, at, day = rows[0].columns, rows[0].at, _key(rows[0])[-1]
    ranks, efficiency = at.replica.shape.data_parallel, at.replica.efficiency
    sizes = [f"{name}{columns[name]}" for name in _SIZES[:4] if columns[name] not in {"", "1"}]
    lengths = f"{columns['isl']}/{columns['osl']}"
    return Series(
        name=" ".join(filter(None, [*(columns[name] for name in _NAMED), *sizes, lengths, day])),
        engine=columns["engine"],
        replica=Replica(
            kv_tokens=kv_tokens(at.replica, at.input_tokens + at.output_tokens),
            max_batch=int(efficiency.sequences) * ranks,
            batched_tokens=int(efficiency.batched_tokens) * ranks,
        ),
        client=Client(int(columns["isl"]), int(columns["osl"]), spread=not at.equal_lengths),
        points=_points(rows),
    )


def _points(rows: Iterable[Row]) -> tuple[Point, ...]:
    found = []
    for row in rows:
        at = row.at
        seated = min(at.users, seats(at.replica, at.input_tokens, at.output_tokens))
        if row.ttft is not None and row.tpot is not None:
            found.append(Point(int(at.users), int(seated), row.ttft, row.tpot))
    return tuple(sorted(found, key=lambda point: point.users))
