"""The spec of a PDSplit: what both sides share, and what each overrides."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, SkipValidation

from weft.api.engine import EngineSection, EngineSettings, KVCache, KVTransfer
from weft.api.fields import Number, described, section
from weft.api.model import Model
from weft.api.placing import Placement, ShapeSection
from weft.api.rules import ApiModel, Rule
from weft.api.scaling import Rollout, ScalingBounds, SplitScaling
from weft.api.serving import Pod, SplitRouter
from weft.api.traffic import SloSection, WorkloadSection
from weft.domain.scaling_spec import ScalingMode
from weft.domain.texts.units import parse_quantity

OVERRIDE = "x-weft-override"  # for our own schema generator: below this field there are no defaults


def _override(description: str) -> Any:  # noqa: ANN401 - what stands for a default has any type
    return described(description, **{OVERRIDE: True})


class SideOverrides(ApiModel):
    """What one side does differently: objects merge field by field, lists with names by name, the rest is replaced.

    An override alone means little, so it is kept as it was written, and validated once it lies over the common fields.
    """

    engine: Annotated[EngineSettings | None, SkipValidation] = _override(
        "Overrides of spec.engine; name, version and image are the same on both sides."
    )
    kv_cache: Annotated[KVCache | None, SkipValidation] = _override("Overrides of spec.kvCache.")
    shape: Annotated[ShapeSection | None, SkipValidation] = _override("Overrides of spec.shape.")
    placement: Annotated[Placement | None, SkipValidation] = _override("Overrides of spec.placement.")
    scaling: Annotated[ScalingBounds | None, SkipValidation] = _override("Overrides of spec.scaling.")
    rollout: Annotated[Rollout | None, SkipValidation] = _override("Overrides of spec.rollout.")
    pod: Annotated[Pod | None, SkipValidation] = _override("Overrides of spec.pod.")


class Ratio(ApiModel):
    """Bounds of the ratio, which Weft computes: prefill replicas per decode replica."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.min) || !has(self.max) || "
            "quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0",
            message="ratio.min must not be above ratio.max",
            holds=lambda ratio: (
                ratio.min is None or ratio.max is None or parse_quantity(ratio.min) <= parse_quantity(ratio.max)
            ),
        ),
    )

    min: Number | None = described("Fewest prefill replicas per decode replica, such as 500m. Unset: no limit.")
    max: Number | None = described("Most prefill replicas per decode replica, such as 4. Unset: no limit.")


def _bound(side: str, field: str) -> str:
    """CEL for the effective value of one scaling bound of a side."""
    own = f"self.{side}.scaling.{field}"
    return f"(has(self.{side}) && has(self.{side}.scaling) && has({own}) ? {own} : self.scaling.{field})"


def _of_merged_side(cel: str, message: str) -> Rule:
    """A rule that the API server checks here and that we check on each merged side, which is a whole pool."""
    return Rule(cel, message, lambda _: True)


def _bounds_agree(side: str) -> Rule:
    return _of_merged_side(
        "!has(self.scaling) || !has(self.scaling.minReplicas) || !has(self.scaling.maxReplicas) || "
        f"{_bound(side, 'minReplicas')} <= {_bound(side, 'maxReplicas')}",
        f"minReplicas must not be above maxReplicas once {side}.scaling is laid over scaling",
    )


def _side_args(side: str) -> str:
    engine = f"self.{side}.engine"
    return f"(has(self.{side}) && has({engine}) && has({engine}.args) && {engine}.args.size() > 0)"


class PDSplitSpec(ApiModel):
    """What both sides of the split share, and what each does differently."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _bounds_agree("prefill"),
        _bounds_agree("decode"),
        _of_merged_side(
            "!has(self.engine) || !has(self.engine.name) || self.engine.name != 'Auto' || "
            f"!({_side_args('prefill')} || {_side_args('decode')})",
            "engine.name must be VLLM, SGLang or TensorRTLLM when prefill.engine.args or decode.engine.args is set: "
            "they belong to one engine",
        ),
        Rule(
            cel="!has(self.ratio) || !has(self.scaling) || !has(self.scaling.mode) || self.scaling.mode != 'External'",
            message="ratio must be absent while scaling.mode is External, because the counts belong to others",
            holds=lambda split: split.ratio is None or split.scaling.mode != ScalingMode.External,
        ),
    )

    model: Model = Field(description="The model to serve.")
    engine: EngineSection = section(EngineSection, "The inference engine; both sides run the same version.")
    kv_cache: KVCache | None = described("How a replica stores KV. Unset: as the engine does by default.")
    kv_transfer: KVTransfer = section(KVTransfer, "How KV travels from prefill to decode.")
    workload: WorkloadSection = section(
        WorkloadSection, "Expected traffic; live metrics replace each value once there is enough of it."
    )
    slo: SloSection | None = described("Latency targets. Unset: best effort, the cheapest shapes that fit.")
    shape: ShapeSection | None = described("Pinned parts of both shapes. Unset: all of it is chosen.")
    placement: Placement = section(Placement, "Where replicas may go.")
    scaling: SplitScaling = section(
        SplitScaling, "How the replica counts are decided; the bounds count for each side alone."
    )
    rollout: Rollout = section(Rollout, "How a changed spec replaces running replicas.")
    pod: Pod | None = described("The few pod fields a user may set.")
    router: SplitRouter = section(SplitRouter, "What stands in front of the two pools.")
    prefill: SideOverrides | None = described("What the prefill side does differently.")
    decode: SideOverrides | None = described("What the decode side does differently.")
    ratio: Ratio | None = described("Bounds of the ratio between the sides, which Weft computes.")
