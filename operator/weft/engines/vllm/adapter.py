"""vLLM: flags, environment, probes and the router that belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog.options import engine_options
from weft.domain.errors import Invalid
from weft.domain.spec import Balancing
from weft.domain.workload import Role
from weft.engines.images.foreign import refuse_foreign_image
from weft.engines.images.nim import Engine, as_the_engine_sees_it, is_driven, nim_launch
from weft.engines.kv.disks import disk_bytes
from weft.engines.kv.host_memory import memory_for_vllm, refuse_too_little_memory
from weft.engines.kv.nvlink import nvlink_arguments
from weft.engines.model.speculative import refuse_drafting
from weft.engines.model.weights import model_location, model_mount, secrets_as_env
from weft.engines.options.batches import batch_arguments
from weft.engines.options.given import literally
from weft.engines.options.loading import refuse_another_loader
from weft.engines.options.rules import refuse_options
from weft.engines.options.unknown import unknown_options
from weft.engines.routers.vllm_router import vllm_router
from weft.engines.terms.launch import ContainerLaunch, HttpProbe, LeavesBy, NamedPort
from weft.engines.terms.sizing import (
    PROBE_SECONDS,
    grace_seconds,
    startup_seconds,
    still_chosen_seconds,
)
from weft.engines.terms.versions import parse_version
from weft.engines.vllm import arguments, balancing, connectors, environment, ray
from weft.engines.vllm.conflicts import (
    vllm_argument_conflict,
    vllm_batch_conflict,
    vllm_env_conflict,
    vllm_prefix_conflict,
)
from weft.engines.vllm.failure import vllm_failure
from weft.engines.vllm.lmcache import refuse_adapters_beside_lmcache

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.engines.terms.launch import FrontRequest, LaunchRequest
    from weft.engines.terms.versions import Version

PORT = 8000
DRAINS_ITSELF: Version = (0, 18, 1)  # --shutdown-timeout
_LEVEL = "-O"  # -O3 and the like, which vLLM expands before argparse sees them


class VLLM:
    """The adapter of vLLM; see `EngineAdapter`."""

    leaves_front_by = LeavesBy.Label
    pairs_in_its_image = False
    picks_by_load = True  # as vllm-router 0.1.17 does (ADR 0113, 0117)
    picks_prefill_by_load = True  # as vllm-router 0.1.17 does (ADR 0113)
    counts_handover = False
    port = PORT

    def launch(self, request: LaunchRequest) -> ContainerLaunch:
        """`vllm serve` for one pod of a replica; a pod that takes no requests has no probes.

        If every pod takes requests, all serve until the drain is over: their ranks execute each step together.
        """
        version = parse_version(request.plan.engine.version)
        _refuse_conflicts(request)
        if is_driven(request.plan.engine):
            return _behind_a_proxy(request)
        servers, together = balancing.api_servers(request), request.balancing is not Balancing.Internal
        ready_seconds = startup_seconds(request)
        drain_seconds = int(request.spec.rollout.drain_timeout_seconds)
        drains_itself = version >= DRAINS_ITSELF and not together  # a rank that ended early would stop the others
        chosen_seconds = still_chosen_seconds(request.spec.role)
        helps = request.rank > 0 and not servers  # it ends at SIGTERM at once, and all that the first pod answers
        server = _server(request, drain_seconds if drains_itself else None)
        return ContainerLaunch(
            command=ray.command(request, server, ready_seconds),
            env=environment.variables(request, ready_seconds),
            ports=_ports(request, servers) if servers else (),
            pre_stop_seconds=chosen_seconds if drains_itself and not helps else chosen_seconds + drain_seconds,
            grace_seconds=grace_seconds(drain_seconds, chosen_seconds),
            startup=_startup_probe(request, ready_seconds) if servers else None,
            readiness=_readiness_probe(request) if servers else None,
            shared_memory_bytes=memory_for_vllm(request),
            model_mount=model_mount(request.spec.model),
            secrets_as_env=secrets_as_env(request.spec.model),
            api_servers=servers if together else None,
            disk_bytes=disk_bytes(request.spec, request.plan.shape),
        )

    def front(self, request: FrontRequest) -> ContainerLaunch:
        """`vllm-router`, for one pool or a pair."""
        return vllm_router(request, PORT)

    def argument_conflict(self, args: tuple[str, ...], shape: Shape) -> Explanation | None:
        return vllm_argument_conflict(args, shape)

    def unknown_arguments(self, args: tuple[str, ...], version: str) -> tuple[str, ...]:
        named = tuple(each for each in args if not each.startswith(_LEVEL))
        return unknown_options(named, engine_options("vllm_options.yaml"), version)

    def failure(self, text: str) -> Explanation | None:
        return vllm_failure(text)


def _server(request: LaunchRequest, drain_seconds: int | None) -> tuple[str, ...]:
    """`vllm serve`; with `drain_seconds` it drains by itself for that long, else the pre-stop hook does."""
    flags = _flags(request)
    return (
        "vllm",
        "serve",
        *literally((model_location(request),)),
        *flags,
        *(("--shutdown-timeout", str(drain_seconds)) if drain_seconds is not None else ()),
        "--port",
        str(PORT),
        *literally(balancing.asked_of_this_pod(request.spec.engine.args, flags)),
    )


def _flags(request: LaunchRequest) -> tuple[str, ...]:
    """Flags for the plan and the spec, without the address of the server and its shutdown."""
    return (
        *literally(arguments.model(request)),
        *arguments.parallel(request),
        *arguments.kv_cache(request),
        *connectors.kv_transfer(request),
        *nvlink_arguments(request),
        *literally(arguments.speculative(request.spec.engine.speculative_json)),
        *batch_arguments(request),
    )


def _behind_a_proxy(request: LaunchRequest) -> ContainerLaunch:
    """The container of the same engine inside a NIM, which starts it."""
    inside, ready_seconds = as_the_engine_sees_it(request), startup_seconds(request)
    variables, disk = environment.variables(inside, ready_seconds), disk_bytes(request.spec, request.plan.shape)
    engine = Engine(_flags(inside), variables, memory_for_vllm(request), disk)
    return nim_launch(request, engine, PORT)


def _startup_probe(request: LaunchRequest, ready_seconds: int) -> HttpProbe:
    return HttpProbe("/health", _probed(request), PROBE_SECONDS, failures=ready_seconds // PROBE_SECONDS)


def _readiness_probe(request: LaunchRequest) -> HttpProbe:
    return HttpProbe("/health", _probed(request))


def _probed(request: LaunchRequest) -> int:
    """The port to probe: with a server per port only their supervisor knows whether all are healthy."""
    return balancing.SUPERVISOR_PORT if request.balancing is Balancing.MultiPort else PORT


def _refuse_conflicts(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first argument or variable that contradicts the plan."""
    spec, shape = request.spec, request.plan.shape
    refuse_foreign_image(request.plan.engine)
    ray.refuse_what_cannot_run_on_ray(request)
    balancing.refuse_what_cannot_be_balanced(request)
    conflict = vllm_argument_conflict(spec.engine.args, shape) or vllm_env_conflict(tuple(dict(spec.engine.env)))
    conflict = conflict or vllm_prefix_conflict(spec) or vllm_batch_conflict(spec)
    if conflict is not None:
        raise Invalid(conflict.reason, conflict.message)
    refuse_another_loader(spec)
    refuse_options(request)
    refuse_drafting(request)
    refuse_adapters_beside_lmcache(spec)
    refuse_too_little_memory(request)


def _ports(request: LaunchRequest, servers: int) -> tuple[NamedPort, ...]:
    http = NamedPort("http", PORT)
    if servers > 1:  # which no half of a split has
        return (http, *(NamedPort(f"http-{rank}", PORT + rank) for rank in range(1, servers)))
    if connectors.uses_mooncake(request):
        gives = request.spec.role is Role.Prefill
        return (http, NamedPort("mooncake", environment.MOONCAKE_PORT)) if gives else (http,)
    return (http, NamedPort("nixl", environment.NIXL_PORT)) if request.spec.role.is_half else (http,)
