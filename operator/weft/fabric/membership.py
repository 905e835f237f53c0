"""Which NVLink domain a node belongs to, from the most trusted label that says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.hardware import Accelerator

# What NVML itself reports; only written where a multi-node NVLink fabric is up.
CLIQUE = "nvidia.com/gpu.clique"
# The cluster UUID that NVML reports where no fabric joins nodes: every board has it, so that it joins none.
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
)
ZONE_LABELS = ("topology.kubernetes.io/zone", "topology.k8s.aws/zone-id", "failure-domain.beta.kubernetes.io/zone")
NODE = "node"

Membership = tuple[str, str]  # (label that says so or NODE, its value)


def membership(
    node: str, labels: Mapping[str, str], accelerator: Accelerator, cliques: tuple[str, ...] = ()
) -> Membership:
    """(source, domain) of a node: the clique in its label, then in a ComputeDomain's status; else the node itself.

    Where NVLink can leave the node, rack labels come before that. Both cliques are what NVML says, and of a fabric.
    """
    if clique := clique_of(labels):
        return CLIQUE, clique
    if len(cliques) == 1:
        return CLIQUE, cliques[0]
    return rack_of(labels, accelerator) or (NODE, node)


def rack_of(labels: Mapping[str, str], accelerator: Accelerator) -> Membership | None:
    """(label, rack) by the most trusted label, for parts whose NVLink can leave the node."""
    if accelerator.domain_gpus <= accelerator.gpus_per_node:
        return None
    return next(((key, labels[key]) for key in RACK_LABELS if labels.get(key)), None)


def clique_of(labels: Mapping[str, str]) -> str:
    """The clique in the node's label, or an empty string where it names no fabric."""
    clique = labels.get(CLIQUE, "")
    return clique if names_a_fabric(clique) else ""


def names_a_fabric(clique: str) -> bool:
    """Whether nodes of one clique share NVLink: not those of none, and not those without a cluster UUID."""
    return clique != "" and not clique.startswith(NO_FABRIC)


def zone_of(labels: Mapping[str, str]) -> str:
    """The node's zone, or an empty string."""
    return next((labels[key] for key in ZONE_LABELS if labels.get(key)), "")


def topograph_domain(labels: Mapping[str, str]) -> str | None:
    """What topograph says about the node, whoever else says something."""
    return next((labels[key] for key in TOPOGRAPH if labels.get(key)), None)
