"""SGLang: flags, environment, probes and the router that belongs to it. It has run on one GPU alone (docs/gpu.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog.options import engine_options
from weft.domain.errors import Invalid
from weft.domain.workload import Role
from weft.engines.images.foreign import refuse_foreign_image
from weft.engines.images.nim import Engine, as_the_engine_sees_it, is_driven, nim_launch
from weft.engines.kv.disks import disk_bytes
from weft.engines.kv.host_memory import refuse_too_little_memory
from weft.engines.model.weights import model_mount, secrets_as_env
from weft.engines.options.batches import batch_arguments
from weft.engines.options.given import literally
from weft.engines.options.loading import refuse_another_loader
from weft.engines.options.rules import refuse_options
from weft.engines.options.unknown import unknown_options
from weft.engines.options.vllm_only import refuse_what_vllm_alone_does
from weft.engines.routers.balance import balance_arguments
from weft.engines.routers.discovery import discovery_arguments
from weft.engines.sglang import arguments, environment
from weft.engines.sglang.conflicts import (
    sglang_argument_conflict,
    sglang_env_conflict,
    sglang_prefix_conflict,
)
from weft.engines.sglang.failure import sglang_failure
from weft.engines.terms.launch import ContainerLaunch, EnvValue, HttpProbe, LeavesBy, NamedPort
from weft.engines.terms.sizing import (
    PROBE_SECONDS,
    UNROUTING_SECONDS,
    grace_seconds,
    shared_memory_bytes,
    startup_seconds,
)
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.engines.terms.launch import FrontRequest, LaunchRequest
    from weft.engines.terms.versions import Version

PORT = 30000
ROUTER_METRICS_PORT = 29000
BOOTSTRAP_ANNOTATION = "sglang.ai/bootstrap-port"
ANSWERS_READY: Version = (0, 5, 20)  # GET /ready
# Before it, `/health` generates a token, does not answer for a second, and gives up after this long.
HEALTH_SECONDS = 20
# The router notices that a pod stopped answering only by its own probes, a minute apart by default.
ROUTER_PROBE_SECONDS = 10


class SGLang:
    """The adapter of SGLang; see `EngineAdapter`.

    sglang-router 0.3.2 notices neither a removed label nor an unready pod: only being asked (ADR 0116), and that a
    ready pod is deleted.
    """

    leaves_front_by = LeavesBy.Asking
    pairs_in_its_image = False
    picks_by_load = False  # sglang-router 0.3.2 does (ADR 0117); not counted on yet
    picks_prefill_by_load = False  # sglang-router 0.3.2 does for one pool (ADR 0117); not tried for pairs
    counts_handover = True  # it streams the first token of a prefill half once the transfer has succeeded
    port = PORT

    def launch(self, request: LaunchRequest) -> ContainerLaunch:
        """`sglang.launch_server` for one rank; only the first pod of a replica takes requests.

        On SIGTERM the first pod waits for open requests without a limit of its own, so the grace period is the limit.
        The others know of none and end at once, so their pre-stop hooks keep them until the drain is over.
        """
        refuse_what_vllm_alone_does(request.spec, "SGLang")
        _refuse_conflicts(request)
        if is_driven(request.plan.engine):
            return _behind_a_proxy(request)
        leads = request.rank == 0
        drain_seconds = int(request.spec.rollout.drain_timeout_seconds)
        return ContainerLaunch(
            command=(
                *("python3", "-m", "sglang.launch_server"),
                *literally(arguments.weights(request)),
                *_flags(request),
                *("--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104 - a server in a pod of its own
                *literally(request.spec.engine.args),
            ),
            env=environment.variables(request),
            ports=_ports(request) if leads else (),
            pre_stop_seconds=UNROUTING_SECONDS + (0 if leads else drain_seconds),
            grace_seconds=grace_seconds(drain_seconds),
            startup=_startup_probe(request) if leads else None,
            readiness=_readiness_probe(request) if leads else None,
            shared_memory_bytes=shared_memory_bytes(request),
            model_mount=model_mount(request.spec.model),
            annotations=_annotations(request) if leads else (),
            secrets_as_env=secrets_as_env(request.spec.model),
            disk_bytes=disk_bytes(request.spec, request.plan.shape),
        )

    def front(self, request: FrontRequest) -> ContainerLaunch:
        """`sglang-router`, which discovers its engines by watching pods of the namespace.

        On SIGTERM it ends streams by itself, after three minutes if it is not told otherwise.
        """
        return ContainerLaunch(
            command=(
                *("python3", "-m", "sglang_router.launch_router"),
                *("--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104 - a server in a pod of its own
                *("--prometheus-host", "0.0.0.0", "--prometheus-port", str(ROUTER_METRICS_PORT)),  # noqa: S104 - as above
                *("--health-check-interval-secs", str(ROUTER_PROBE_SECONDS)),
                *("--shutdown-grace-period-secs", str(request.drain_seconds)),
                *balance_arguments(),
                *discovery_arguments(request, PORT, ("--pd-disaggregation",)),
            ),
            env=(EnvValue("HOME", "/tmp"),),  # noqa: S108 - a volume of the pod
            ports=(NamedPort("http", PORT), NamedPort("metrics", ROUTER_METRICS_PORT)),
            pre_stop_seconds=UNROUTING_SECONDS,
            grace_seconds=grace_seconds(request.drain_seconds),
            readiness=HttpProbe("/readiness", PORT, PROBE_SECONDS),
        )

    def argument_conflict(self, args: tuple[str, ...], shape: Shape) -> Explanation | None:
        return sglang_argument_conflict(args, shape)

    def unknown_arguments(self, args: tuple[str, ...], version: str) -> tuple[str, ...]:
        return unknown_options(args, engine_options("sglang_options.yaml"), version)

    def failure(self, text: str) -> Explanation | None:
        return sglang_failure(text)


def _flags(request: LaunchRequest) -> tuple[str, ...]:
    """Flags for the plan and the spec, without the weights and the address of the server."""
    return (
        *literally(arguments.model(request)),
        *arguments.parallel(request),
        *arguments.kv_cache(request),
        *arguments.kv_transfer(request),
        *literally(arguments.speculative(request)),
        *arguments.api_key(request),
        *arguments.metrics(request),
        *batch_arguments(request),
    )


def _behind_a_proxy(request: LaunchRequest) -> ContainerLaunch:
    """The container of the same engine inside a NIM, which starts it."""
    inside = as_the_engine_sees_it(request)
    kept = disk_bytes(request.spec, request.plan.shape)
    engine = Engine(_flags(inside), environment.variables(inside), shared_memory_bytes(request), kept)
    return nim_launch(request, engine, PORT)


def _refuse_conflicts(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first argument or variable that contradicts the plan."""
    spec, shape = request.spec, request.plan.shape
    refuse_foreign_image(request.plan.engine)
    conflict = sglang_argument_conflict(spec.engine.args, shape) or sglang_env_conflict(tuple(dict(spec.engine.env)))
    conflict = conflict or sglang_prefix_conflict(spec)
    if conflict is not None:
        raise Invalid(conflict.reason, conflict.message)
    refuse_another_loader(spec)
    refuse_options(request)
    refuse_too_little_memory(request)


def _ports(request: LaunchRequest) -> tuple[NamedPort, ...]:
    http = NamedPort("http", PORT)
    return (http, NamedPort("bootstrap", arguments.BOOTSTRAP_PORT)) if _prefills(request) else (http,)


def _annotations(request: LaunchRequest) -> tuple[tuple[str, str], ...]:
    """The annotation with the prefill pod's bootstrap port, where decode engines ask for KV; the router reads it."""
    return ((BOOTSTRAP_ANNOTATION, str(arguments.BOOTSTRAP_PORT)),) if _prefills(request) else ()


def _prefills(request: LaunchRequest) -> bool:
    return request.spec.role is Role.Prefill


def _startup_probe(request: LaunchRequest) -> HttpProbe:
    failures = startup_seconds(request) // PROBE_SECONDS
    return HttpProbe(_path(request), PORT, PROBE_SECONDS, failures=failures)


def _readiness_probe(request: LaunchRequest) -> HttpProbe:
    path = _path(request)
    return HttpProbe(path, PORT) if path == "/ready" else HttpProbe(path, PORT, timeout=HEALTH_SECONDS)


def _path(request: LaunchRequest) -> str:
    return "/ready" if parse_version(request.plan.engine.version) >= ANSWERS_READY else "/health"
