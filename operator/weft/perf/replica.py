"""What the performance model looks at: one replica of a shape on real devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.hardware import Precision
from weft.domain.shape import Calibration

if TYPE_CHECKING:
    from weft.catalog import Efficiency
    from weft.domain.hardware import Accelerator
    from weft.domain.model import Architecture
    from weft.domain.shape import Shape
    from weft.perf.speculation import Speculation


UNCALIBRATED = Calibration()


@dataclass(frozen=True, slots=True)
class ReplicaModel:
    """A model in a shape. `memory_bytes` is what one device reports (its label, not the catalog's number).

    `kv_precision` is how the KV cache is stored; engines keep 16 bits unless they are told otherwise. `speculation`
    counts in memory and in what a `Stepper` times; closed loops of measurements have none. `calibration` scales what a
    `Stepper` times, from live metrics.
    """

    architecture: Architecture
    shape: Shape
    accelerator: Accelerator
    efficiency: Efficiency
    memory_bytes: int
    kv_precision: Precision = Precision.BF16
    speculation: Speculation | None = None
    calibration: Calibration = UNCALIBRATED
