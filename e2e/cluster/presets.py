"""Simulated nodes as plain data, with the labels that device plugins and clouds put on real ones."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

NODES_PER_LEAF = 4  # nodes under one switch of the network's lowest tier
LEAVES_PER_SPINE = 4


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps pods off a node that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """One node; quantities are written as in Kubernetes."""

    name: str
    gpu_resource: str | None = None
    gpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    cpu: str = "192"
    memory: str = "2Ti"
    pods: int = 110
    resources: Mapping[str, str] = field(default_factory=dict)  # further extended resources, such as rdma/ib
    taints: tuple[Taint, ...] = ()
    architecture: str = "amd64"

    @property
    def extended_resources(self) -> dict[str, str]:
        """GPUs and what comes with them."""
        gpus = {self.gpu_resource: str(self.gpus)} if self.gpu_resource else {}
        return {**gpus, **self.resources}


def plain_nodes(count: int, *, prefix: str = "plain", cpu: str = "32", memory: str = "128Gi") -> list[SimulatedNode]:
    """Nodes without accelerators."""
    return [SimulatedNode(f"{prefix}-{index}", cpu=cpu, memory=memory) for index in range(count)]


def h200_boards(count: int, *, prefix: str = "h200", zone: str = "zone-a") -> list[SimulatedNode]:
    """HGX H200: 8 GPUs on one board, so the node is the NVLink domain; InfiniBand, four nodes to a leaf switch."""
    board = _nvidia_labels("NVIDIA-H200", count=8, memory_mib=143771, family="hopper", compute=(9, 0))
    return [
        SimulatedNode(
            f"{prefix}-{index}",
            gpu_resource="nvidia.com/gpu",
            gpus=8,
            labels={**board, **_zone(zone), **_network(prefix, index)},
            resources={"rdma/ib": "8"},
        )
        for index in range(count)
    ]


def nvl72_rack(rack: str, *, trays: int = 18, clique: int = 1, zone: str = "zone-a") -> list[SimulatedNode]:
    """GB200 NVL72: trays of 4 GPUs that are one NVLink domain; its clique names the rack."""
    tray = _nvidia_labels("NVIDIA-GB200", count=4, memory_mib=189471, family="blackwell", compute=(10, 0))
    domain = f"{uuid.uuid5(uuid.NAMESPACE_DNS, rack)}.{clique}"
    fabric = {"nvidia.com/gpu.clique": domain, "accelerator.topograph.run/domain": domain}
    return [
        SimulatedNode(
            f"{rack}-tray-{index:02}",
            gpu_resource="nvidia.com/gpu",
            gpus=4,
            labels={**tray, **fabric, **_zone(zone), "fabric.topograph.run/tier-0": f"{rack}-leaf"},
            cpu="144",
            memory="960Gi",
            resources={"rdma/ib": "4"},
            architecture="arm64",
        )
        for index in range(trays)
    ]


def mi300x_boards(count: int, *, prefix: str = "mi300x", zone: str = "zone-a") -> list[SimulatedNode]:
    """AMD Instinct MI300X: 8 GPUs on one board."""
    board = {
        "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
        "amd.com/gpu.vram": "192G",
        "amd.com/gpu.cu-count": "304",
        "amd.com/gpu.simd-count": "1216",
        "amd.com/gpu.device-id": "74a1",
        "amd.com/compute-memory-partition": "spx_nps1",
    }
    return [
        SimulatedNode(
            f"{prefix}-{index}",
            gpu_resource="amd.com/gpu",
            gpus=8,
            labels={**board, **_zone(zone), **_network(prefix, index)},
            resources={"rdma/ib": "8"},
        )
        for index in range(count)
    ]


def _nvidia_labels(
    product: str, *, count: int, memory_mib: int, family: str, compute: tuple[int, int]
) -> dict[str, str]:
    """What GPU Feature Discovery writes."""
    major, minor = compute
    facts = {
        "present": "true",
        "product": product,
        "count": str(count),
        "memory": str(memory_mib),
        "family": family,
        "compute.major": str(major),
        "compute.minor": str(minor),
        "replicas": "1",
        "sharing-strategy": "none",
        "mode": "compute",
    }
    return {
        **{f"nvidia.com/gpu.{name}": value for name, value in facts.items()},
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/cuda.driver-version.full": "580.95.05",
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/cuda.runtime-version.full": "13.0",
        "nvidia.com/cuda.runtime-version.major": "13",
    }


def _network(prefix: str, index: int) -> dict[str, str]:
    leaf = index // NODES_PER_LEAF
    return {
        "fabric.topograph.run/tier-0": f"{prefix}-leaf-{leaf}",
        "fabric.topograph.run/tier-1": f"{prefix}-spine-{leaf // LEAVES_PER_SPINE}",
    }


def _zone(zone: str) -> dict[str, str]:
    return {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": zone.rpartition("-")[0] or zone}
