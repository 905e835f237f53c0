"""NVIDIA NIM for LLMs 2: a proxy before vLLM or SGLang, for any model or for one whose profile the user names.

From the documentation of 2.0.0 to 2.1.6 (ADR 0061, ADR 0099): arguments of `nim-serve` go to the engine and override
NIM's choices; the proxy serves `/v1/health/ready` and `/v1/metrics`, and answers 404 on the engines' own paths.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.errors import Invalid
from weft.domain.reasons import Explanation, Reason
from weft.domain.relaxations import RUNS_AS_ROOT, WRITES_ROOT
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.spec import Balancing, RouterKind, SourceKind
from weft.engines.images.nim_profiles import PROFILE, profile_conflict
from weft.engines.model.weights import model_location, model_mount
from weft.engines.options.given import given, literally
from weft.engines.terms.launch import ContainerLaunch, EnvValue, HttpProbe, ModelMount, MountKind, NamedPort
from weft.engines.terms.sizing import PROBE_SECONDS, UNROUTING_SECONDS, grace_seconds, startup_seconds
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs
    from weft.engines.terms.launch import LaunchRequest
    from weft.engines.terms.versions import Version

MODEL_FREE = "model-free-nim"  # NVIDIA's images that serve any model: vllm-model-free-nim, sglang-model-free-nim
OLDEST: Version = (2, 0, 10)  # before, NVIDIA's pages ask for an NGC key, whatever the model is
METRICS_PATH = "/v1/metrics"
_TOO_NEW: Version = (3, 0, 0)
_READY = "/v1/health/ready"
_ANSWER_SECONDS = 20  # SGLang generates a token to answer a health check
_CACHE = "/opt/nim/.cache"
_USER = 1000  # `nvs`, the owner of the image's folders
_FOLDER = "/nvcr.io/nim/"  # a registry, or a mirror that keeps its name in the path
_SIZES = {
    EngineName.VLLM: ("--tensor-parallel-size", "--pipeline-parallel-size"),
    EngineName.SGLang: ("--tp-size", "--pp-size"),
}
_ONE_RANK = {  # what the configuration of a profile may set, where the plan has one
    EngineName.VLLM: ("--data-parallel-size", "1"),
    EngineName.SGLang: ("--dp-size", "1"),
}
_ONE_EXPERT_GROUP = {EngineName.VLLM: ("--no-enable-expert-parallel",), EngineName.SGLang: ("--ep-size", "1")}
_PRODUCTION_BRANCH = re.compile(r"-pb\d")
_NGC_KEYS = frozenset({"NGC_API_KEY", "NGC_CLI_API_KEY"})
_KEYLESS = (
    "use an image without -pb in its name and tag; NGC_API_KEY in spec.engine.env does as well, where all who read the "
    "resource read it"
)
_INSTEAD = {
    "NIM_SERVER_PORT": "Weft sets it",
    "NIM_HEALTH_PORT": "Weft sets it",
    "NIM_MODEL_PATH": "use spec.model.id or spec.model.source",
    "NIM_CACHE_PATH": "use spec.model.source.huggingFace.cacheClaimName",
    "NIM_SERVED_MODEL_NAME": "use spec.model.servedNames",
    "NIM_MAX_MODEL_LEN": "use spec.model.maxModelLen",
    PROFILE: "use spec.shape",
    "NIM_TAGS_SELECTOR": "use spec.shape",
    "NIM_TENSOR_PARALLEL_SIZE": "use spec.shape.tensorParallel",
    "NIM_PIPELINE_PARALLEL_SIZE": "use spec.shape.pipelineParallel",
    "NIM_NUM_COMPUTE_NODES": "use spec.shape",
    "NIM_PASSTHROUGH_ARGS": "use spec.engine.args, where they can be checked",
    "NIM_SPECDEC_ARGS": "use spec.engine.speculative",
    "NIM_SPECDEC_ENABLE": "use spec.engine.speculative",
    "NIM_DRAFT_MODEL_PATH": "use spec.engine.speculative",
    "NIM_PEFT_SOURCE": "adapters are not supported in a NIM",
    "NIM_SSL_MODE": "probes and metrics speak plain HTTP inside the cluster",
}
_INSTEAD_FOR_ONE = {name: instead for name, instead in _INSTEAD.items() if name != PROFILE} | {
    "NIM_MODEL_PATH": "its profile decides which weights it has",
    "NIM_TAGS_SELECTOR": f"name one profile in {PROFILE}",
}


@dataclass(frozen=True, slots=True)
class Engine:
    """What the adapter of the engine behind the proxy decides: flags, variables, shared memory and disk in bytes."""

    flags: tuple[str, ...]
    env: tuple[EnvValue, ...]
    shared_memory_bytes: int
    disk_bytes: int


def is_nim(image: str) -> bool:
    """Whether the image's name says that it is a NIM, of any release."""
    return _FOLDER in f"/{image}" or MODEL_FREE in name_and_tag(image)[0]


def is_driven(release: EngineRelease) -> bool:
    """Whether Weft can make it follow a plan: a NIM of known release, for any model by this engine, or for one."""
    return _is_known(release) and (_is_model_free(release) or is_of_one_model(release))


