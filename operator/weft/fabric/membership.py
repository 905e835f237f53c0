"""Which NVLink domain a node belongs to, from the most trusted label that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.hardware import Accelerator

# The clique that NVML reports; written only where a multi-node NVLink fabric is up.
CLIQUE = "nvidia.com/gpu.clique"
# The cluster UUID that NVML reports without a multi-node fabric: every such board has it, so it joins no nodes.
NO_FABRIC = "00000000-0000-0000-0000-000000000000"
TOPOGRAPH = ("accelerator.topograph.run/domain", "network.topology.nvidia.com/accelerator")
# Names of a rack. Some providers write them on 8-GPU boards too (a capacity block, a network subblock), where they are
# no NVLink domain, so they count only for parts whose NVLink leaves the node.
RACK_LABELS = (
    *TOPOGRAPH,
    "ds.coreweave.com/nvlink.domain",
    "cloud.google.com/gce-topology-subblock",
    "topology.k8s.aws/ultraserver-id",
    "oci.oraclecloud.com/host.gpu_memory_fabric_id",
    "topology.nebius.com/nvl-instance-group-id",
    "topology.nebius.com/tier-0",  # of nodes without such links it may be a switch
)
ZONE_LABELS = ("topology.kubernetes.io/zone", "topology.k8s.aws/zone-id", "failure-domain.beta.kubernetes.io/zone")
NODE = "node"
# What tools write where they do not know a value (the first is that of Oracle's node labeller, `oci-hpc-oke`). Nodes
# that have it in common share nothing.
PLACEHOLDERS = frozenset({"no-imds-data", "unknown", "none", "null", "undefined", "n-a"})

Membership = tuple[str, str]  # (label that says so or NODE, its value)


def known_labels(labels: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return labels by name, without those whose value only says that whoever writes them does not know it."""
    return {name: value for name, value in labels if value.casefold() not in PLACEHOLDERS}


def membership(
    node: str, labels: Mapping[str, str], accelerator: Accelerator, cliques: tuple[str, ...] = ()
) -> Membership:
    """Return (source, domain) of a node: its clique by label, else by a ComputeDomain's status, else the node itself.

    Where NVLink can leave the node, a rack label counts before the node itself. Both cliques are what NVML reports.
    """
    if clique := clique_of(labels):
        return CLIQUE, clique
    if len(cliques) == 1:
        return CLIQUE, cliques[0]
    return rack_of(labels, accelerator) or (NODE, node)


def rack_of(labels: Mapping[str, str], accelerator: Accelerator) -> Membership | None:
    """Return (label, rack) by the most trusted label, for accelerators whose NVLink can leave the node; else None."""
    if accelerator.domain_gpus <= accelerator.gpus_per_node:
        return None
    return next(((key, labels[key]) for key in RACK_LABELS if labels.get(key)), None)


def clique_of(labels: Mapping[str, str]) -> str:
    """Return the clique in the node's label, or an empty string where it names no multi-node fabric."""
    clique = labels.get(CLIQUE, "")
    return clique if names_a_fabric(clique) else ""


def names_a_fabric(clique: str) -> bool:
    """Whether nodes with this clique share NVLink: not for an empty clique, nor without a cluster UUID.

    A clique's own number (`.1`, `1`) is the same in every rack.
    """
    return clique != "" and not clique.startswith((NO_FABRIC, ".")) and not clique.isdigit()


def zone_of(labels: Mapping[str, str]) -> str:
    """The node's zone, or an empty string."""
    return next((labels[key] for key in ZONE_LABELS if labels.get(key)), "")


def topograph_domain(labels: Mapping[str, str]) -> str | None:
    """Return the NVLink domain by topograph's labels alone; None without them."""
    return next((labels[key] for key in TOPOGRAPH if labels.get(key)), None)
