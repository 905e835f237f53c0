"""`spec.model`: which model, where its weights are, and its architecture where the catalog lacks it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from weft.api.fields import (
    ATOMIC_MAP,
    BY_NAME,
    EACH_ONCE,
    MAX_TOKENS,
    SET,
    ImageReference,
    KeyName,
    LocalRef,
    ObjectName,
    Precision,
    SecretKeyRef,
    described,
)
from weft.api.patterns import ADAPTER, NO_OPTION, NO_SPACE, NO_SPACE_OR_NOTHING, OBJECT_STORE
from weft.api.rules import ApiModel, Rule, exactly_one_of

RepositoryName = Annotated[str, Field(min_length=1, max_length=256, pattern=NO_SPACE)]
ServedName = Annotated[str, Field(min_length=1, max_length=256, pattern=NO_OPTION)]
# Relative and without `..`, so that a path never leaves the volume it is in.
VolumePath = Annotated[str, Field(max_length=1024, pattern=NO_SPACE_OR_NOTHING)]


class HuggingFaceSource(ApiModel):
    """Weights in a Hugging Face repository, downloaded by the engine."""

    repository: Annotated[str, Field(min_length=1, max_length=256, pattern=NO_OPTION)] | None = described(
        "Repository such as meta-llama/Llama-3.1-8B-Instruct. Unset: model.id."
    )
    revision: Annotated[str, Field(min_length=1, max_length=128, pattern=NO_OPTION)] | None = described(
        "Branch, tag or commit. Pin a commit, so that every replica serves the same weights. Unset: the default branch."
    )
    token_secret_ref: SecretKeyRef | None = described(
        "Access token for gated repositories; handed to the engine as HF_TOKEN.", **ATOMIC_MAP
    )
    cache_claim_name: ObjectName | None = described(
        "PersistentVolumeClaim that keeps downloads for all replicas. Unset: each pod downloads."
    )
    warm_up: bool = Field(
        default=False,
        description="Download before the engine starts, in an init container that tells how far it is.",
    )


class PvcSource(ApiModel):
    """Weights on a PersistentVolumeClaim, mounted read-only."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.path) || (!self.path.startsWith('/') && !self.path.split('/').exists(part, part == '..'))",
            message="path must be relative to the volume's root and must not contain '..'",
            holds=lambda pvc: not pvc.path.startswith("/") and ".." not in pvc.path.split("/"),
        ),
    )

    claim_name: ObjectName = Field(description="Name of the claim, in this namespace.")
    path: VolumePath = Field(default="", description="Folder of the model, relative to the volume's root.")


class ImageSource(ApiModel):
    """Weights in an OCI image, mounted read-only as an image volume."""

    reference: ImageReference = Field(description="Image reference; prefer a digest.")
    pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = described(
        "When to pull the image. Unset: what Kubernetes does (Always for :latest, else IfNotPresent)."
    )


class UriSource(ApiModel):
    """Weights in an object store that the engine reads itself."""

    uri: Annotated[str, Field(max_length=1024, pattern=OBJECT_STORE)] = Field(
        description="URI such as s3://bucket/path; schemes s3, gs, az and oss."
    )
    secret_ref: LocalRef | None = described(
        "Secret whose keys become environment variables of the engine (the store's credentials).", **ATOMIC_MAP
    )


class Source(ApiModel):
    """Where the weights are: exactly one kind."""

    rules: ClassVar[tuple[Rule, ...]] = (exactly_one_of("model.source", "huggingFace", "pvc", "image", "uri"),)

    hugging_face: HuggingFaceSource | None = described("A Hugging Face repository.")
    pvc: PvcSource | None = described("A PersistentVolumeClaim.")
    image: ImageSource | None = described("An OCI image, mounted as an image volume.")
    uri: UriSource | None = described("An object store.")


class ConfigMapKeyRef(ApiModel):
    """One key of a ConfigMap in the same namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap, in this namespace.")
    key: KeyName = Field(default="config.json", description="Key inside the ConfigMap.")


class ModelConfig(ApiModel):
    """The architecture of a model that the catalog does not know: exactly one of these."""

    rules: ClassVar[tuple[Rule, ...]] = (exactly_one_of("model.config", "inline", "configMapRef"),)

    inline: dict[str, Any] | None = described(
        "Content of the model's config.json.", **{"x-kubernetes-preserve-unknown-fields": True}
    )
    config_map_ref: ConfigMapKeyRef | None = described("ConfigMap that holds the model's config.json.")


class Adapter(ApiModel):
    """A LoRA adapter that every replica loads."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=ADAPTER)] = Field(
        description="Name under which requests choose it."
    )
    source: RepositoryName = Field(
        description="Hugging Face repository, or an absolute path in the engine's container."
    )
    rank: Annotated[int, Field(ge=1, le=512)] | None = described("Its LoRA rank. Unset: 16 or less.")


class Model(ApiModel):
    """The model to serve."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.id) || !self.id.startsWith('-')",
            message="model.id must not start with '-'",
            holds=lambda model: not model.id.startswith("-"),
        ),
        Rule(
            cel="!has(self.precision) || !has(self.precisions) || self.precisions.size() == 0",
            message="model.precision and model.precisions exclude each other: one fixes what the other leaves open",
            holds=lambda model: model.precision is None or not model.precisions,
        ),
    )

    id: RepositoryName = Field(
        description="Name that the catalog and Hugging Face know, such as meta-llama/Llama-3.1-8B-Instruct."
    )
    served_names: Annotated[list[ServedName], EACH_ONCE] = Field(
        default_factory=list,
        max_length=16,
        description="Names that requests may use. Unset: model.id.",
        json_schema_extra=SET,
    )
    source: Source | None = described("Where the weights are. Unset: the Hugging Face repository named by model.id.")
    config: ModelConfig | None = described(
        "The architecture of a model that the catalog does not know. Weft never fetches one itself."
    )
    precision: Precision | None = described("Precision of the weights. Unset: that of the published checkpoint.")
    precisions: Annotated[list[Precision], EACH_ONCE] = Field(
        default_factory=list,
        max_length=7,
        description="Precisions to choose from, where the engine can store the weights so. Unset: the checkpoint's.",
        json_schema_extra=SET,
    )
    max_model_len: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = described(
        "Longest context in tokens, prompt and answer together. Unset: what the model allows."
    )
    adapters: Annotated[list[Adapter], EACH_ONCE] = Field(
        default_factory=list,
        max_length=64,
        description="LoRA adapters that every replica loads.",
        json_schema_extra=BY_NAME,
    )
