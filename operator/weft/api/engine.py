"""`spec.engine`, `spec.kvCache` and `spec.kvTransfer`: which engine runs, and how it keeps and moves KV."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from weft.api.fields import (
    ATOMIC,
    BY_NAME,
    EACH_ONCE,
    ImageReference,
    Quantity,
    described,
)
from weft.api.patterns import EXTENDED_RESOURCE, NO_OPTION, RELEASE, VARIABLE
from weft.api.rules import ApiModel, Rule

HugePages = Annotated[int, Field(ge=1, le=2**20)]
KVPrecision = Literal["BF16", "FP8", "NVFP4"]


class EnvVar(ApiModel):
    """An environment variable with a plain value."""

    name: Annotated[str, Field(min_length=1, max_length=256, pattern=VARIABLE)] = Field(
        description="Name of the variable."
    )
    value: Annotated[str, Field(max_length=8192)] = Field(default="", description="Its value, taken literally.")


class Rdma(ApiModel):
    """RDMA devices of one pod."""

    # Kubernetes sets `requests.` before the name, of which what stands before the / still has to be a DNS name
    resource: Annotated[str, Field(min_length=3, max_length=245, pattern=EXTENDED_RESOURCE)] = Field(
        description="Extended resource of the RDMA device plugin, such as rdma/hca_shared_devices."
    )
    count: Annotated[int, Field(ge=1, le=64)] = Field(default=1, description="Devices per pod.")


class EngineResources(ApiModel):
    """What one engine pod asks for beside its GPUs, which the shape decides."""

    cpu: Quantity | None = described(
        "CPU cores that each pod requests, such as 16 or 500m; never a limit. Unset: none requested, so a pod "
        "gets what its node has left."
    )
    memory: Quantity | None = described(
        "Memory that each pod requests and may use, in bytes, such as 128Gi. Unset: none requested and no limit."
    )
    shared_memory: Quantity | None = described(
        "Size of /dev/shm per pod in bytes, such as 16Gi; it counts against memory. Unset: chosen by the shape."
    )
    huge_pages_2mi: HugePages | None = Field(
        default=None, alias="hugePages2Mi", description="Huge pages of 2 MiB per pod. Unset: none."
    )
    huge_pages_1gi: HugePages | None = Field(
        default=None, alias="hugePages1Gi", description="Huge pages of 1 GiB per pod. Unset: none."
    )
    rdma: Rdma | None = described("RDMA devices per pod. Unset: none.")


class Speculative(ApiModel):
    """Speculative decoding."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.method) || (self.method in ['EAGLE3', 'DraftModel']) == has(self.model)",
            message="speculative.model is required for the methods EAGLE3 and DraftModel, and for no other",
            holds=lambda wish: (wish.method in {"EAGLE3", "DraftModel"}) == (wish.model is not None),
        ),
    )

    method: Literal["MTP", "EAGLE3", "DraftModel", "NGram"] = Field(
        description="How tokens are drafted. MTP: by the model's own heads. NGram: from the prompt. Or by EAGLE3 or "
        "DraftModel."
    )
    model: Annotated[str, Field(min_length=1, max_length=256, pattern=NO_OPTION)] | None = described(
        "Hugging Face repository of the drafting model, for EAGLE3 and DraftModel."
    )
    tokens: Annotated[int, Field(ge=1, le=64)] = Field(default=3, description="Tokens drafted per step.")


class EngineSettings(ApiModel):
    """What may differ between the two sides of a split."""

    args: list[Annotated[str, Field(max_length=4096)]] = Field(
        default_factory=list,
        max_length=128,
        description="Arguments added to the engine's command, one item each, taken literally: no shell, no $(NAME). "
        "One that contradicts the shape is refused by name.",
        json_schema_extra=ATOMIC,
    )
    env: Annotated[list[EnvVar], EACH_ONCE] = Field(
        default_factory=list,
        max_length=128,
        description="Environment variables added to the engine's container.",
        json_schema_extra=BY_NAME,
    )
    resources: EngineResources | None = described("What one engine pod asks for beside its GPUs.")
    speculative: Speculative | None = described("Speculative decoding. Unset: off.")
    distributed: Literal["Native", "Ray"] = Field(
        default="Native",
        description="How the pods of one replica find each other: the engine's own way, or Ray, which vLLM's "
        "images since 0.18 lack.",
    )


def _names_the_engine_it_details(engine: EngineSection) -> bool:
    return engine.name != "Auto" or not (engine.version or engine.image or engine.args)


class EngineSection(EngineSettings):
    """The inference engine."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.name) || self.name != 'Auto' || "
            "!(has(self.version) || has(self.image) || (has(self.args) && self.args.size() > 0))",
            message="engine.name must be VLLM, SGLang or TensorRTLLM when engine.version, engine.image or engine.args "
            "is set: they belong to one engine",
            holds=_names_the_engine_it_details,
        ),
    )

    name: Literal["Auto", "VLLM", "SGLang", "TensorRTLLM"] = Field(
        default="Auto", description="Engine to run; Auto lets Weft choose."
    )
    version: Annotated[str, Field(min_length=1, max_length=64, pattern=RELEASE)] | None = described(
        "Version such as 0.32.0. Unset: resolved once and kept in status.engine; upgrading Weft changes no image."
    )
    image: ImageReference | None = described("Image of the engine. Unset: the published one of that version.")


class Offload(ApiModel):
    """A second tier for KV, in host memory, and a third on disks."""

    size: Quantity = Field(description="Host memory for KV per replica, in bytes, such as 256Gi.")
    backend: Literal["Native", "LMCache"] = Field(
        default="Native", description="What moves KV: the engine itself, or LMCache."
    )
    disk_gib: Annotated[int, Field(ge=1, le=99_999)] | None = Field(
        default=None, alias="diskGiB", description="GiB on disks."
    )


class KVCache(ApiModel):
    """How a replica stores KV."""

    precision: KVPrecision | None = described("Precision of stored KV. Unset: that of the activations.")
    offload: Offload | None = described("Host memory as a second tier. Unset: off.")


class KVTransfer(ApiModel):
    """How KV travels from prefill to decode."""

    connector: Literal["NIXL", "Mooncake", "LMCache"] = Field(default="NIXL", description="Library that moves KV.")
    transport: Literal["Auto", "RDMA", "EFA", "TCP", "NVLink"] = Field(
        default="Auto",
        description="Network to use. Auto: what the engine finds in its pod. RDMA needs engine.resources.rdma, and "
        "nodes that do not limit locked memory, or pod.relaxations. EFA (Amazon's) also an engine.image "
        "with libfabric. NVLink: inside one rack (GB200, GB300).",
    )
    locality: Literal["Preferred", "Required", "Any"] = Field(
        default="Preferred",
        description="Whether prefill and decode replicas share a zone: preferred, required (refused so far), or of no "
        "interest.",
    )
