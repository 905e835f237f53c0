"""The spec of an InferencePool, whole."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from weft.api.engine import EngineSection, KVCache, KVTransfer
from weft.api.fields import Role, described, immutable, section
from weft.api.model import Model
from weft.api.placing import Placement, ShapeSection
from weft.api.rules import ApiModel, Rule
from weft.api.scaling import Rollout, Scaling
from weft.api.serving import Pod, Router
from weft.api.traffic import SloSection, WorkloadSection
from weft.domain import workload


def _aggregated_moves_no_kv(pool: InferencePoolSpec) -> bool:
    return pool.role != workload.Role.Aggregated or pool.kv_transfer is None


class InferencePoolSpec(ApiModel):
    """What the pool should be. Everything but the model has a default or is chosen by Weft."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.kvTransfer) || (has(self.role) && self.role != 'Aggregated')",
            message="kvTransfer must be absent while role is Aggregated: it is for the roles Prefill and Decode",
            holds=_aggregated_moves_no_kv,
        ),
    )

    role: Role = Field(
        default=workload.Role.Aggregated,
        description="Part of a request that replicas serve: all of it (Aggregated), Prefill or Decode. Immutable.",
        json_schema_extra=immutable("role is immutable: create another pool"),
    )
    model: Model = Field(description="The model to serve.")
    engine: EngineSection = section(EngineSection, "The inference engine.")
    kv_cache: KVCache | None = described("How a replica stores KV. Unset: as the engine does by default.")
    kv_transfer: KVTransfer | None = described("How KV travels between prefill and decode; for those two roles only.")
    workload: WorkloadSection = section(
        WorkloadSection, "Expected traffic; live metrics replace each value once there is enough of it."
    )
    slo: SloSection | None = described("Latency targets. Unset: best effort, the cheapest shape that fits.")
    shape: ShapeSection | None = described("Pinned parts of the shape. Unset: all of it is chosen.")
    placement: Placement = section(Placement, "Where replicas may go.")
    scaling: Scaling = section(Scaling, "How the replica count is decided.")
    rollout: Rollout = section(Rollout, "How a changed spec replaces running replicas.")
    pod: Pod | None = described("The few pod fields a user may set.")
    router: Router = section(Router, "What stands in front of the replicas.")
