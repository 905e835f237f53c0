"""`weft fabric`: the tree of zones, NVLink domains and nodes, with what is free on each."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text
from rich.tree import Tree

from weft.cli.figures import counted, digits
from weft.domain.units import GIB

if TYPE_CHECKING:
    from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain

USED, FREE = "■", "□"
SHOWN_TAINTS = 4
GKE_NETWORKS = "networking.gke.io.networks/"


def fabric_tree(fabric: Fabric) -> Tree:
    """The whole fabric; a domain of one node is one line."""
    total = sum(domain.total for domain in fabric.domains)
    free = sum(domain.free for domain in fabric.domains)
    size = f"{counted(len(fabric.domains), 'NVLink domain')}, {counted(total, 'GPU')}, {free} free"
    tree = Tree(Text(f"fabric: {size}", style="bold"))
    if not fabric.domains:
        tree.add(
            Text("no node offers accelerators: do the device plugin and GPU feature discovery run?", style="yellow")
        )
    by_zone = sorted(fabric.domains, key=lambda domain: (domain.zone, domain.accelerator, domain.name))
    for zone, domains in groupby(by_zone, key=lambda domain: domain.zone):
        branch = tree.add(Text(f"zone {zone or 'not labelled'}"))
        for domain in domains:
            _add_domain(branch, domain)
    for note in fabric.notes:
        tree.add(Text(f"{note.reason}: {note.message}", style="yellow"))
    return tree


def _add_domain(branch: Tree, domain: NvlinkDomain) -> None:
    if len(domain.nodes) == 1:
        node = domain.nodes[0]
        branch.add(_node_line(node, f"{domain.accelerator}  ").append(_facts(node, domain), style="dim"))
        return
    size = f"{domain.free} of {domain.total} free  {counted(len(domain.nodes), 'node')}"
    line = Text(f"{domain.name}  {domain.accelerator}  {size}")
    twig = branch.add(line.append(_facts(domain.nodes[0], domain), style="dim"))
    for node in domain.nodes:
        twig.add(_node_line(node).append(_devices(node), style="dim"))


def _node_line(node: FabricNode, accelerator: str = "") -> Text:
    used = min(node.used, node.total)
    line = Text(f"{node.name}  {accelerator}").append(USED * used, style="cyan")
    line.append(FREE * (node.total - used), style="dim").append(f"  {_usable(node)} of {node.total} free")
    if node.unusable is not None:
        leaving = " (leaving)" if node.leaving is not None else ""
        return line.append(f"  {node.unusable.reason}: {node.unusable.message}{leaving}", style="red")
    if node.impaired is not None:
        line.append(f"  {node.impaired.reason}: {node.impaired.message}", style="yellow")
    for taint in node.taints[:SHOWN_TAINTS]:
        value = f"={taint.value}" if taint.value else ""
        line.append(f"  taint {taint.key}{value}:{taint.effect}", style="yellow")
    more = len(node.taints) - SHOWN_TAINTS
    return line.append(f"  and {counted(more, 'more taint')}", style="yellow") if more > 0 else line


def _facts(node: FabricNode, domain: NvlinkDomain) -> str:
    """Memory of a device, the place in the network, and a board's network devices."""
    memory = f"{digits(node.memory_bytes / GIB)} GiB"
    place = " > ".join(filter(None, domain.tiers[1:]))
    told = (f"parts of {memory}" if node.shared else f"{memory} each", f"in {place}" if place else "")
    return "".join(f"  {each}" for each in told if each) + (_devices(node) if len(domain.nodes) == 1 else "")


def _devices(node: FabricNode) -> str:
    """Network devices by resource; GKE's are one resource each."""
    counts: Counter[str] = Counter()
    for name, count in node.nics:
        counts[f"{GKE_NETWORKS}*" if name.startswith(GKE_NETWORKS) else name] += count
    return "".join(f"  {name} {count}" for name, count in sorted(counts.items()))


def _usable(node: FabricNode) -> int:
    """Free devices that something new may have."""
    return node.free if node.unusable is None else 0


def fabric_data(fabric: Fabric) -> dict[str, Any]:
    """The same as data."""
    return {
        "domains": [
            {
                "name": domain.name,
                "zone": domain.zone,
                "tiers": list(domain.tiers),
                "accelerator": domain.accelerator,
                "gpus": domain.total,
                "free": domain.free,
                "nodes": [_node_data(node) for node in domain.nodes],
            }
            for domain in fabric.domains
        ],
        "notes": [{"reason": note.reason.value, "message": note.message} for note in fabric.notes],
    }


def _node_data(node: FabricNode) -> dict[str, Any]:
    data: dict[str, Any] = {"name": node.name, "gpus": node.total, "used": node.used, "free": _usable(node)}
    data |= {"resource": node.resource, "memoryBytes": node.memory_bytes, "shared": node.shared}
    data |= {"tiers": list(node.tiers), "networkDevices": dict(node.nics)}
    for name, told in (("unusable", node.unusable), ("leaving", node.leaving), ("impaired", node.impaired)):
        if told is not None:
            data[name] = {"reason": told.reason.value, "message": told.message}
    return data
