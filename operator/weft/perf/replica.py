"""The input of the performance model: one replica of a shape on real devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.hardware import Precision
from weft.domain.shape import Calibration
from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.catalog import Efficiency
    from weft.domain.hardware import Accelerator
    from weft.domain.model import Architecture
    from weft.domain.shape import Shape
    from weft.perf.speculation import Speculation


UNCALIBRATED = Calibration()


@made_often
@dataclass(frozen=True, slots=True)
class ReplicaModel:
    """A model in a shape. `memory_bytes` is what one device reports (its label, not the catalog's number).

    `kv_precision` is how the KV cache is stored, see `stored_kv`. `speculation` counts in memory and in step times of a
    `Stepper`; closed loops of measurements have none. `calibration` scales the step times of a `Stepper`, from live
    metrics. `wire` is what carries KV from prefill: RDMA, EFA, NVLink or TCP.
    """

    architecture: Architecture
    shape: Shape
    accelerator: Accelerator
    efficiency: Efficiency
    memory_bytes: int
    kv_precision: Precision = Precision.BF16
    speculation: Speculation | None = None
    calibration: Calibration = UNCALIBRATED
    wire: str = "RDMA"

    def __hash__(self) -> int:
        """Hash the fields that usually differ: hashing a whole architecture takes longer than a cache lookup."""
        return hash((self.architecture.model_id, self.shape, self.memory_bytes, self.calibration))


def stored_kv(wish: Precision | None, computed: Precision) -> Precision:
    """How an engine stores KV: in 8 bits where it is told to, else as it computes attention.

    That is in 16 bits, and in 32 where weights have 32 (vLLM's `--kv-cache-dtype auto`), whichever of both is wished.
    """
    if wish is None or wish is Precision.BF16:
        return Precision.FP32 if computed is Precision.FP32 else Precision.BF16
    return wish


def draft_replica(replica: ReplicaModel) -> ReplicaModel | None:
    """The draft model as a replica on the same GPUs, whole in the last pipeline stage; None where nothing drafts."""
    speculation = replica.speculation
    if speculation is None or speculation.draft is None:
        return None
    draft = speculation.draft
    shape = replace(replica.shape, pipeline_parallel=1, precision=draft.precision or replica.shape.precision)
    return replace(replica, architecture=draft.architecture, shape=shape, speculation=None)
