"""Prefill and decode on replicas of their own, at fixed concurrency: decode loses no step to prompts.

A user is with prefill, then with decode. While prefill keeps up, a prompt waits behind those that arrive with it. Once
it does not, or decode has no seat, users pile up before it: as many decode as the rate of prefill sustains, and the
others wait as Little's law says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.perf.closed_loop import Latencies
from weft.perf.memory import sequence_bytes_per_gpu
from weft.perf.seats import seats
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel

_NETWORK_FRACTION = 0.9
_HALVINGS = 30
_HAND_OVER_SECONDS = 0.03  # posting, descriptors and polling of one transfer (NIXL, vLLM issue 50913)


@dataclass(frozen=True, slots=True)
class Half:
    """Replicas of one role."""

    replica: ReplicaModel
    count: int


@dataclass(frozen=True, slots=True)
class _Decode:
    """The decode side of a case, as a function of how many users are with it."""

    half: Half
    context_tokens: float
    output_tokens: float

    def seconds(self, users: float) -> float:
        """One step."""
        return stepper(self.half.replica).decode(max(1.0, users / self.half.count), self.context_tokens).seconds

    def users_at(self, rate: float, most: float) -> float:
        """How many users decode when requests come at this rate; at most so many. Steps grow slower than the batch."""
        low, high = 0.0, most
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            if middle < rate * self.output_tokens * self.seconds(middle):
                low = middle
            else:
                high = middle
        return high


def disaggregated_latencies(
    prefill: Half, decode: Half, users: float, input_tokens: float, output_tokens: float
) -> Latencies:
    """TTFT and TPOT."""
    server = prefill.count * prefill.replica.shape.data_parallel
    prompt = stepper(prefill.replica).prefill(input_tokens, 0.0, 1.0).seconds
    side = _Decode(decode, input_tokens + output_tokens / 2.0, output_tokens)
    room = decode.count * seats(decode.replica, input_tokens, output_tokens)
    running = side.users_at(server / prompt, min(users, room))
    step = side.seconds(running)
    reached = prefill.replica.efficiency
    waiting = prompt * reached.at_once * users / server
    alone = reached.request_seconds + prompt + _handed_over(prefill, input_tokens) + step
    ttft = max(alone + waiting, (users - running) * output_tokens * step / running)
    return Latencies(ttft, step)


def _handed_over(prefill: Half, input_tokens: float) -> float:
    """Seconds until the KV cache of a prompt is with decode; every GPU of a group sends its own part."""
    sent = sequence_bytes_per_gpu(prefill.replica, input_tokens)
    return _HAND_OVER_SECONDS + sent / (prefill.replica.accelerator.network_bandwidth * _NETWORK_FRACTION)
