"""NVLink domains that are larger than NVLink reaches: labels that say so are wrong about some of their nodes.

A clique is read from each GPU, so it is wrong where somebody copied a label, as of two racks with one. The cautious
reading wins: a group of pods that spans two racks does not start, and one that keeps to a part of a rack does.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from weft.fabric.membership import RACK_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.fabric.members import Member

Together = tuple[str, list["Member"]]  # name of a domain and its nodes


def reach_of(members: Sequence[Member]) -> int:
    """The most GPUs that NVLink joins among these parts."""
    return max(member.devices.accelerator.domain_gpus for member in members)


def whole_gpus(members: Sequence[Member]) -> int:
    """GPUs of one domain. 0 where some are parts of GPUs, which may be more than there are GPUs."""
    if any(member.devices.shared for member in members):
        return 0
    return sum(max(dict(member.node.capacity).get(member.devices.resource, 0), 0) for member in members)


def is_cut(name: str, members: list[Member]) -> bool:
    """Whether a domain is read as several."""
    return len(list(within_reach(name, members))) > 1


def _is_beyond_reach(members: Sequence[Member]) -> bool:
    """Whether NVLink cannot join them all."""
    return len(members) > 1 and whole_gpus(members) > reach_of(members) > 1


def _are_up_beyond_reach(members: Sequence[Member]) -> bool:
    """The same of nodes that are up: the Node object of a tray that was replaced may be there still."""
    return _is_beyond_reach([member for member in members if member.node.ready])


def within_reach(name: str, members: list[Member]) -> Iterator[Together]:
    """The domain, or its parts where it cannot be one: by the first rack label that fits NVLink, else node by node.

    Labels that tell racks apart do so while few nodes are up, too: a domain does not change as its nodes start.
    """
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


def _by_rack(name: str, label: str, members: list[Member]) -> list[Together]:
    """Nodes without the label are each by themselves."""
    racks: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        rack = member.labels.get(label)
        racks[f"{name}/{rack}" if rack else member.node.name].append(member)
    return sorted(racks.items())
