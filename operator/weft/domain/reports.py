"""Reports about the fabric besides nodes and pods: from DRA drivers, ComputeDomains and Kueue's topologies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One ResourceSlice of a GPU driver, for one node.

    Only slices of a pool's newest `generation` count. `gpus` are whole GPUs as (product, bytes of memory, count),
    `parts` the number of partitions, and `lost` the devices made unschedulable by a taint, as (key, count).
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
    """One ComputeDomain: pods on its nodes share memory over NVLink. `owner_uid` is our pool that it belongs to."""

    namespace: str
    name: str
    members: tuple[DomainMember, ...]
    uid: str = ""
    owner_uid: str | None = None
    terminating: bool = False

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
    """All reports. `refused` names the kinds that exist but that RBAC denies Weft.

    `knows_compute_domains` says that the cluster has that kind and that all of them are listed here.
    """

    devices: tuple[DeviceReport, ...] = ()
    compute_domains: tuple[ComputeDomainReport, ...] = ()
    topologies: tuple[TopologyReport, ...] = ()
    refused: tuple[str, ...] = ()
    knows_compute_domains: bool = False
