"""`spec.workload` and `spec.slo`: what is expected, and how well it must be served."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.config import JsonDict

from weft.api.fields import MAX_TOKENS, Duration, RequestsPerSecond, described
from weft.api.rules import VALIDATIONS, ApiModel, Rule

Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Percentile = Literal["p50", "p90", "p95", "p99"]

_KNOWN_PERCENTILES: JsonDict = {
    VALIDATIONS: [
        {
            "rule": "self.all(percentile, percentile in ['p50', 'p90', 'p95', 'p99'])",
            "message": "the keys must be percentiles among p50, p90, p95 and p99",
        }
    ],
}


def _target(what: str) -> Any:  # noqa: ANN401 - what stands for a default has any type
    return Field(
        default_factory=dict,
        max_length=4,
        description=f"{what} by percentile, such as p95: 500ms. Keys: p50, p90, p95, p99.",
        json_schema_extra=_KNOWN_PERCENTILES,
    )


class TokenCount(ApiModel):
    """Tokens per request."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.p95) || !has(self.mean) || self.p95 >= self.mean",
            message="p95 must not be below mean",
            holds=lambda tokens: tokens.p95 is None or tokens.p95 >= tokens.mean,
        ),
    )

    mean: Tokens = Field(description="Mean, in tokens per request.")
    p95: Tokens | None = described("95th percentile, in tokens per request. Unset: twice the mean.")


def _token_count(what: str, mean: int) -> Any:  # noqa: ANN401 - what stands for a default has any type
    return Field(
        default_factory=lambda: TokenCount(mean=mean),
        description=f"Tokens of the {what} per request. Default: mean {mean}.",
        json_schema_extra={"default": {"mean": mean}},
    )


class WorkloadSection(ApiModel):
    """Expected traffic. Live metrics replace each value once there is enough of it; status.observed.live says which."""

    requests_per_second: RequestsPerSecond = Field(
        default=1, description="Requests per second that the pool must serve, such as 20 or 500m."
    )
    input_tokens: TokenCount = _token_count("prompt", 1024)
    output_tokens: TokenCount = _token_count("answer", 256)
    prefix_hit_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0, description="Percent of prompt tokens that the prefix cache is expected to hold already."
    )
    arrival_variation_percent: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=100,
        description="Deviation of the time between requests, in percent of its mean: 100 is random, more is bursty.",
    )


class SloSection(ApiModel):
    """Latency targets. None at all means best effort: the cheapest shape that fits."""

    ttft: dict[Percentile, Duration] = _target("Longest time to the first token")
    tpot: dict[Percentile, Duration] = _target("Longest time per further token")
