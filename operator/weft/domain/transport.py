"""How KV travels between the halves of a split, and how fast that should be."""

from __future__ import annotations

from dataclasses import dataclass

from weft.domain.texts.figures import digits, seconds

_BYTES_PER_GB = 1e9


@dataclass(frozen=True, slots=True)
class Transport:
    """The KV transport that predictions assume: its rate per prefill GPU, and transfer times for declared prompts."""

    name: str
    bytes_per_second: float
    mean_seconds: float
    p95_seconds: float

    def __str__(self) -> str:
        """For the status: `RDMA, 45 GB/s of each prefill GPU; KV of a mean prompt in 31 ms, of a p95 one in 52 ms`."""
        rate = f"{digits(self.bytes_per_second / _BYTES_PER_GB)} GB/s of each prefill GPU"
        beyond = ", if the pods' network has as much" if self.name == "TCP" else ""
        mean, long = seconds(self.mean_seconds), seconds(self.p95_seconds)
        return f"{self.name}, {rate}{beyond}; KV of a mean prompt in {mean}, of a p95 one in {long}"
