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
# One network each, outermost level first; in order of trust: topograph has measured, clouds tell. A node's tiers come
# from the first of these that it has any label of.
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
)
# Levels of a Topology that say nothing new: they are read elsewhere, or hold more or less than a part of the network.
NO_TIER = frozenset(
    {*ZONE_LABELS, CLIQUE, *RACK_LABELS, "topology.kubernetes.io/region", "kubernetes.io/hostname"}
    | {label for network in NETWORKS for label in network}
)

NIC_RESOURCES = ("rdma/", "nvidia.com/mlnxnics", "vpc.amazonaws.com/efa", "networking.gke.io.networks/")
ADDRESS_SUFFIX = ".IP"  # GKE offers an address beside each network


@dataclass(frozen=True, slots=True)
class Levels:
    """The labels that name levels, outermost first, as (those by which a network is known, all of its levels).

    `depth` is the number of tiers of every node.
    """

    networks: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    depth: int

    def tiers(self, zone: str, labels: Labels) -> Tiers:
        """Zone and levels of a node; empty where nobody names one, and filled up with those to one length."""
        found = (levels for own, levels in self.networks if not own or any(labels.get(level) for level in own))
        path = (zone, *(labels.get(level, "") for level in next(found)))
        return path + ("",) * (self.depth - len(path))


def levels_of(nodes: Iterable[Labels], topologies: Sequence[TopologyReport]) -> Levels:
    """The levels that any of these nodes is labelled with; the last network is what administrators added alone."""
    hints = [topology.levels for topology in sorted(topologies, key=lambda each: each.name)]
    present = set[str]().union(*nodes)
    networks = []
    for own in (*(network for network in NETWORKS if not present.isdisjoint(network)), ()):
        levels = tuple(level for level in _with_hints(own, hints) if level in present)
        networks.append((tuple(level for level in own if level in present), levels))
    return Levels(tuple(networks), 1 + max(len(levels) for _, levels in networks))


def _with_hints(network: tuple[str, ...], hints: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """A network with the levels that administrators added, each where their Topology has it among ours."""
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
    """What all of these agree on, level by level."""
    if len(paths) == 1:
        return paths[0]
    return tuple(values[0] if len(set(values)) == 1 else "" for values in zip(*paths, strict=True))


def nics_of(allocatable: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Network devices for RDMA, by resource."""
    return tuple(
        (name, count)
        for name, count in allocatable
        if name.startswith(NIC_RESOURCES) and not name.endswith(ADDRESS_SUFFIX) and count > 0
    )
