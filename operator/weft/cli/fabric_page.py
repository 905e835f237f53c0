"""`weft fabric`: the tree of zones, NVLink domains and nodes, with what is free on each."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.text import Text
from rich.tree import Tree

from weft.cli.figures import counted

if TYPE_CHECKING:
    from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain

USED, FREE = "■", "□"


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
        branch.add(_node_line(domain.nodes[0], f"{domain.accelerator}  "))
        return
    nodes = counted(len(domain.nodes), "node")
    twig = branch.add(Text(f"{domain.name}  {domain.accelerator}  {domain.free} of {domain.total} free  {nodes}"))
    for node in domain.nodes:
        twig.add(_node_line(node))


def _node_line(node: FabricNode, accelerator: str = "") -> Text:
    used = min(node.used, node.total)
    line = Text(f"{node.name}  {accelerator}").append(USED * used, style="cyan")
    line.append(FREE * (node.total - used), style="dim").append(f"  {_usable(node)} of {node.total} free")
    if node.unusable is not None:
        return line.append(f"  {node.unusable.reason}: {node.unusable.message}", style="red")
    for taint in node.taints:
        value = f"={taint.value}" if taint.value else ""
        line.append(f"  taint {taint.key}{value}:{taint.effect}", style="yellow")
    return line


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
    if node.unusable is not None:
        data["unusable"] = {"reason": node.unusable.reason.value, "message": node.unusable.message}
    return data
