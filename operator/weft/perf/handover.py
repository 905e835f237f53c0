"""How long the KV cache of a prompt takes from prefill to decode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.perf.memory import sequence_bytes_per_gpu
from weft.perf.steps import NETWORK_FRACTION

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel

_NVLINK_FRACTION = 0.88  # of what NVLink does, between two GPUs: 396 of 450 GB/s were measured on NVLink 4
_POSTED_SECONDS = 0.03  # posting, descriptors and polling of one transfer (NIXL, vLLM issue 50913)


def sent_bytes_per_second(prefill: ReplicaModel) -> float:
    """What each GPU of prefill sends at best: by its NIC, whatever transport carries it there, or over NVLink."""
    if prefill.over_nvlink:
        return prefill.accelerator.scale_up_bandwidth * _NVLINK_FRACTION
    return prefill.accelerator.network_bandwidth * NETWORK_FRACTION


def handed_over_seconds(prefill: ReplicaModel, input_tokens: float) -> float:
    """Seconds until a prompt's KV is with decode; every GPU of a group sends its own part."""
    sent = sequence_bytes_per_gpu(prefill, max(1.0, input_tokens))
    return _POSTED_SECONDS + sent / sent_bytes_per_second(prefill)
