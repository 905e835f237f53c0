"""What an accelerator can do. Facts come from `catalog/accelerators.yaml`."""

from __future__ import annotations

from dataclasses import dataclass, replace
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

    `name` is the catalog key (`H200`, `GB200`, `cpu`); engines choose the same attention backend on all GPUs of one
    `generation`, so that only these can read each other's KV cache. FLOP/s are dense and keyed by precision; bandwidths
    are bytes per second per GPU in one direction; `memory_bytes` is what the driver reports, not the marketed number.
    `pcie_bandwidth` is between cards without an NVLink bridge. `machines` are the cloud machine types that have it, as
    the node's label spells them. `largest_board_gpus` are those of a node with more than `domain_gpus` that its links
    join all the same, through a second board: of other kinds a second board is apart. `tensor_rate` is the tensor
    arithmetic of a multiprocessor, as a part of that of the whole part of this chip.
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
    pcie_bandwidth: float | None = None
    machines: tuple[str, ...] = ()
    largest_board_gpus: int = 0
    tensor_rate: float = 1.0

    def part(self, memory_bytes: int) -> Accelerator:
        """A part of such a GPU with so many bytes of its memory (MIG, a time slice, a partition), and as much speed.

        AMD's partitions and a MIG `3g.40gb` (half of the bandwidth, 3 of 7 compute units) nearly have that speed; a
        time slice has it while the others are as busy.
        """
        share = min(1.0, memory_bytes / self.memory_bytes)
        flops = tuple((precision, share * each) for precision, each in self.flops)
        return replace(self, memory_bytes=memory_bytes, memory_bandwidth=share * self.memory_bandwidth, flops=flops)

    def link_bandwidth(self, gpus: int) -> float:
        """Bytes per second of the slowest link in a group of GPUs: PCIe where the bridge does not connect all."""
        if self.pcie_bandwidth is not None and gpus > self.domain_gpus:
            return self.pcie_bandwidth
        return self.scale_up_bandwidth

    def over_pcie(self, gpus: int) -> bool:
        """Whether a group of GPUs of one node communicates through PCIe: no link joins all of them."""
        return self.domain_gpus < gpus <= self.gpus_per_node and (
            self.domain_gpus == 1 or self.pcie_bandwidth is not None
        )

    def peak_flops(self, precision: Precision) -> float | None:
        """Dense FLOP/s at a precision, or None where the GPU cannot compute in it."""
        return dict(self.flops).get(precision)
