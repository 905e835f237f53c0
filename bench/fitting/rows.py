"""The rows of a table of measurements, as `weft.perf.benchmarks.measured` reads them, with what was measured."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.perf.benchmarks.measured import Kind, measurement

if TYPE_CHECKING:
    from pathlib import Path

    from weft.perf.benchmarks.measured import Measurement

_EXCLUDED = "do not score"
_DISAGGREGATED = "disaggregated"
_MILLI = 1e-3


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; latencies in seconds, output tokens per second. None where nothing was published."""

    at: Measurement
    ttft: float | None
    tpot: float | None
    output_rate: float | None
    gpus: int
    disaggregated: bool
    columns: dict[str, str]

    @property
    def architecture(self) -> str:
        """The model by its architecture: R1 and V3 are one."""
        return self.at.replica.architecture.model_id

    @property
    def accelerator(self) -> str:
        """The catalog's name of the GPU."""
        return self.at.replica.accelerator.name


def read(path: Path) -> tuple[Row, ...]:
    """All rows that count, in the order of the file."""
    catalog = load()
    with path.open(encoding="utf-8", newline="") as file:
        columns = [each for each in csv.DictReader(file) if _EXCLUDED not in each["note"]]
    return tuple(_row(each, measurement(each, catalog)) for each in columns)


def of_kind(rows: tuple[Row, ...], kind: Kind) -> tuple[Row, ...]:
    """Aggregated rows of one kind."""
    return tuple(row for row in rows if row.at.kind is kind and not row.disaggregated)


def _row(columns: dict[str, str], at: Measurement) -> Row:
    return Row(
        at=at,
        ttft=_number(columns["ttft_ms"], _MILLI),
        tpot=_number(columns["tpot_ms"], _MILLI),
        output_rate=_number(columns["output_tok_s_total"], 1.0),
        gpus=int(columns["n_gpus"]),
        disaggregated=columns["note"].startswith(_DISAGGREGATED),
        columns=columns,
    )


def _number(text: str, unit: float) -> float | None:
    return float(text) * unit if text else None
