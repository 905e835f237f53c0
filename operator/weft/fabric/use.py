"""What pods do with nodes: what they hold there, where they serve, and which replicas are spread over domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.crews import REMEMBERED, crews_of
from weft.domain.remembered import LastAnswers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.cluster import PodRecord

    _Held = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Use:
    """Devices that pods hold, by node and resource, and the nodes where one that holds some is ready."""

    held: _Held
    serving: frozenset[str]

    def changes_since(self, before: Use) -> set[str]:
        """Nodes with which pods do something else than before."""
        changed = {name for name, there in self.held.items() if before.held.get(name) != there}
        gone = before.held.keys() - self.held.keys()
        return changed | gone | (self.serving ^ before.serving)


_LAST: LastAnswers[tuple[PodRecord, ...], Use] = LastAnswers(REMEMBERED)


def use_of(pods: tuple[PodRecord, ...]) -> Use:
    """Of all pods together.

    A pod holds its devices from binding or nomination until it has ended; a terminating one still holds them.
    """
    held: dict[str, Mapping[str, int]] = {}
    serving: set[str] = set()
    for name, crew in crews_of(pods).items():
        use = _LAST.ask(name, crew, _use_of)
        serving |= use.serving
        for node, there in use.held.items():
            before = held.get(node)
            held[node] = there if before is None else _together(before, there)
    return Use(held, frozenset(serving))


def _together(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return {resource: one.get(resource, 0) + other.get(resource, 0) for resource in (*one, *other)}


def _use_of(crew: Iterable[PodRecord]) -> Use:
    held: dict[str, dict[str, int]] = {}
    serving = set()
    for pod in crew:
        if pod.holds_devices and pod.node is not None:
            there = held.setdefault(pod.node, {})
            for resource, count in pod.requests:
                there[resource] = there.get(resource, 0) + max(0, count)
            if pod.ready:
                serving.add(pod.node)
    return Use(held, frozenset(serving))