def is_of_one_model(release: EngineRelease) -> bool:
    """Whether it is a NIM of known release for one model, told by its folder, that is run as vLLM or SGLang."""
    named = _FOLDER in f"/{release.image}" and MODEL_FREE not in name_and_tag(release.image)[0]
    return named and release.name in _SIZES and _is_known(release)


def as_the_engine_sees_it(request: LaunchRequest) -> LaunchRequest:
    """The request as the engine inside the NIM sees it: NIM downloads the model and gives the engine a folder.

    Weights of a profile are stored in its precision, so that the engine has nothing to make of them.
    """
    model = request.spec.model
    if is_of_one_model(request.plan.engine):
        request = replace(request, checkpoint=request.plan.shape.precision)
    if model.source is None:
        return request
    source = replace(model.source, revision=None, cache=None)
    return replace(request, spec=replace(request.spec, model=replace(model, source=source)))


def nim_launch(request: LaunchRequest, engine: Engine, port: int) -> ContainerLaunch:
    """The image's own entry point with the engine's flags, for a replica of one pod.

    What SIGTERM does to open requests is not documented, so the whole drain is in the pre-stop hook.
    """
    _refuse_what_a_nim_cannot(request)
    drain_seconds = int(request.spec.rollout.drain_timeout_seconds)
    failures = startup_seconds(request) // PROBE_SECONDS
    return ContainerLaunch(
        command=(),
        args=("nim-serve", *_sizes_of_one(request), *engine.flags, *literally(request.spec.engine.args)),
        env=(*engine.env, *_variables(request, port)),
        ports=(NamedPort("http", port),),
        pre_stop_seconds=UNROUTING_SECONDS + drain_seconds,
        grace_seconds=grace_seconds(drain_seconds),
        startup=HttpProbe(_READY, port, PROBE_SECONDS, failures=failures),
        readiness=HttpProbe(_READY, port, timeout=_ANSWER_SECONDS),
        shared_memory_bytes=engine.shared_memory_bytes,
        model_mount=_mount(request),
        disk_bytes=engine.disk_bytes,
        user=_USER,
    )


def nim_shape_conflict(image: str | None, env: Pairs, shape: Shape) -> Explanation | None:
    """Why a replica cannot run in a NIM, or None.

    Over several pods NIM uses its own Ray, it is made for CUDA, and one of one model has the sizes of its profile.
    """
    if image is None or not is_nim(image):
        return None
    if is_of_one_model(EngineRelease(shape.engine, "", image)):
        named = dict(env).get(PROFILE)
        if (other := profile_conflict(named, shape)) is not None:  # first, as it may be true of all shapes
            return other
    if shape.pods > 1:
        message = (
            f"a NIM ({image}) over {shape.pods} pods is not supported; allowed: one pod, or another spec.engine.image"
        )
        return Explanation(Reason.EngineUnsupported, message)
    if load().accelerator(shape.accelerator).vendor != "nvidia":
        message = (
            f"a NIM ({image}) runs on GPUs of NVIDIA, not on {shape.accelerator}; allowed: another spec.engine.image"
        )
        return Explanation(Reason.EngineUnsupported, message)
    return None


def _is_known(release: EngineRelease) -> bool:
    tag = name_and_tag(release.image)[1]
    return tag[:1].isdigit() and OLDEST <= parse_version(tag) < _TOO_NEW


def _is_model_free(release: EngineRelease) -> bool:
    return name_and_tag(release.image)[0].startswith(f"{release.name.value.lower()}-{MODEL_FREE}")


