"""`spec.scaling` and `spec.rollout`: how many replicas, who decides that, and how a change reaches them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from weft.api.fields import (
    Duration,
    Instant,
    IntOrPercent,
    RolloutStrategy,
    ScalingMode,
    counted_from_one,
    described,
    zero_refused,
)
from weft.api.rules import ApiModel, Rule, refusal
from weft.domain import scaling_spec, spec
from weft.domain.scaling_spec import MOST_REPLICAS


def _counted(what: str) -> AfterValidator:
    def at_least_one(value: int) -> int:
        if value < 1:
            raise refusal(zero_refused(what))
        return value

    return AfterValidator(at_least_one)


MIN_NOT_ABOVE_MAX = Rule(
    cel="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
    message="minReplicas must not be above maxReplicas",
    holds=lambda scaling: scaling.min_replicas <= scaling.max_replicas,
)


class ScalingBounds(ApiModel):
    """Bounds of the replica count; in a PDSplit each side may have its own."""

    rules: ClassVar[tuple[Rule, ...]] = (MIN_NOT_ABOVE_MAX,)

    min_replicas: Annotated[int, Field(le=MOST_REPLICAS), _counted("minReplicas")] = Field(
        default=1, description="Fewest replicas, at least 1.", json_schema_extra=counted_from_one("minReplicas")
    )
    max_replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] = Field(
        default=10, description="Most replicas, up to 1000."
    )
    max_gpus: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        alias="maxGPUs",
        description="Most GPUs that all replicas together hold; in a PDSplit for each side alone. It wins over "
        "minReplicas, and the condition Placed says so. Unset: no limit.",
    )
    max_step: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] | None = described(
        "Most replicas that demand adds or removes within a minute. Unset: no limit."
    )
    scale_down_delay: Duration = Field(
        default="5m", description="How long fewer replicas must have been enough before any is removed."
    )
    headroom_percent: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=10, description="Capacity kept above measured demand, in percent."
    )
    risk_percent: Annotated[int, Field(ge=1, le=50)] = Field(
        default=10, description="Part of requests that may come while demand outgrows its forecasts, in percent."
    )


class SplitScaling(ScalingBounds):
    """How the replica counts of both sides are decided."""

    mode: ScalingMode = Field(
        default=scaling_spec.ScalingMode.Auto,
        description="Auto: Weft decides the counts. External: the /scale of the two child pools belongs to a person, "
        "HPA or KEDA; Weft recommends in status.",
    )
    freeze_until: Instant | None = described(
        "Until this time, such as 2026-07-01T08:00:00Z, Weft changes no count and no shape, and moves nothing to make "
        "room for others. A count that others own (mode External) is followed."
    )


def _auto_owns_the_count(scaling: Scaling) -> bool:
    return scaling.mode != scaling_spec.ScalingMode.Auto or scaling.replicas is None


def _external_has_a_count(scaling: Scaling) -> bool:
    return scaling.mode != scaling_spec.ScalingMode.External or scaling.replicas is not None


class Scaling(ScalingBounds):
    """How the replica count is decided."""

    rules: ClassVar[tuple[Rule, ...]] = (
        MIN_NOT_ABOVE_MAX,
        Rule(
            cel="!has(self.mode) || self.mode != 'Auto' || !has(self.replicas)",
            message="replicas must be absent while scaling.mode is Auto, because Weft decides the count: set "
            "scaling.mode to External to scale this pool by hand, HPA or KEDA",
            holds=_auto_owns_the_count,
        ),
        Rule(
            cel="!has(self.mode) || self.mode != 'External' || has(self.replicas)",
            message="replicas is required while scaling.mode is External: it is the count that you, HPA or KEDA decide",
            holds=_external_has_a_count,
        ),
    )

    mode: ScalingMode = Field(
        default=scaling_spec.ScalingMode.Auto,
        description="Auto: Weft decides the count and replicas must be absent. External: replicas is required and "
        "belongs to a person, HPA or KEDA through /scale; Weft writes status.recommendedReplicas.",
    )
    replicas: Annotated[int, Field(le=MOST_REPLICAS), _counted("replicas")] | None = Field(
        default=None,
        description="Replicas to run, in External mode only: at least 1, and kept within minReplicas and maxReplicas.",
        json_schema_extra=counted_from_one("replicas"),
    )
    freeze_until: Instant | None = described(
        "Until this time, such as 2026-07-01T08:00:00Z, Weft changes no count and no shape, and moves nothing to make "
        "room for others. A count that others own (mode External) is followed."
    )


class Rollout(ApiModel):
    """How a changed spec replaces running replicas."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.maxSurge) || !has(self.maxUnavailable) || "
            "(has(self.strategy) && self.strategy == 'Recreate') || "
            "!(string(self.maxSurge).matches('^0+%?$') && string(self.maxUnavailable).matches('^0+%?$'))",
            message="maxSurge and maxUnavailable must not both be zero: no replica could ever be replaced",
            holds=lambda rollout: (
                rollout.strategy == spec.RolloutStrategy.Recreate
                or any(
                    str(limit).removesuffix("%").strip("0") for limit in (rollout.max_surge, rollout.max_unavailable)
                )
            ),
        ),
    )

    strategy: RolloutStrategy = Field(
        default=spec.RolloutStrategy.Surge,
        description="Surge: start new replicas, then drain old ones, within limits. Recreate: drain all, then start.",
    )
    max_surge: IntOrPercent = Field(
        default=1,
        description="Replicas above the desired count during a rollout, as a count or a percentage (rounded up).",
    )
    max_unavailable: IntOrPercent = Field(
        default=0,
        description="Replicas below the desired count during a rollout, as a count or a percentage (rounded down).",
    )
    min_ready_seconds: int = Field(
        default=30,
        ge=0,
        le=3600,
        description="How long replicas of a new revision have answered before earlier ones leave for them.",
    )
    paused: bool = Field(default=False, description="Keep running replicas as they are, though the spec changed.")
    drain_timeout: Duration = Field(
        default="300s", description="How long a replica may finish its requests before it is stopped."
    )
    start_timeout: Duration | None = described(
        "How long a replica may take until its engine runs, and then again until it answers. After that another one "
        "is started in its place. Unset: no limit, then 10 minutes and its weights at 250 MB/s."
    )
