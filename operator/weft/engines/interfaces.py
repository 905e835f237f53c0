"""Interfaces of an engine pod beside its first one: those that its annotation asks for by name.

The annotation is that of the Network Plumbing Working Group, which Multus reads: `team/fast@net1, other`, or a JSON
list of objects with `name` and `interface`. Networks whose interface has no name there are for something else.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.spec import PodSpec

NETWORKS = "k8s.v1.cni.cncf.io/networks"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,15}")  # what Linux takes, without what lists are made of


def named_interfaces(pod: PodSpec) -> tuple[str, ...]:
    """Their names in the order of the annotation; none of one that cannot be read, as Multus refuses such pods."""
    text = dict(pod.annotations).get(NETWORKS, "").strip()
    found = _in_json(text) if text.startswith("[") else _in_list(text)
    return tuple(dict.fromkeys(name for name in found if _NAME.fullmatch(name)))


def _in_list(text: str) -> Iterator[str]:
    for each in text.split(","):
        yield each.strip().partition("@")[2]


def _in_json(text: str) -> Iterator[str]:
    try:
        read: Any = json.loads(text)
    except ValueError:
        return
    for each in read:
        name = each.get("interface") if isinstance(each, dict) else None
        yield name if isinstance(name, str) else ""
