"""Where an engine finds the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.spec import SourceKind
from weft.engines.launch import ModelMount, MountKind

if TYPE_CHECKING:
    from weft.domain.spec import ModelSpec

MODEL_PATH = "/model"
CACHE_PATH = "/model-cache"
STREAMED_SCHEMES = ("s3://", "gs://")


def model_location(model: ModelSpec, engine: str, schemes: tuple[str, ...] = STREAMED_SCHEMES) -> str:
    """What an engine calls the model: a repository, a path inside the mounted volume, or a URI.

    Raises `Invalid` (FeatureUnsupported) for an object store whose scheme the engine does not stream from.
    """
    source = model.source
    if source is None:
        return model.model_id
    if source.kind in {SourceKind.PVC, SourceKind.Image}:
        return f"{MODEL_PATH}/{source.path}".rstrip("/")
    if source.kind is SourceKind.URI and not source.location.startswith(schemes):
        known = " and ".join(schemes)
        raise Invalid(
            Reason.FeatureUnsupported, f"{engine} streams weights from {known} only, not from {source.location}"
        )
    return source.location or model.model_id


def model_mount(model: ModelSpec) -> ModelMount | None:
    """The volume that carries the weights, or keeps them once they were downloaded, if there is one."""
    source = model.source
    if source is not None and source.cache is not None:
        return ModelMount(MountKind.PVC, source.cache, CACHE_PATH, writable=True)
    if source is not None and source.warm_up:
        return ModelMount(MountKind.EmptyDir, "", CACHE_PATH, writable=True)
    if source is None or source.kind not in {SourceKind.PVC, SourceKind.Image}:
        return None
    return ModelMount(MountKind(source.kind.value), source.location, MODEL_PATH, source.pull_policy)


def secrets_as_env(model: ModelSpec) -> tuple[str, ...]:
    """Secrets whose keys become environment variables: credentials of an object store."""
    source = model.source
    return (source.secret,) if source is not None and source.secret else ()


def needs_the_hub(model: ModelSpec) -> bool:
    """Whether anything has to be downloaded from Hugging Face: the weights or an adapter."""
    from_hub = model.source is None or model.source.kind is SourceKind.HuggingFace
    return from_hub or any(not where.startswith("/") for _, where in model.adapters)
