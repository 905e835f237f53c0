"""Which pools tolerate which taints, indexed by key and value, so that pools and nodes are not compared in pairs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.values.remembered import LastAnswers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.domain.cluster import Taint
    from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
    from weft.domain.spec import Toleration

    Taints = frozenset[Taint]

BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
# A toleration that matches taints in more domains than this is likely shared by other pools, so its answers are shared.
WIDE_DOMAINS = 16
REMEMBERED = 4096  # tolerations of pools

_NO_TAINTS: Taints = frozenset()


@dataclass(frozen=True, slots=True)
class Tolerated:
    """The taints of a fabric that a pool tolerates, and those of them that its wide tolerations match."""

    taints: Taints = _NO_TAINTS
    wide: Taints = _NO_TAINTS


NOTHING_TOLERATED = Tolerated()


@dataclass(frozen=True, slots=True, eq=False)
class TaintIndex:
    """The taints of a fabric that block pods, by key and value, and the positions of the domains that have them."""

    by_key: Mapping[str, Mapping[str, Sequence[Taint]]]
    places: Mapping[Taint, Sequence[int]]
    _matches: dict[Toleration, tuple[Taints, bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, domains: Sequence[NvlinkDomain]) -> TaintIndex:
        """Index the taints of all nodes of the domains."""
        places: dict[Taint, list[int]] = defaultdict(list)
        for place, domain in enumerate(domains):
            for taint in {taint for node in domain.nodes if node.taints for taint in node.taints}:
                if taint.effect in BLOCKING_EFFECTS:
                    places[taint].append(place)
        by_key: dict[str, dict[str, list[Taint]]] = defaultdict(lambda: defaultdict(list))
        for taint in places:
            by_key[taint.key][taint.value].append(taint)
        return cls(by_key, places)

    def tolerated(self, tolerations: Iterable[Toleration]) -> Tolerated:
        """The taints that any of these tolerations matches."""
        found = [self._matched(each) for each in tolerations]
        every = _NO_TAINTS.union(*(taints for taints, _ in found))
        return Tolerated(every, _NO_TAINTS.union(*(taints for taints, wide in found if wide)))

    def narrow_places(self, tolerated: Tolerated) -> set[int]:
        """Positions of the domains with a tolerated taint that no wide toleration matches."""
        return {place for taint in tolerated.taints - tolerated.wide for place in self.places[taint]}

    def _matched(self, toleration: Toleration) -> tuple[Taints, bool]:
        """The taints that one toleration matches, and whether it is a wide one."""
        if toleration not in self._matches:
            found = frozenset(taint for taint in self._candidates(toleration) if tolerates(toleration, taint))
            wide = sum(len(self.places[taint]) for taint in found) > WIDE_DOMAINS
            self._matches[toleration] = found, wide
        return self._matches[toleration]

    def _candidates(self, toleration: Toleration) -> Iterable[Taint]:
        """The taints that match its key and value, whatever their effects."""
        if toleration.operator != "Exists":
            return self.by_key.get(toleration.key, {}).get(toleration.value, ())
        if not toleration.key:
            return self.places
        return (taint for alike in self.by_key.get(toleration.key, {}).values() for taint in alike)


_LAST_INDEX: LastAnswers[object, TaintIndex] = LastAnswers(1)
_LAST: LastAnswers[TaintIndex, Tolerated] = LastAnswers(REMEMBERED)


def taints_of(fabric: Fabric) -> TaintIndex:
    """The index of the taints of all nodes, which does not depend on pods."""
    return _LAST_INDEX.ask("taints", fabric.layout or fabric.domains, lambda _: TaintIndex.of(fabric.domains))


def tolerated_by(tolerations: tuple[Toleration, ...], fabric: Fabric) -> Tolerated:
    """The taints of the fabric that a pool tolerates: pools that agree in it may use the same nodes."""
    if not tolerations:
        return NOTHING_TOLERATED
    return _LAST.ask(tolerations, taints_of(fabric), lambda index: index.tolerated(tolerations))


def is_tolerated(node: FabricNode, tolerated: Taints) -> Explanation | None:
    """Refuse a node with a taint that pods of this pool would not tolerate.

    A taint named like the resource is tolerated: every pod that asks for the resource gets that toleration.
    """
    for taint in node.taints:
        if taint.key != node.resource and taint.effect in BLOCKING_EFFECTS and taint not in tolerated:
            named = f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
            told = f"node {node.name} has the taint {named}, which spec.placement.tolerations does not tolerate"
            return Explanation(Reason.NodeTainted, told)
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration matches a taint, by Kubernetes' rule; NoExecute only without `tolerationSeconds`."""
    if toleration.effect not in {"", taint.effect}:
        return False
    if taint.effect == "NoExecute" and toleration.seconds is not None:
        return False
    if toleration.operator == "Exists":
        return toleration.key in {"", taint.key}
    return toleration.key == taint.key and toleration.value == taint.value
