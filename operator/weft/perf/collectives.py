"""Time of collectives: alpha-beta with a latency floor. Seconds, bytes, and bytes per second in one direction."""

from __future__ import annotations

_DISPATCH_BYTES = 1.0  # per element: activations travel to experts as FP8
_COMBINE_BYTES = 2.0  # and back as BF16


def all_reduce_seconds(message_bytes: float, gpus: int, latency_seconds: float, bandwidth: float) -> float:
    """The faster of one-shot a + (t-1) M / bw and two-shot 2a + 2 (t-1)/t M / bw; zero for one GPU."""
    if gpus <= 1:
        return 0.0
    one_shot = latency_seconds + (gpus - 1) * message_bytes / bandwidth
    two_shot = 2 * latency_seconds + 2 * (gpus - 1) / gpus * message_bytes / bandwidth
    return min(one_shot, two_shot)


def ranks_hit(group: int, experts_per_token: int) -> float:
    """Distinct ranks of an expert group that one token's experts are on: e (1 - (1 - 1/e)^k), for uniform routing."""
    return group * (1.0 - (1.0 - 1.0 / group) ** experts_per_token)


def exchange_bytes_per_token(hidden: int, group: int, experts_per_token: int) -> float:
    """Bytes that one token sends to its experts and gets back."""
    return ranks_hit(group, experts_per_token) * hidden * (_DISPATCH_BYTES + _COMBINE_BYTES)


def exchange_seconds(message_bytes: float, latency_seconds: float, bandwidth: float) -> float:
    """Dispatch and combine of one layer: two latencies and the bytes of both."""
    return 2 * latency_seconds + message_bytes / bandwidth


def hop_seconds(message_bytes: float, latency_seconds: float, bandwidth: float) -> float:
    """Point to point, from one pipeline stage to the next."""
    return latency_seconds + message_bytes / bandwidth
