"""How long the KV cache of a prompt takes from prefill to decode, and how many prompts a second that allows.

Every GPU of a half sends or receives its own part of each prompt. A GPU's best rate bounds both sides: over TCP both
copy through the host.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from weft.domain.shape import EngineName, Limit
from weft.perf.latency import PERCENTILES, Latency, Waited
from weft.perf.memory import sequence_bytes_per_gpu
from weft.perf.steps import NETWORK_FRACTION

if TYPE_CHECKING:
    from weft.perf.lengths import Lengths
    from weft.perf.replica import ReplicaModel

_NVLINK_FRACTION = 0.88  # of what NVLink does, between two GPUs: 396 of 450 GB/s were measured on NVLink 4
# Over TCP memory of a GPU goes through the host, piece by piece: 1.3 to 1.5 GB/s were measured in the pieces of 64 KiB
# that Weft asks for, 0.5 in those of 8 and 1.6 in those of 128 (docs/gpu.md).
_THROUGH_THE_HOST = 1.4e9
# Of that, where several prompts are sent at once: four and eight users had 0.81 and 0.86 GB/s together.
SEVERAL_THROUGH_THE_HOST = 0.6
_POSTED_SECONDS = 0.03  # posting, descriptors and polling of one transfer (NIXL, vLLM issue 50913)


def sent_bytes_per_second(prefill: ReplicaModel) -> float:
    """The highest rate at which each prefill GPU sends: over NVLink, by its NIC, or through the host with TCP."""
    if prefill.wire == "NVLink":
        return prefill.accelerator.scale_up_bandwidth * _NVLINK_FRACTION
    by_nic = prefill.accelerator.network_bandwidth * NETWORK_FRACTION
    return min(by_nic, _THROUGH_THE_HOST) if _goes_through_the_host(prefill) else by_nic


def _goes_through_the_host(half: ReplicaModel) -> bool:
    return half.wire == "TCP" and half.accelerator.vendor != "cpu"


def several_at_once(half: ReplicaModel) -> float:
    """The part of its rate that a link has while it sends several prompts at once: less than 1 through the host."""
    return SEVERAL_THROUGH_THE_HOST if _goes_through_the_host(half) else 1.0


def handed_over_seconds(prefill: ReplicaModel, input_tokens: float) -> float:
    """Seconds until decode has a prompt's KV; every GPU of a group sends its own part."""
    sent = sequence_bytes_per_gpu(prefill, max(1.0, input_tokens))
    return _POSTED_SECONDS + sent / sent_bytes_per_second(prefill)


class Alone(NamedTuple):
    """Seconds that KV transfers take without contention, over prompt lengths: mean, variance and percentiles."""

    mean: float
    variance: float
    percentiles: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """The link that carries KV to or from each GPU of one rank; concurrent transfers share it.

    `alone` is the time of a transfer without contention, in seconds, and `shared` its mean with others. `limit` names
    the kind of network.
    With random arrivals a transfer takes longer by 1 / ((1 - b) (1 - b + a)), where a is the link's utilisation if each
    transfer ran alone, and b its utilisation at the shared rate: processor sharing whose rate depends on the number of
    jobs (Kelly, "Reversibility and Stochastic Networks", 1979). With one rate for all that is 1 / (1 - b).
    """

    alone: Alone
    shared: float
    limit: Limit

    def busy(self, rate: float) -> float:
        """The part of its time in which it sends, at so many prompts a second of one rank."""
        return rate * self.shared

    def taken(self, rate: float) -> Waited:
        """How long a KV transfer takes: posting, and the transfer itself beside others (processor sharing)."""
        free = 1.0 - self.busy(rate)
        if free <= 0.0:
            return Waited(math.inf, 0.0, 0.0, self.alone.percentiles, _NOBODY)
        pace = free * (free + rate * self.alone.mean)
        mean, variance = self.alone.mean / pace, self.alone.variance / pace**2
        slower = tuple((percentile, each / pace) for percentile, each in self.alone.percentiles)
        return Waited(_POSTED_SECONDS, mean, variance, slower, _NOBODY)


_NOBODY = Latency(0.0, 0.0)
NO_LINK = Link(Alone(0.0, 0.0, tuple((each, 0.0) for each in PERCENTILES)), 0.0, Limit.ScaleOutNetwork)


def link(half: ReplicaModel, inputs: Lengths, prefix_hit: float) -> Link:
    """The link for prompts of such lengths, of which the fraction `prefix_hit` is expected in the decode cache.

    Decode of SGLang caches no prompts (`--disaggregation-decode-enable-radix-cache` is off): all of each is sent. The
    hits that it counts are those of prefill.
    """
    finds = half.shape.engine is not EngineName.SGLang
    rate, sent = sent_bytes_per_second(half), 1.0 - prefix_hit if finds else 1.0

    def held(tokens: float) -> float:
        return sequence_bytes_per_gpu(half, max(1.0, tokens)) * sent / rate

    kinds = [(weight, held(tokens)) for weight, tokens in inputs.points]
    mean, square = (sum(weight * each**power for weight, each in kinds) for power in (1, 2))
    alone = Alone(mean, max(0.0, square - mean**2), tuple((each, held(inputs.at(each))) for each in PERCENTILES))
    return Link(
        alone, mean / several_at_once(half), Limit.ScaleUpNetwork if half.wire == "NVLink" else Limit.ScaleOutNetwork
    )
