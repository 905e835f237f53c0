"""Environment variables common to engines: the hub, the network between pods, and how they merge with the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import load
from weft.engines.kv.handover import may_send_pieces
from weft.engines.kv.libfabric import efa_variables, over_efa
from weft.engines.kv.nvlink import NVLINK, nvlink_variables, over_nvlink
from weft.engines.model.weights import CACHE_PATH, needs_the_hub
from weft.engines.pods.interfaces import named_interfaces
from weft.engines.terms.launch import EnvValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.domain.spec import EngineSpec, PoolSpec
    from weft.engines.terms.launch import LaunchRequest

POD_IP = "status.podIP"
# UCX on an accelerator needs its copy transports beside the network's; without a GPU there are none.
_COPIES = {"nvidia": "cuda_copy,cuda_ipc,", "amd": "rocm_copy,rocm_ipc,"}
_UCX_TLS_ON_CPU = "tcp,self,sm"
# GPU memory goes over TCP in segments copied through the host, of 8 KiB unless set otherwise. Receivers take
# 64 KiB by default, and do not negotiate (docs/adr/0075).
_TCP_PIECE = "64k"


def with_users(ours: Iterable[EnvValue], engine: EngineSpec) -> tuple[EnvValue, ...]:
    """Weft's variables and the user's, which take precedence; names are unique. Conflicts are refused earlier."""
    users = tuple(EnvValue(name, value) for name, value in engine.env)
    theirs = {value.name for value in users}
    return (*(value for value in ours if value.name not in theirs), *users)


def hub(spec: PoolSpec) -> Iterator[EnvValue]:
    """Variables for Hugging Face: offline if nothing is downloaded; the token and cache if the source names them."""
    source = spec.model.source
    if not needs_the_hub(spec):
        yield EnvValue("HF_HUB_OFFLINE", "1")
    if source is not None and source.token_secret is not None:
        yield EnvValue("HF_TOKEN", secret=source.token_secret)
    if source is not None and (source.cache is not None or source.warm_up):
        yield EnvValue("HF_HUB_CACHE", CACHE_PATH)


def transports(request: LaunchRequest) -> Iterator[EnvValue]:
    """Transports that NIXL may use between the halves of a split: UCX's, or Amazon's EFA through libfabric."""
    if over_efa(request.spec):
        yield from efa_variables()
        return
    copies = _COPIES.get(load().accelerator(request.plan.shape.accelerator).vendor, "")
    without_rdma = f"tcp,{copies}sm,self"  # over TCP UCX sends the control messages for NVLink's memory
    wires = {"TCP": without_rdma, "RDMA": "^tcp", NVLINK: without_rdma}
    chosen = _UCX_TLS_ON_CPU if request.on_cpu else wires.get(request.spec.kv.transport)
    if chosen is not None:
        yield EnvValue("UCX_TLS", chosen)
    if not request.on_cpu and may_send_pieces(request.spec):
        yield EnvValue("UCX_TCP_TX_SEG_SIZE", _TCP_PIECE)
    if over_nvlink(request.spec):
        yield from nvlink_variables()
    named = named_interfaces(request.spec.pod) if request.spec.kv.transport == "TCP" else ()
    if named:  # RDMA devices have other names
        yield EnvValue("UCX_NET_DEVICES", ",".join(named))


def between_pods(request: LaunchRequest) -> Iterator[EnvValue]:
    """The network interfaces over which the ranks of several pods meet: those of the pod's annotation, else `eth0`.

    NCCL takes several, and `=` asks for an exact name; Gloo uses one.
    """
    if request.plan.shape.pods == 1:
        return
    named = named_interfaces(request.spec.pod)
    yield EnvValue("GLOO_SOCKET_IFNAME", named[0] if named else "eth0")
    yield EnvValue("NCCL_SOCKET_IFNAME", f"={','.join(named)}" if named else "eth0")
