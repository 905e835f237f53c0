"""vLLM: flags, environment, probes and the router that belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog.options import engine_options
from weft.domain.errors import Invalid
from weft.domain.units import parse_quantity
from weft.domain.workload import Role
from weft.engines import vllm_arguments as arguments
from weft.engines import vllm_connectors as connectors
from weft.engines import vllm_environment as environment
from weft.engines.launch import ContainerLaunch, EnvValue, HttpProbe, NamedPort
from weft.engines.unknown_options import unknown_options
from weft.engines.versions import parse_version
from weft.engines.vllm_conflicts import vllm_argument_conflict, vllm_env_conflict, vllm_prefix_conflict
from weft.engines.vllm_failure import vllm_failure
from weft.engines.vllm_model import model_location, model_mount, secrets_as_env

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.engines.launch import FrontRequest, LaunchRequest
    from weft.engines.versions import Version

PORT = 8000
ROUTER_METRICS_PORT = 29000
# Endpoints, kube-proxy and routers need a few seconds to stop choosing a pod whose deletion began.
UNROUTING_SECONDS = 5
MARGIN_SECONDS = 5
DRAINS_ITSELF: Version = (0, 18, 1)  # --shutdown-timeout
# Weights come from a network; what loads faster loses nothing by a longer limit.
LOAD_BYTES_PER_SECOND = 250e6
STARTUP_SECONDS = 600
PROBE_SECONDS = 5
SHARED_MEMORY_BYTES_PER_GPU = 2 * 1024**3
_LEVEL = "-O"  # -O3 and the like, which vLLM writes out before argparse sees them


class VLLM:
    """The adapter of vLLM; see `EngineAdapter`."""

    def launch(self, request: LaunchRequest) -> ContainerLaunch:
        """`vllm serve` for one rank; workers of a replica with several pods answer no requests and have no probes."""
        version = parse_version(request.plan.engine.version)
        _refuse_conflicts(request)
        leads = request.rank == 0
        ready_seconds = startup_seconds(request.weight_bytes)
        drain_seconds = int(request.spec.rollout.drain_timeout_seconds)
        drains_itself = version >= DRAINS_ITSELF
        pre_stop = UNROUTING_SECONDS if drains_itself else UNROUTING_SECONDS + drain_seconds
        return ContainerLaunch(
            command=(
                "vllm",
                "serve",
                model_location(request.spec.model),
                *arguments.model(request),
                *arguments.parallel(request),
                *arguments.kv_cache(request),
                *connectors.kv_transfer(request),
                *arguments.speculative(request.spec.engine.speculative_json),
                *(("--shutdown-timeout", str(drain_seconds)) if drains_itself else ()),
                "--port",
                str(PORT),
                *request.spec.engine.args,
            ),
            env=environment.variables(request, ready_seconds),
            ports=_ports(request) if leads else (),
            pre_stop_seconds=pre_stop,
            grace_seconds=UNROUTING_SECONDS + drain_seconds + MARGIN_SECONDS,
            startup=_startup_probe(ready_seconds) if leads else None,
            readiness=HttpProbe("/health", PORT) if leads else None,
            shared_memory_bytes=_shared_memory_bytes(request),
            model_mount=model_mount(request.spec.model),
            secrets_as_env=secrets_as_env(request.spec.model),
        )

    def front(self, request: FrontRequest) -> ContainerLaunch:
        """`vllm-router`, which finds its engines by watching pods of the namespace."""
        return ContainerLaunch(
            command=(
                "vllm-router",
                *("--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104 - a server in a pod of its own
                *("--prometheus-host", "0.0.0.0", "--prometheus-port", str(ROUTER_METRICS_PORT)),  # noqa: S104 - as above
                *("--service-discovery", "--service-discovery-port", str(PORT)),
                *("--service-discovery-namespace", request.namespace),
                *_selectors(request),
            ),
            env=(EnvValue("HOME", "/tmp"),),  # noqa: S108 - a volume of the pod
            ports=(NamedPort("http", PORT), NamedPort("metrics", ROUTER_METRICS_PORT)),
            pre_stop_seconds=UNROUTING_SECONDS,
            grace_seconds=UNROUTING_SECONDS + request.drain_seconds,
            readiness=HttpProbe("/readiness", PORT, PROBE_SECONDS),
        )

    def argument_conflict(self, args: tuple[str, ...], shape: Shape) -> Explanation | None:
        return vllm_argument_conflict(args, shape)

    def unknown_arguments(self, args: tuple[str, ...], version: str) -> tuple[str, ...]:
        named = tuple(each for each in args if not each.startswith(_LEVEL))
        return unknown_options(named, engine_options("vllm_options.yaml"), version)

    def failure(self, text: str) -> Explanation | None:
        return vllm_failure(text)


def startup_seconds(weight_bytes: float) -> int:
    """How long a start may take: a fixed part (images are pulled before it) and loading at a slow network's speed."""
    return STARTUP_SECONDS + int(weight_bytes / LOAD_BYTES_PER_SECOND)


def _startup_probe(ready_seconds: int) -> HttpProbe:
    return HttpProbe("/health", PORT, PROBE_SECONDS, failures=ready_seconds // PROBE_SECONDS)


def _refuse_conflicts(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first argument or variable that contradicts the plan."""
    spec, shape = request.spec, request.plan.shape
    conflict = vllm_argument_conflict(spec.engine.args, shape) or vllm_env_conflict(tuple(dict(spec.engine.env)))
    conflict = conflict or vllm_prefix_conflict(spec)
    if conflict is not None:
        raise Invalid(conflict.reason, conflict.message)


def _ports(request: LaunchRequest) -> tuple[NamedPort, ...]:
    http = NamedPort("http", PORT)
    if connectors.uses_mooncake(request):
        gives = request.spec.role is Role.Prefill
        return (http, NamedPort("mooncake", environment.MOONCAKE_PORT)) if gives else (http,)
    return (http, NamedPort("nixl", environment.NIXL_PORT)) if arguments.moves_kv(request) else (http,)


def _shared_memory_bytes(request: LaunchRequest) -> int:
    """What the user says, or room for the ranks' message queues and NCCL buffers."""
    wish = request.spec.engine.shared_memory
    if wish is not None:
        return int(parse_quantity(wish))
    return SHARED_MEMORY_BYTES_PER_GPU * request.plan.shape.gpus_per_pod


def _selectors(request: FrontRequest) -> tuple[str, ...]:
    chosen = tuple(f"{key}={value}" for key, value in request.prefill_or_all)
    if not request.decode:
        return ("--selector", *chosen)
    decode = tuple(f"{key}={value}" for key, value in request.decode)
    pairing = ("--vllm-pd-disaggregation", "--kv-connector", "nixl")
    return (*pairing, "--prefill-selector", *chosen, "--decode-selector", *decode)
