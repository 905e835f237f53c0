"""`spec.shape` and `spec.placement`: how one replica is built where that is fixed, and where replicas may go."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from pydantic.config import JsonDict

from weft.api.fields import (
    ATOMIC,
    EACH_ONCE,
    LONGEST_LABEL_KEY,
    SET,
    Balancing,
    DomainRule,
    LabelKey,
    LabelValue,
    described,
    section,
)
from weft.api.patterns import ACCELERATOR, DNS_LABEL, LABEL_KEY
from weft.api.rules import VALIDATIONS, ApiModel, Rule
from weft.domain import spec

AcceleratorName = Annotated[str, Field(min_length=1, max_length=64, pattern=ACCELERATOR)]
Parallel = Annotated[int, Field(ge=1, le=1024)]


class ShapeSection(ApiModel):
    """Pinned parts of the shape; what is not pinned is chosen."""

    tensor_parallel: Parallel | None = described("GPUs that share each layer; divides the model's attention heads.")
    pipeline_parallel: Parallel | None = described("Stages that share the layers one after another.")
    expert_parallel: Parallel | None = described("GPUs that share the experts of a mixture of experts.")
    data_parallel: Parallel | None = described("Attention-DP ranks inside one replica.")
    decode_context_parallel: Parallel | None = described("GPUs of a tensor group that share one copy of the KV cache.")
    prefill_context_parallel: Parallel | None = described("Tensor groups that share each prompt; Prefill role only.")
    data_parallel_balancing: Balancing | None = Field(
        default=None,
        description="What takes requests for attention-DP ranks (vLLM). Internal (unset): the first pod of a replica. "
        "Hybrid: each pod, for its own. External: each pod, which is one rank. MultiPort: each rank, at a port of its "
        "own; router type Gateway only.",
    )


class TolerationItem(ApiModel):
    """A taint that replicas tolerate, as Kubernetes defines it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
            message="value must be empty when operator is Exists",
            holds=lambda toleration: toleration.operator != "Exists" or not toleration.value,
        ),
        Rule(
            cel="(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
            message="operator must be Exists when key is empty: that tolerates every taint",
            holds=lambda toleration: bool(toleration.key) or toleration.operator == "Exists",
        ),
        Rule(
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            message="effect must be NoExecute when tolerationSeconds is set",
            holds=lambda toleration: toleration.toleration_seconds is None or toleration.effect == "NoExecute",
        ),
    )

    key: LabelKey | None = described("Key of the taint. Unset, with operator Exists: every taint.")
    operator: Literal["Equal", "Exists"] = Field(default="Equal", description="How key and value match.")
    value: LabelValue | None = described("Value of the taint, for operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = described(
        "Effect to tolerate. Unset: every one."
    )
    toleration_seconds: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = described(
        "Seconds that a NoExecute taint is tolerated. Unset: for ever."
    )


class SchedulerSection(ApiModel):
    """Who admits the pods."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.name) || (self.name == 'Kueue') == has(self.queue)",
            message="scheduler.queue is required when scheduler.name is Kueue, and allowed only then",
            holds=lambda scheduler: (scheduler.name == "Kueue") == (scheduler.queue is not None),
        ),
    )

    name: Literal["Default", "Kueue"] = Field(default="Default", description="The stock scheduler, or Kueue before it.")
    queue: Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)] | None = described(
        "Name of the LocalQueue, in this namespace."
    )


_LABEL_KEYS: JsonDict = {
    VALIDATIONS: [
        {
            "rule": f"self.all(key, key.size() <= {LONGEST_LABEL_KEY} && key.matches('{LABEL_KEY}'))",
            "message": "the keys must be label keys such as example.com/zone",
        }
    ]
}


class Placement(ApiModel):
    """Where replicas may go."""

    accelerators: Annotated[list[AcceleratorName], EACH_ONCE] = Field(
        default_factory=list,
        max_length=32,
        description="Kinds of accelerators, by catalog name, such as H200 or GB200. Unset: every kind that fits.",
        json_schema_extra=SET,
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, max_length=32, description="Labels that a node must have.", json_schema_extra=_LABEL_KEYS
    )
    tolerations: list[TolerationItem] = Field(
        default_factory=list, max_length=32, description="Taints that replicas tolerate.", json_schema_extra=ATOMIC
    )
    domain: DomainRule = Field(
        default=spec.DomainRule.Required,
        description="Whether a replica must fit one NVLink domain (Required), or its pipeline stages may use several "
        "(Preferred). Tensor and expert groups never leave a domain.",
    )
    spread: Literal["Domain", "Zone", "None"] = Field(
        default="Domain",
        description="Over what replicas are spread. Zone: zones, evenly as far as room allows. Domain: NVLink domains "
        "that fit equally well. None: nothing.",
    )
    spare_nodes_per_domain: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0,
        description="Nodes of each multi-node NVLink domain that stay free as spares, such as 2 of the 18 of a rack.",
    )
    scheduler: SchedulerSection = section(SchedulerSection, "Who admits the pods.")
