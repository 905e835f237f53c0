"""How long the KV cache of a prompt takes from prefill to decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.perf.memory import sequence_bytes_per_gpu
from weft.perf.steps import NETWORK_FRACTION

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel

_NVLINK_FRACTION = 0.88  # of what NVLink does, between two GPUs: 396 of 450 GB/s were measured on NVLink 4
# Over TCP memory of a GPU goes through the host, piece by piece: 1.3 to 1.5 GB/s were measured in the pieces of 64 KiB
# that Weft asks for, 0.5 in those of 8 and 1.6 in those of 128 (docs/gpu.md).
_THROUGH_THE_HOST = 1.4e9
_POSTED_SECONDS = 0.03  # posting, descriptors and polling of one transfer (NIXL, vLLM issue 50913)


def sent_bytes_per_second(prefill: ReplicaModel) -> float:
    """What each GPU of prefill sends at best: over NVLink, or by its NIC, and through the host where that is TCP."""
    if prefill.wire == "NVLink":
        return prefill.accelerator.scale_up_bandwidth * _NVLINK_FRACTION
    by_nic = prefill.accelerator.network_bandwidth * NETWORK_FRACTION
    through_the_host = prefill.wire == "TCP" and prefill.accelerator.vendor != "cpu"
    return min(by_nic, _THROUGH_THE_HOST) if through_the_host else by_nic


def handed_over_seconds(prefill: ReplicaModel, input_tokens: float) -> float:
    """Seconds until a prompt's KV is with decode; every GPU of a group sends its own part."""
    sent = sequence_bytes_per_gpu(prefill, max(1.0, input_tokens))
    return _POSTED_SECONDS + sent / sent_bytes_per_second(prefill)
