"""Data-parallel ranks of vLLM: where they meet, and which pods and ports take requests for them (ADR 0037).

Read from `vllm/engine/arg_utils.py`, `vllm/v1/engine/core_client.py` and
`vllm/entrypoints/launchers/dp_supervisor.py` of 0.33.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.spec import Balancing
from weft.domain.texts.figures import counted
from weft.engines.options.given import given, spelled_out, without
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.engines.terms.launch import LaunchRequest
    from weft.engines.terms.versions import Version

RPC_PORT = 29550
SUPERVISOR_PORT = 9256
SERVES_AT_SEVERAL_PORTS: Version = (0, 22, 1)
API_SERVERS = ("--api-server-count", "-asc")


def data_parallel(request: LaunchRequest) -> tuple[str, ...]:
    """Arguments for ranks behind one endpoint, or one per pod or rank; raises `Invalid` if a rank fits no pod."""
    shape = request.plan.shape
    if shape.ranks_per_pod < 1:
        raise Invalid(
            Reason.ShapeInvalid,
            f"{shape}: one data-parallel rank does not fit a pod of {counted(shape.gpus_per_pod, 'GPU')}",
        )
    size, local = ("--data-parallel-size", str(shape.data_parallel)), str(shape.ranks_per_pod)
    sizes, start = (*size, "--data-parallel-size-local", local), str(request.rank * shape.ranks_per_pod)
    match request.balancing:
        case Balancing.External:
            return (*size, "--data-parallel-rank", start, *_meeting(request))
        case Balancing.Hybrid:
            own = ("--data-parallel-hybrid-lb", "--data-parallel-start-rank", start)
            return (*sizes, *own, *_meeting(request))
        case Balancing.MultiPort:
            own = ("--data-parallel-multi-port-external-lb", "--data-parallel-start-rank", start)
            return (*sizes, *own, *_meeting(request))
        case Balancing.Internal if request.rank > 0:
            return ("--headless", *sizes, "--data-parallel-start-rank", start, *_meeting(request))
        case _:
            return (*sizes, *_meeting(request))


def api_servers(request: LaunchRequest) -> int:
    """How many API servers this pod has, on consecutive ports; 0 for a pod that takes no requests."""
    match request.balancing:
        case Balancing.MultiPort:
            return request.plan.shape.ranks_per_pod
        case Balancing.Hybrid | Balancing.External:
            return 1
        case Balancing.Internal:
            return int(request.rank == 0)


def asked_of_this_pod(args: tuple[str, ...], flags: Sequence[str]) -> tuple[str, ...]:
    """The user's arguments for a pod with these flags: a headless one ends where any API server is asked of it."""
    if "--headless" not in flags:
        return args
    name, short = API_SERVERS
    return without(spelled_out(args, name, len("--api-")), name, short)


def refuse_what_cannot_be_balanced(request: LaunchRequest) -> None:
    """Raise `Invalid` for releases and arguments that vLLM does not support with this kind of balancing."""
    found, version = request.balancing, request.plan.engine.version
    field = f"spec.shape.dataParallelBalancing {found.value}"
    if found is Balancing.Internal:
        return
    if given(request.spec.engine.args, "--enable-elastic-ep") == "true":
        message = (
            f"spec.engine.args may not contain --enable-elastic-ep beside {field}: vLLM takes it for Internal only"
        )
        raise Invalid(Reason.ArgumentConflict, message)
    if found is not Balancing.MultiPort:
        return
    if parse_version(version) < SERVES_AT_SEVERAL_PORTS:
        oldest = ".".join(map(str, SERVES_AT_SEVERAL_PORTS))
        message = f"version {version} does not know {field}; allowed: {oldest} or later, or Hybrid or External"
        raise Invalid(Reason.EngineUnsupported, message)
    counts = {given(request.spec.engine.args, flag) for flag in API_SERVERS}
    if not counts <= {"", "1"}:
        message = f"spec.engine.args may not contain --api-server-count beside {field}, where each rank has one server"
        raise Invalid(Reason.ArgumentConflict, message)


def _meeting(request: LaunchRequest) -> tuple[str, ...]:
    """Arguments for where ranks of several pods meet. The leader binds the address, so it needs its own IP."""
    if request.plan.shape.pods == 1:
        return ()
    address = "$(VLLM_HOST_IP)" if request.rank == 0 else request.leader_host
    return ("--data-parallel-address", address, "--data-parallel-rpc-port", str(RPC_PORT))
