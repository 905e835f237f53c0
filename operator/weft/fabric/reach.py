"""Domains with more GPUs than NVLink can join: their label must be wrong for some of the nodes.

A clique is read from each GPU, so it is wrong only where somebody copied a label, for example to a second rack. The
cautious reading wins: a replica that spans two racks does not start, while one within a part of a rack does.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from weft.fabric.membership import RACK_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.fabric.members import AcceleratorNode

Together = tuple[str, list["AcceleratorNode"]]  # name of a domain and its nodes


def reach_of(members: Sequence[AcceleratorNode]) -> int:
    """Return the most GPUs that one NVLink domain of these nodes' accelerators can have."""
    return max(member.devices.accelerator.domain_gpus for member in members)


def whole_gpus(members: Sequence[AcceleratorNode]) -> int:
    """Count the GPUs of one domain; 0 where some are parts of GPUs, of which there may be more than GPUs."""
    if any(member.devices.shared for member in members):
        return 0
    return sum(max(dict(member.node.capacity).get(member.devices.resource, 0), 0) for member in members)


def is_cut(name: str, members: list[AcceleratorNode]) -> bool:
    """Whether a domain is read as several because it is larger than NVLink reaches."""
    return len(list(within_reach(name, members))) > 1


def end_at_a_node(members: Sequence[AcceleratorNode]) -> bool:
    """Whether these are cards or boards whose links never leave a node, of a kind that is several to a node.

    Superchips of one GPU (GH200) are sold in racks too, which the catalog does not tell from lone ones.
    """
    kinds = (member.devices.accelerator for member in members)
    return all(1 < kind.gpus_per_node >= kind.domain_gpus for kind in kinds)


def _is_beyond_reach(members: Sequence[AcceleratorNode]) -> bool:
    """Whether these nodes have more GPUs than NVLink can join."""
    return len(members) > 1 and whole_gpus(members) > reach_of(members) > 1


def _are_up_beyond_reach(members: Sequence[AcceleratorNode]) -> bool:
    """Whether the ready nodes have too many GPUs: the Node object of a replaced tray may still exist."""
    return _is_beyond_reach([member for member in members if member.node.ready])


def within_reach(name: str, members: list[AcceleratorNode]) -> Iterator[Together]:
    """Yield the domain, or its parts if NVLink cannot join it: by the first rack label that fits, else node by node.

    Labels that tell racks apart cut a domain even while few nodes are ready, so that it does not change as nodes start.
    """
    if len(members) > 1 and end_at_a_node(members):
        yield from ((member.node.name, [member]) for member in members)
        return
    if not _is_beyond_reach(members):
        yield name, members
        return
    beyond = _are_up_beyond_reach(members)
    for label in RACK_LABELS:
        racks = _by_rack(name, label, members)
        tells = beyond or len({member.labels.get(label) for member in members} - {None}) > 1
        fits = not any(_are_up_beyond_reach(each) for _, each in racks)
        if tells and fits and any(len(each) > 1 for _, each in racks):
            yield from racks
            return
    yield from ((member.node.name, [member]) for member in members) if beyond else ((name, members),)


def _by_rack(name: str, label: str, members: list[AcceleratorNode]) -> list[Together]:
    """Group nodes by a rack label; a node without the label is a group of its own."""
    racks: dict[str, list[AcceleratorNode]] = defaultdict(list)
    for member in members:
        rack = member.labels.get(label)
        racks[f"{name}/{rack}" if rack else member.node.name].append(member)
    return sorted(racks.items())
