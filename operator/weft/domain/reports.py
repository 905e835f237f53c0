"""What others report about the fabric beside nodes and pods: DRA drivers, ComputeDomains and Kueue's topologies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One ResourceSlice of a GPU driver, of one node.

    Only slices of a pool's newest `generation` count. `gpus` are whole GPUs as (product, bytes of memory, count),
    `parts` the number of partitions, and `lost` the devices that a taint keeps from being scheduled, as (key, count).
    """

    name: str
    node: str
    driver: str
    pool: str
    generation: int
    gpus: tuple[tuple[str, int, int], ...]
    parts: int = 0
    lost: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DomainMember:
    """A node in the status of a ComputeDomain. `clique` is empty where no NVLink leaves the node."""

    node: str
    clique: str
    ready: bool


@dataclass(frozen=True, slots=True)
class ComputeDomainReport:
    """One ComputeDomain: pods on its nodes share memory over NVLink."""

    namespace: str
    name: str
    members: tuple[DomainMember, ...]

    def __str__(self) -> str:
        """`team/chat-3`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """One Topology of Kueue: node labels that name levels of the network, the outermost first."""

    name: str
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reports:
    """All of them. `refused` names the kinds that exist and that RBAC keeps from Weft."""

    devices: tuple[DeviceReport, ...] = ()
    compute_domains: tuple[ComputeDomainReport, ...] = ()
    topologies: tuple[TopologyReport, ...] = ()
    refused: tuple[str, ...] = ()