def _refuse_what_a_nim_cannot(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first field that a NIM does not support, with what is allowed."""
    unfit = nim_shape_conflict(request.plan.engine.image, request.spec.engine.env, request.plan.shape)
    if unfit is not None:
        raise Invalid(unfit.reason, unfit.message)
    for wrong, field, allowed in (*_model_claims(request), *_pool_claims(request), *_pod_claims(request)):
        if wrong:
            raise Invalid(Reason.FeatureUnsupported, f"{field} is not supported in a NIM: {allowed}")
    instead: Mapping[str, str] = _INSTEAD_FOR_ONE if is_of_one_model(request.plan.engine) else _INSTEAD
    if given(request.spec.engine.args, "--host"):
        message = (
            "spec.engine.args may not contain --host in a NIM: requests come to its proxy, where that does not reach"
        )
        raise Invalid(Reason.ArgumentConflict, message)
    taken = next((name for name, _ in request.spec.engine.env if name in instead), None)
    if taken is not None:
        raise Invalid(Reason.ArgumentConflict, f"spec.engine.env may not set {taken}: {instead[taken]}")


def _model_claims(request: LaunchRequest) -> Iterator[tuple[bool, str, str]]:
    model = request.spec.model
    uri = model.source is not None and model.source.kind is SourceKind.URI
    yield uri, "spec.model.source.uri", "use huggingFace, pvc or image"
    warm = model.source is not None and model.source.warm_up
    yield warm, "spec.model.source.huggingFace.warmUp", "remove it, as it downloads itself; cacheClaimName keeps that"
    yield bool(model.adapters), "spec.model.adapters", "remove it, or use an image of the engine itself"
    if is_of_one_model(request.plan.engine):
        yield from _weights_claims(request)
    yield _needs_a_key(request), "a production branch that downloads, without a key of NGC,", _KEYLESS


def _weights_claims(request: LaunchRequest) -> Iterator[tuple[bool, str, str]]:
    """Refuse weights of the user's where the profile decides which are served; a token and a claim may be named."""
    model = request.spec.model
    if model.source is None:
        return
    kind, instead = model.source.kind, "remove it, as the profile decides which weights a NIM of one model has"
    mounted = kind in {SourceKind.PVC, SourceKind.Image}
    yield mounted, f"spec.model.source.{kind.value.lower()}", f"{instead}; huggingFace.cacheClaimName keeps them"
    elsewhere = model.source.location not in {"", model.model_id}
    yield elsewhere, "spec.model.source.huggingFace.repository", instead
    yield model.source.revision is not None, "spec.model.source.huggingFace.revision", instead


def _needs_a_key(request: LaunchRequest) -> bool:
    """Whether it is a production branch that downloads and has no key: it would not start (pages of 2.1.5-pb7)."""
    source, release = request.spec.model.source, request.plan.engine
    downloads = source is None or source.kind is SourceKind.HuggingFace
    branch = _PRODUCTION_BRANCH.search(":".join(name_and_tag(release.image))) is not None
    return branch and downloads and _NGC_KEYS.isdisjoint(dict(request.spec.engine.env))


def _pool_claims(request: LaunchRequest) -> Iterator[tuple[bool, str, str]]:
    spec, plain = request.spec, "use an image of the engine itself"
    yield (
        spec.engine.version is None,
        "spec.engine.image without spec.engine.version",
        "say which release of the engine it has",
    )
    yield spec.role.is_half, f"role {spec.role.value}", f"use Aggregated, or {plain[4:]}"
    yield spec.engine.distributed != "Native", f"spec.engine.distributed {spec.engine.distributed}", "use Native"
    several = spec.balancing is not Balancing.Internal
    yield several, f"spec.shape.dataParallelBalancing {spec.balancing.value}", "use Internal"
    managed = spec.router.kind is RouterKind.Managed
    yield (
        managed,
        "spec.router.type Managed",
        "use None or Gateway, as routers ask for /health, where its proxy has nothing",
    )
    asks_for_keys = spec.router.api_key_secret is not None
    yield asks_for_keys, "spec.router.apiKeySecretRef", "remove it, as its proxy may ask the engine without the key"


def _pod_claims(request: LaunchRequest) -> Iterator[tuple[bool, str, str]]:
    relaxations = request.spec.pod.relaxations
    sealed = WRITES_ROOT not in relaxations
    yield sealed, "a read-only root", f"add {WRITES_ROOT} to spec.pod.relaxations, as it writes into its own image"
    yield RUNS_AS_ROOT in relaxations, f"spec.pod.relaxations {RUNS_AS_ROOT}", "remove it, as it runs as its own user"


def _sizes_of_one(request: LaunchRequest) -> tuple[str, ...]:
    """Sizes of 1, which engines default to, but NIM would take from a profile, or from what comes with one."""
    shape = request.plan.shape
    tensor, stages = _SIZES[shape.engine]
    group = shape.tensor_parallel * (shape.data_parallel if shape.engine is EngineName.SGLang else 1)
    of_one_model = is_of_one_model(request.plan.engine)
    return (
        *((tensor, "1") if group == 1 else ()),
        *((stages, "1") if shape.pipeline_parallel == 1 else ()),
        *(_ONE_RANK[shape.engine] if of_one_model else ()),
        *(_ONE_EXPERT_GROUP[shape.engine] if of_one_model and shape.expert_parallel == 1 else ()),
    )


def _variables(request: LaunchRequest, port: int) -> tuple[EnvValue, ...]:
    """Variables of the proxy; health is served on the port of requests, whichever port the image has for it."""
    ports = (EnvValue(name, str(port)) for name in ("NIM_SERVER_PORT", "NIM_HEALTH_PORT"))
    if is_of_one_model(request.plan.engine):
        return tuple(ports)
    return (*ports, EnvValue("NIM_MODEL_PATH", _model_path(request)))


def _model_path(request: LaunchRequest) -> str:
    """The model for NIM: a folder of the pod, or a repository at a revision."""
    location, source = model_location(request), request.spec.model.source
    if location.startswith("/"):
        return location
    revision = source.revision if source is not None else None
    return f"hf://{location}:{revision}" if revision else f"hf://{location}"


def _mount(request: LaunchRequest) -> ModelMount:
    """The volume with the weights, or one for downloads, on a claim if the source names one."""
    found = model_mount(request.spec.model)
    if found is None:
        return ModelMount(MountKind.EmptyDir, "", _CACHE, writable=True)
    return replace(found, path=_CACHE) if found.writable else found


def name_and_tag(image: str) -> tuple[str, str]:
    """The last part of an image reference's path, and its tag, which may be empty."""
    name, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    return name, tag
