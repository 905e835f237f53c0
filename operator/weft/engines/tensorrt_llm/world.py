"""TensorRT-LLM replicas of several pods: what each pod runs so that all ranks are in one MPI world (ADR 0048).

The program for it is `weft.pods.mpi_world`. Names of settings are those of Open MPI 4.1.7 and 5.0.8, `ob1` and
`trtllm-llmapi-launch`, as Dynamo's operator and the engine's own guides start replicas over nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import mpi_program
from weft.engines.terms.launch import EnvValue, LaunchFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.engines.terms.launch import LaunchRequest

PROGRAM_FILE = "mpi_world.py"
_INTERFACE = "eth0"  # the pod's own interface, by which the others reach it; additional ones are for NCCL
# Ranks send control messages over TCP, and NCCL moves the data; UCX would look for other transports.
_SETTINGS = {
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl_tcp_if_include": _INTERFACE,
    "OMPI_MCA_oob_tcp_if_include": _INTERFACE,  # Open MPI 4
    "PRTE_MCA_prte_if_include": _INTERFACE,  # Open MPI 5
}
# Variables that the program sets. A launch agent other than its own could not reach the other pods.
OWNED_ENV = frozenset(
    {f"OMPI_MCA_{kind}_rsh_agent" for kind in ("plm", "pls", "orte")}
    | {"PRTE_MCA_plm_ssh_agent", "PRTE_MCA_plm_rsh_agent", "ENGINE_COMMAND", "ENGINE_LEAD"}
)


def over_pods(request: LaunchRequest) -> bool:
    """Whether the ranks are in several pods; in a single pod the server starts them all itself."""
    return request.plan.shape.pods > 1


def command(request: LaunchRequest, server: tuple[str, ...], ready_seconds: int) -> tuple[str, ...]:
    """The command of a pod: the server, or the MPI world with the server in its first pod, or a member of it."""
    if not over_pods(request):
        return server
    shape, program = request.plan.shape, ("python3", _program().path)
    if request.rank > 0:
        return (*program, "join", request.leader_host, str(request.rank), str(ready_seconds))
    return (*program, "lead", str(shape.pods), str(shape.gpus_per_pod), str(ready_seconds), *server)


def files(request: LaunchRequest) -> tuple[LaunchFile, ...]:
    """The program as a file of each pod: Open MPI has to find it by its path."""
    return (_program(),) if over_pods(request) else ()


def between_ranks(request: LaunchRequest) -> Iterator[EnvValue]:
    """Variables with which the ranks of several pods reach each other."""
    if over_pods(request):
        yield from (EnvValue(name, value) for name, value in _SETTINGS.items())


def _program() -> LaunchFile:
    return LaunchFile(PROGRAM_FILE, mpi_program())
