"""Where an engine finds the model weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import SourceKind
from weft.engines.model.speculative import speculative_wish
from weft.engines.terms.launch import ModelMount, MountKind

if TYPE_CHECKING:
    from weft.domain.spec import ModelSource, ModelSpec, PoolSpec
    from weft.engines.terms.launch import LaunchRequest

MODEL_PATH = "/model"
CACHE_PATH = "/model-cache"
_NAMES = {EngineName.VLLM: "vLLM", EngineName.SGLang: "SGLang", EngineName.TensorRTLLM: "TensorRT-LLM"}
_AZURE_ACCOUNTS = frozenset({"AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CONNECTION_STRING"})


def model_location(request: LaunchRequest) -> str:
    """The model argument of an engine: a repository, a path inside the mounted volume, or a URI.

    Raises `Invalid` for an object store that the release cannot stream from, or that lacks its account.
    """
    model = request.spec.model
    source = model.source
    if source is None:
        return model.model_id
    if source.kind in {SourceKind.PVC, SourceKind.Image}:
        return f"{MODEL_PATH}/{source.path}".rstrip("/")
    if source.kind is SourceKind.URI:
        _refuse_store(request, source)
    return source.location or model.model_id


def _refuse_store(request: LaunchRequest, source: ModelSource) -> None:
    release, scheme = request.plan.engine, source.location.partition("://")[0]
    streams = dict(load().engine(release.name).limits.streams)
    named = f"{_NAMES[release.name]} {release.version}"
    if scheme not in streams:
        known = ", ".join(f"{each}://" for each in streams)
        message = f"{named} streams no weights from {source.location}: use {known}, or another source"
        raise Invalid(Reason.FeatureUnsupported, message)
    if not streams[scheme].include(release.version):
        message = f"{named} streams no weights from {scheme}://: use {streams[scheme]}, or another source"
        raise Invalid(Reason.FeatureUnsupported, message)
    if scheme == "az" and source.secret is None and _AZURE_ACCOUNTS.isdisjoint(dict(request.spec.engine.env)):
        message = (
            "spec.model.source.uri az:// needs the name of a storage account: put "
            "AZURE_STORAGE_ACCOUNT_NAME into a Secret "
            "that spec.model.source.uri.secretRef names, or into spec.engine.env"
        )
        raise Invalid(Reason.SpecInvalid, message)


def model_mount(model: ModelSpec) -> ModelMount | None:
    """The volume with the weights, or for their download; None if there is none."""
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


def needs_the_hub(spec: PoolSpec) -> bool:
    """Whether anything has to be downloaded from Hugging Face: the weights, an adapter or a drafting model."""
    source, drafts = spec.model.source, speculative_wish(spec.engine.speculative_json)
    if source is None or source.kind is SourceKind.HuggingFace:
        return True
    beside = (*(where for _, where in spec.model.adapters), *((drafts.model,) if drafts and drafts.model else ()))
    return any(not where.startswith("/") for where in beside)
