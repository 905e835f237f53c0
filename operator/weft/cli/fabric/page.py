"""`weft fabric`: zones, network tiers, NVLink domains and nodes as a tree, with who holds what and what still fits."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.text import Text
from rich.tree import Tree

from weft.cli.telling.alike import told_once
from weft.cli.telling.tables import headed_table
from weft.domain.texts.figures import counted, digits
from weft.domain.texts.units import GIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from weft.cli.cluster.sitting import Rack, Sitter, Sitting, Tray
    from weft.domain.fabric import FabricNode

USED, PROMISED, FREE, SPARE, LOST = "■", "▣", "□", "◌", "×"
_WORDS = {PROMISED: "promised to a replica", SPARE: "kept as a spare", LOST: "not usable"}
SHOWN_TAINTS = 4
MOST_CELLS = 256  # most cells of one node: whole devices, or their parts
GKE_NETWORKS = "networking.gke.io.networks/"


def fabric_page(sitting: Sitting) -> RenderableType:
    """Show the whole fabric; a domain of one node takes one line."""
    tree = Tree(Text(f"fabric: {headline(sitting)}", style="bold"))
    if not sitting.racks:
        tree.add(Text(nothing_offered(sitting), style="yellow"))
    in_order = sorted(sitting.racks, key=lambda rack: (rack.domain.zone, rack.domain.accelerator, rack.domain.name))
    for zone, racks in groupby(in_order, key=lambda rack: rack.domain.zone):
        _add(tree.add(Text(f"zone {zone or 'not labelled'}")), list(racks), 1)
    for note in told_once(sitting.notes):
        tree.add(Text(f"{note.reason}: {note.message}", style="yellow"))
    return Group(tree, *_legend(sitting), *([Padding(_holes(sitting), (1, 0, 0, 0))] if sitting.kinds else []))


def nothing_offered(sitting: Sitting) -> str:
    """Return the line for a fabric without accelerators; notes that say why follow it."""
    if sitting.notes:
        return "no node offers accelerators that Weft can use:"
    return "no node offers accelerators: do the device plugin and GPU feature discovery run?"


def headline(sitting: Sitting) -> str:
    """Return the fabric in one line."""
    trays = [tray for rack in sitting.racks for tray in rack.trays]
    total = sum(tray.node.total for tray in trays)
    spare = sum(rack.spare for rack in sitting.racks)
    unusable = sum(tray.node.free for tray in trays if tray.faulty)
    lost = sum(tray.node.installed - tray.node.total for tray in trays)
    size = f"{counted(len(sitting.racks), 'NVLink domain')}, {counted(total, 'GPU')}"
    parts = [f"{size}, {sum(tray.free for tray in trays)} free"]
    counts = ((spare, "spare"), (unusable, "not usable"), (lost, "more that nodes have lost"))
    parts += [f"{count} {word}" for count, word in counts if count]
    return ", ".join(parts)


def cells(tray: Tray) -> list[tuple[str, Sitter | None]]:
    """Return a mark for each GPU of a node, with who holds it; GPUs whose holder is unknown come after the others.

    Promises are shown as far as there is room: where something else took the place, they are about to be given up. A
    node with more GPUs than a row can show has no marks, only numbers.
    """
    if tray.node.total > MOST_CELLS:
        return []
    marks: list[tuple[str, Sitter | None]] = []
    for sitter in tray.sitters:
        marks += [(PROMISED if sitter.promised else USED, sitter)] * min(sitter.gpus, tray.node.total)
    held = sum(sitter.gpus for sitter in tray.sitters if not sitter.promised)
    marks += [(USED, None)] * max(0, tray.node.used - held)
    rest = LOST if tray.faulty else SPARE if tray.spare_of else FREE
    marks = marks[: tray.node.total]
    return marks + [(rest, None)] * (tray.node.total - len(marks))


def _add(branch: Tree, racks: Sequence[Rack], level: int) -> None:
    """Add domains below a branch; a network tier that several of them share becomes a branch."""
    for tier, group in groupby(
        sorted(racks, key=lambda rack: _tiers(rack, level)[:1]), key=lambda rack: _tiers(rack, level)[:1]
    ):
        together = list(group)
        if tier and len(together) > 1:
            _add(branch.add(Text(tier[0])), together, level + 1)
        else:
            for rack in together:
                _add_rack(branch, rack, level)


def _tiers(rack: Rack, level: int) -> tuple[str, ...]:
    """Return the names of the known network tiers from a level on."""
    known = [tier for tier in rack.domain.tiers[1:] if tier]
    return tuple(known[level - 1 :])


def _add_rack(branch: Tree, rack: Rack, level: int) -> None:
    domain, first = rack.domain, rack.trays[0]
    place = " > ".join(_tiers(rack, level))
    if len(rack.trays) == 1:
        branch.add(
            _line(first, f"{domain.accelerator}  ").append(
                _facts(_memory(first.node), _within(place)) + _devices(first.node), style="dim"
            )
        )
        return
    free = sum(tray.free for tray in rack.trays)
    spare = f"  {rack.spare} spare" if rack.spare else ""
    line = Text(f"{domain.name}  {domain.accelerator}  {free} of {domain.total} free{spare}")
    line.append(f"  {counted(len(rack.trays), 'node')}").append(_fitting(rack))
    memories = [_memory(tray.node) for tray in rack.trays]
    alike = len(set(memories)) == 1
    twig = branch.add(line.append(_facts(memories[0] if alike else "", _within(place)), style="dim"))
    for tray, memory in zip(rack.trays, memories, strict=True):
        twig.add(_line(tray).append(_facts("" if alike else memory) + _devices(tray.node), style="dim"))


def _fitting(rack: Rack) -> str:
    return f"  fits {counted(rack.room.largest, 'GPU')}" if 0 < rack.room.largest < rack.domain.total else ""


def _line(tray: Tray, accelerator: str = "") -> Text:
    node = tray.node
    line = Text(f"{node.name}  {accelerator}")
    for mark, sitter in cells(tray):
        line.append(mark, style="red" if mark == LOST else "cyan" if sitter and sitter.replica is not None else "dim")
    line.append(f"  {tray.free} of {node.total} free")
    for sitter in tray.sitters:
        words = "promised" if sitter.promised else "leaves" if sitter.leaves else ""
        line.append(f"  {sitter} {sitter.gpus}{f' ({words})' if words else ''}", style="cyan")
    line.append(f"  spare of {tray.spare_of}" if tray.spare_of else "", style="cyan")
    return _state(line, tray)


def _state(line: Text, tray: Tray) -> Text:
    node = tray.node
    if node.unusable is not None:
        leaving = " (leaving)" if node.leaving is not None else ""
        return line.append(f"  {node.unusable.reason}: {node.unusable.message}{leaving}", style="red")
    if node.impaired is not None:
        line.append(f"  {node.impaired.reason}: {node.impaired.message}", style="yellow")
    for told in taints_told(node):
        line.append(f"  {told}", style="yellow")
    return line


def taints_told(node: FabricNode) -> list[str]:
    """Return the first taints of a node, each as `taint team=vision:NoSchedule`, and how many more it has."""
    values = (f"={taint.value}" if taint.value else "" for taint in node.taints)
    told = [f"taint {taint.key}{value}:{taint.effect}" for taint, value in zip(node.taints, values, strict=True)]
    more = len(told) - SHOWN_TAINTS
    return [*told[:SHOWN_TAINTS], *([f"and {counted(more, 'more taint')}"] if more > 0 else [])]


def _memory(node: FabricNode) -> str:
    """Return the memory of one device in words."""
    memory = f"{digits(node.memory_bytes / GIB)} GiB"
    return f"parts of {memory}" if node.shared else f"{memory} each"


def _within(place: str) -> str:
    """Return the place in the network that no branch shows."""
    return f"in {place}" if place else ""


def _facts(*told: str) -> str:
    return "".join(f"  {each}" for each in told if each)


def _devices(node: FabricNode) -> str:
    """Return the network devices by resource; GKE has one resource for each network, which are added up."""
    counts: Counter[str] = Counter()
    for name, count in node.nics:
        counts[f"{GKE_NETWORKS}*" if name.startswith(GKE_NETWORKS) else name] += count
    return "".join(f"  {name} {count}" for name, count in sorted(counts.items()))


def _legend(sitting: Sitting) -> list[Text]:
    """Explain the marks in use beside those for used and free."""
    seen = {mark for rack in sitting.racks for tray in rack.trays for mark, _ in cells(tray)}
    told = [f"{mark} {words}" for mark, words in _WORDS.items() if mark in seen]
    return [Text("   ".join((f"{USED} held by pods", f"{FREE} free", *told)), style="dim")] if told else []


def _holes(sitting: Sitting) -> Table:
    """Show how many more replicas of each size fit."""
    sizes = sorted({size for kind in sitting.kinds for size, _ in kind.slots})
    numbers = ("free", "largest", *(counted(size, "GPU") for size in sizes))
    found = headed_table("what still fits", *numbers, right=numbers, wraps=numbers)
    for kind in sitting.kinds:
        slots = dict(kind.slots)
        counts = (str(slots.get(size, "")) for size in sizes)
        found.add_row(kind.accelerator, str(kind.free), str(kind.largest), *counts)
    return found
