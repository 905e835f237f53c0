"""Where nodes are in the network: tiers from the labels of topograph, clouds and Kueue, and their RDMA devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.fabric.membership import CLIQUE, RACK_LABELS, ZONE_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.domain.fabric import Tiers
    from weft.domain.reports import TopologyReport
    from weft.fabric.parts import Labels

TOPOGRAPH_TIER = "fabric.topograph.run/tier-"  # 0 is nearest the node
MOST_TIERS = 16  # as many as a Topology of Kueue may have
# One network each, outermost level first, in order of trust: topograph measures, clouds declare. A node's tiers come
# from the first network of which it has any label.
TOPOGRAPH = tuple(f"{TOPOGRAPH_TIER}{tier}" for tier in reversed(range(MOST_TIERS)))
NETWORKS = (
    TOPOGRAPH,
    ("network.topology.nvidia.com/core", "network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"),
    tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3, 4)),
    tuple(f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock", "host")),
    tuple(f"oci.oraclecloud.com/rdma.{level}" for level in ("hpc_island_id", "network_block_id", "local_block_id")),
    ("oci.oraclecloud.com/host.network_block_id", "oci.oraclecloud.com/host.rack_id"),
    *(
        (*(f"{group}.coreweave.cloud/{level}" for level in ("fabric", "superpod", "leafgroup")), RACK)
        for RACK in ("node.coreweave.cloud/rack",)
        for group in ("backend", "ib")
    ),
    tuple(f"topology.nebius.com/{level}" for level in ("gpu-cluster-id", "tier-2", "tier-1", "tier-0")),
    ("crusoe.ai/ib.partition.id", "crusoe.ai/pod.id"),
)
# Levels of a Kueue Topology that are not network tiers: they are read elsewhere, or are larger or smaller than a tier.
NO_TIER = frozenset(
    {*ZONE_LABELS, CLIQUE, *RACK_LABELS, "topology.kubernetes.io/region", "kubernetes.io/hostname"}
    | {label for network in NETWORKS for label in network}
)

# How names begin: of shared and SR-IOV plugins, NVIDIA's operator, AWS, Google, Oracle (OKE), AMD and Slingshot.
NIC_RESOURCES = (
    "rdma/",
    "nvidia.com/mlnxnics",
    "vpc.amazonaws.com/efa",
    "networking.gke.io.networks/",
    "nvidia.com/sriov-rdma-vf",
    "amd.com/nic",
    "amd.com/vnic",
    "beta.hpe.com/cxi",
)
ADDRESS_SUFFIX = ".IP"  # GKE offers IP addresses as a resource of their own beside each network


@dataclass(frozen=True, slots=True)
class Levels:
    """The labels that name network levels, outermost first, as (labels that identify a network, all of its levels).

    `depth` is the number of tiers that every node gets.
    """

    networks: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    depth: int

    def tiers(self, zone: str, labels: Labels) -> Tiers:
        """Return a node's zone and levels, always `depth` of them; empty strings where no label names one."""
        found = (levels for own, levels in self.networks if not own or any(labels.get(level) for level in own))
        path = (zone, *(labels.get(level, "") for level in next(found)))
        return path + ("",) * (self.depth - len(path))


def levels_of(nodes: Iterable[Labels], topologies: Sequence[TopologyReport]) -> Levels:
    """Collect the levels that any node is labelled with; the last network has only levels that administrators added."""
    hints = [topology.levels for topology in sorted(topologies, key=lambda each: each.name)]
    present = set[str]().union(*nodes)
    networks = []
    for own in (*(network for network in NETWORKS if not present.isdisjoint(network)), ()):
        levels = tuple(level for level in _with_hints(own, hints) if level in present)
        networks.append((tuple(level for level in own if level in present), levels))
    return Levels(tuple(networks), 1 + max(len(levels) for _, levels in networks))


def _with_hints(network: tuple[str, ...], hints: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Merge levels that administrators added into a network, each where their Topology has it among known levels."""
    merged = list(network)
    for levels in hints:
        at = 0 if any(level in merged for level in levels) else len(merged)
        for level in levels:
            if level in merged:
                at = merged.index(level) + 1
            elif level not in NO_TIER:
                merged.insert(at, level)
                at += 1
    return tuple(merged)


def shared_tiers(paths: Sequence[Tiers]) -> Tiers:
    """Return the tiers on which all paths agree, with an empty string for each level where they differ."""
    if len(paths) == 1:
        return paths[0]
    return tuple(values[0] if len(set(values)) == 1 else "" for values in zip(*paths, strict=True))


def nics_of(allocatable: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Return (resource, count) of the allocatable RDMA network devices."""
    return tuple(
        (name, count)
        for name, count in allocatable
        if name.startswith(NIC_RESOURCES) and not name.endswith(ADDRESS_SUFFIX) and count > 0
    )
