"""Nodes and pods as the cases need them, each by one call."""

from __future__ import annotations

from dataclasses import replace

from weft.domain.cluster import NodeRecord, PodPhase, PodRecord, Taint
from weft.domain.reports import ComputeDomainReport, DeviceReport, Reports
from weft.fabric.reported import CHANNELS

NVIDIA = "nvidia.com/gpu"
AMD = "amd.com/gpu"


def node(name: str, labels: dict[str, str], gpus: int, resource: str = NVIDIA) -> NodeRecord:
    """A ready node that offers `gpus` devices."""
    devices = ((resource, gpus),) if gpus else ()
    return NodeRecord(name, f"uid-{name}", tuple(sorted(labels.items())), capacity=devices, allocatable=devices)


def with_rdma(node: NodeRecord) -> NodeRecord:
    """As many devices as GPUs."""
    known = (*node.allocatable, ("rdma/ib", node.allocatable[0][1]))
    return replace(node, capacity=known, allocatable=known)


def board(name: str, gpus: int = 8, labels: dict[str, str] | None = None) -> NodeRecord:
    """An HGX H200 node: its board is the NVLink domain."""
    known = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"}
    return node(name, {**known, **(labels or {})}, gpus)


def tray(name: str, clique: str | None, labels: dict[str, str] | None = None) -> NodeRecord:
    """A GB200 tray of 4 GPUs; its clique is the NVLink domain."""
    known = {"nvidia.com/gpu.product": "NVIDIA-GB200", "nvidia.com/gpu.memory": "189471"}
    known |= {"nvidia.com/gpu.clique": clique} if clique else {}
    return node(name, {**known, **(labels or {})}, 4)


def rack(clique: str, trays: int = 18) -> list[NodeRecord]:
    """An NVL72 rack."""
    return [tray(f"{clique}-t{index}", clique) for index in range(trays)]


def nvlink_domain(each: NodeRecord) -> str:
    """What the cases above say of a node's NVLink: its clique, or the board that it is."""
    return dict(each.labels).get("nvidia.com/gpu.clique", each.name)


def channels(*nodes: NodeRecord) -> tuple[DeviceReport, ...]:
    """What NVIDIA's driver for ComputeDomains offers on each of its nodes: no GPUs, but a place in one of them."""
    return tuple(DeviceReport(each.name, each.name, CHANNELS, each.name, 1, ()) for each in nodes)


def forming(*nodes: NodeRecord, domains: tuple[ComputeDomainReport, ...] = ()) -> Reports:
    """The reports of a cluster where that driver runs on these nodes."""
    return Reports(channels(*nodes), domains, knows_compute_domains=True)


def amd_board(name: str) -> NodeRecord:
    """An 8-GPU MI300X node as AMD's node labeller writes it."""
    return node(name, {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/gpu.vram": "192G"}, 8, AMD)


def busy(name: str, on: str | None, gpus: int, phase: PodPhase | None = None) -> PodRecord:
    """Somebody's pod that asks for GPUs."""
    phase = phase or (PodPhase.Running if on else PodPhase.Pending)
    return PodRecord("default", name, f"uid-{name}", phase=phase, node=on, requests=((NVIDIA, gpus),))


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Taint:
    return Taint(key, value, effect)
