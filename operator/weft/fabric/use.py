"""What pods use of nodes: the devices that they hold there, and where one of them is ready."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.crews import REMEMBERED, crews_of
from weft.domain.values.remembered import LastAnswers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.cluster import PodRecord
    from weft.domain.crews import Crews

    _Held = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Use:
    """Devices that pods hold, by node and resource, and the nodes where a pod that holds some is ready."""

    held: _Held
    serving: frozenset[str]

    def changes_since(self, before: Use) -> set[str]:
        """Return the nodes whose use by pods differs from `before`."""
        changed = {name for name, there in self.held.items() if before.held.get(name) != there}
        gone = before.held.keys() - self.held.keys()
        return changed | gone | (self.serving ^ before.serving)


@dataclass(frozen=True, slots=True, eq=False)
class _Summed:
    """The use of all crews together, the part of each crew, and which crews hold devices of each node."""

    crews: Crews
    parts: Mapping[str, Use]
    holders: Mapping[str, tuple[str, ...]]
    use: Use


_LAST: LastAnswers[tuple[PodRecord, ...], Use] = LastAnswers(REMEMBERED)
_LAST_SUM: LastAnswers[Crews, _Summed] = LastAnswers(1)
_NOTHING = _Summed({}, {}, {}, Use({}, frozenset()))


def use_of(pods: tuple[PodRecord, ...]) -> Use:
    """Sum up the devices that all pods hold, by node.

    A pod holds its devices from binding or nomination until it has ended; a terminating one still holds them.
    """
    before = _LAST_SUM.last("pods") or _NOTHING
    return _LAST_SUM.ask("pods", crews_of(pods), lambda crews: _summed(crews, before)).use


def _summed(crews: Crews, before: _Summed) -> _Summed:
    """Sum over all crews; only nodes of crews that changed since `before` are summed again."""
    known = before.crews
    others = [name for name, crew in crews.items() if known.get(name) != crew]
    gone = [name for name in known if name not in crews]
    parts, holders = dict(before.parts), dict(before.holders)
    touched: dict[str, None] = {}  # nodes, in order
    for name in (*gone, *others):
        held = parts.pop(name).held if name in parts else {}
        holders |= {node: tuple([each for each in holders[node] if each != name]) for node in held}
        touched |= dict.fromkeys(held)
    for name in others:
        use = parts[name] = _LAST.ask(name, crews[name], _use_of)
        holders |= {node: (*holders.get(node, ()), name) for node in use.held}
        touched |= dict.fromkeys(use.held)
    return _Summed(crews, parts, holders, _with_those(touched, parts, holders, before.use))


def _with_those(
    touched: Iterable[str], parts: Mapping[str, Use], holders: dict[str, tuple[str, ...]], before: Use
) -> Use:
    """Return the use of all nodes, with the `touched` ones summed anew; nodes that nobody uses are dropped."""
    held, serving = dict(before.held), set(before.serving)
    for node in touched:
        there = [parts[name] for name in holders[node]]
        if there:
            held[node] = functools.reduce(_together, [use.held[node] for use in there])
        else:
            del holders[node], held[node]
        if any(node in use.serving for use in there):
            serving.add(node)
        else:
            serving.discard(node)
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
