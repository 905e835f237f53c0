"""Machines under the replicas: which do not answer, which are gone, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.decide.replicas.health import NODE_LOST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from weft.domain.cluster import NodeRecord
    from weft.domain.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Machines:
    """All nodes by name; `silent` do not answer, `away_since` tells since when they have not, or have been gone.

    One that registers again is not ready at first, and gone until it is, as long as it may be.
    """

    nodes: Mapping[str, NodeRecord]
    silent: frozenset[str]
    away_since: Mapping[str, float]

    @classmethod
    def of(cls, snapshot: Snapshot) -> Machines:
        """The machines of a snapshot, with what was known of those that are away."""
        nodes = {node.name: node for node in snapshot.nodes}
        silent = {name for name, node in nodes.items() if not node.ready}
        away, memories = dict.fromkeys(silent, snapshot.now), snapshot.memory.values()
        for name, since in (entry for memory in memories for entry in memory.nodes_away):
            if name in silent or name not in nodes:
                away[name] = min(away.get(name, snapshot.now), since)
        for name in silent & {name for memory in memories for name in memory.nodes_gone}:
            if snapshot.heard - away[name] < NODE_LOST_SECONDS:
                silent.remove(name)
                del nodes[name]
        return cls(nodes, frozenset(silent), away)

    def carry(self, names: AbstractSet[str]) -> bool:
        """Whether all of these exist and answer."""
        return self.silent.isdisjoint(names) and self.nodes.keys() >= names

    def gone(self, names: Iterable[str]) -> list[str]:
        """Those that do not exist, in the order given."""
        return [name for name in names if name not in self.nodes]

    def away(self, names: AbstractSet[str], now: float) -> tuple[tuple[str, float], ...]:
        """Those that are gone or silent, sorted, with since when (epoch seconds)."""
        away = (*self.gone(names), *names & self.silent)
        return tuple(sorted((name, self.away_since.get(name, now)) for name in away))
