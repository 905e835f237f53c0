"""What a pool is asked to do (workload) and how well (SLO)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from weft.domain.values.made_often import made_often

P95_OF_MEAN = 2.0  # assumed for tokens where it is not declared: lengths have long tails


class Role(StrEnum):
    """Which part of a request a pool's replicas serve."""

    Aggregated = "Aggregated"
    Prefill = "Prefill"
    Decode = "Decode"

    @property
    def is_half(self) -> bool:
        """Whether replicas of this role send or receive KV, so that alone they answer no request."""
        return self is not Role.Aggregated


@made_often
@dataclass(frozen=True, slots=True)
class Workload:
    """Expected traffic. Tokens per request as mean and 95th percentile; `prefix_hit` is a fraction of prompt tokens.

    `squared_arrival_variation` is the squared coefficient of variation of the time between requests: 1 for random
    arrivals (Poisson), more for bursts. No prompt or answer has more than `longest_tokens`.
    `rare_prompts` are far longer than all others, which are about equal and below the mean, where that was measured:
    their share of all prompts, and their length in multiples of the mean.
    An undeclared percentile is `P95_OF_MEAN` times the mean: an assumption, not a claim that such lengths occur.
    """

    requests_per_second: float
    input_tokens: float
    output_tokens: float
    input_tokens_p95: float
    output_tokens_p95: float
    prefix_hit: float = 0.0
    squared_arrival_variation: float = 1.0
    longest_tokens: float = math.inf
    input_p95_declared: bool = False
    output_p95_declared: bool = False
    rare_prompts: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Slo:
    """Latency targets in seconds as (percentile, seconds) pairs, percentile in {50, 90, 95, 99}, ascending."""

    ttft: tuple[tuple[int, float], ...] = ()
    tpot: tuple[tuple[int, float], ...] = ()
