"""Additional network interfaces of an engine pod: those that its annotation asks for by name.

The annotation is that of the Network Plumbing Working Group, which Multus reads: `team/fast@net1, other`, or a JSON
list of objects with `name` and `interface`. Networks without an interface name are taken to serve another purpose.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.spec import PodSpec

NETWORKS = "k8s.v1.cni.cncf.io/networks"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,15}")  # what Linux accepts, without separators of lists


def named_interfaces(pod: PodSpec) -> tuple[str, ...]:
    """The interface names in annotation order; none if it cannot be read, as Multus refuses such pods."""
    text = dict(pod.annotations).get(NETWORKS, "").strip()
    found = _in_json(text) if text.startswith("[") else _in_list(text)
    return tuple(dict.fromkeys(name for name in found if _NAME.fullmatch(name)))


def _in_list(text: str) -> Iterator[str]:
    for each in text.split(","):
        yield each.strip().partition("@")[2]


def _in_json(text: str) -> Iterator[str]:
    try:
        read: Any = json.loads(text)
    except (ValueError, RecursionError):
        return
    for each in read:
        name = each.get("interface") if isinstance(each, dict) else None
        yield name if isinstance(name, str) else ""
