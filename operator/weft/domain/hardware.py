"""What an accelerator can do. Facts come from `catalog/accelerators.yaml`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Precision(StrEnum):
    """Precision of weights (and of the matmuls that use them)."""

    FP32 = "FP32"
    BF16 = "BF16"
    FP8 = "FP8"
    INT8 = "INT8"
    INT4 = "INT4"
    NVFP4 = "NVFP4"
    MXFP4 = "MXFP4"

    @property
    def bytes_per_weight(self) -> float:
        """Bytes of one weight, block scales included where the format has them (one byte per 16 or 32 values)."""
        return _BYTES_PER_WEIGHT[self]


_BYTES_PER_WEIGHT = {
    Precision.FP32: 4.0,
    Precision.BF16: 2.0,
    Precision.FP8: 1.0,
    Precision.INT8: 1.0,
    Precision.INT4: 0.5625,
    Precision.NVFP4: 0.5625,
    Precision.MXFP4: 0.53125,
}


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One kind of GPU as data sheets and node labels describe it.

    `name` is the catalog key (`H200`, `GB200`, `cpu`); on all of a `generation` an engine chooses the same attention
    backend, so that only they read each other's KV cache. FLOP/s are dense and keyed by precision; bandwidths are bytes
    per second per GPU in one direction; `memory_bytes` is what the driver reports, not the marketed number. `machines`
    are the types of machine that clouds sell with it, in the spelling of the node's label.
    """

    name: str
    vendor: str
    generation: str
    resource: str
    products: tuple[str, ...]
    memory_bytes: int
    memory_bandwidth: float
    flops: tuple[tuple[Precision, float], ...]
    scale_up_bandwidth: float
    network_bandwidth: float
    domain_gpus: int
    gpus_per_node: int
    cost: float
    machines: tuple[str, ...] = ()

    def peak_flops(self, precision: Precision) -> float | None:
        """Dense FLOP/s at a precision, or None where the part cannot compute in it."""
        return dict(self.flops).get(precision)
