"""Which generations of a split have a front, and why those fronts do not answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.converge.generations import Generation, fronts_wanted, generations_of, shown_to_a_picker
from weft.converge.serving import front_trouble, route_trouble
from weft.domain.spec import RouterKind
from weft.render import ENDPOINTS, pair_of, shown_pair

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.converge.children import SideState
    from weft.converge.objects import ObjectsAround
    from weft.converge.replicas import Replica
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import SplitRecord


@dataclass(frozen=True, slots=True)
class Routing:
    """Generations of a split, the current one first, which of them have a front, and why those fronts do not answer.

    `routers` is the number of routers by pair. Clients that choose pods themselves are their own front. `taken` is why
    no generation can be reached: a name that the split needs belongs to somebody else. `managed` says that the fronts
    are routers of Weft, behind the split's Service. Behind a Gateway only replicas that its picker finds count.
    """

    known: tuple[Generation, ...]
    routers: Mapping[str, int]
    trouble: Mapping[str, Explanation | None]
    lacks: Explanation | None = None  # what the cluster lacks for a Gateway, whose objects cannot be seen then
    taken: Explanation | None = None
    managed: bool = False

    @classmethod
    def of(cls, split: SplitRecord, sides: Sequence[SideState], around: ObjectsAround) -> Routing:
        """Routing by replicas, fronts and routes as they are; `around` has the objects of the split's namespace."""
        known = generations_of(pair_of(split), [side.replicas for side in sides])
        if split.router_kind is RouterKind.Gateway:
            return cls.at_a_gateway(pair_of(split), sides, around)
        managed = split.router_kind is RouterKind.Managed
        trouble = {each.pair: front_trouble(around, each.pair) if managed else None for each in known}
        usual = split.spec.router.replicas if split.spec is not None else 0
        taken_over = any(min(each.staying) > 0 and trouble[each.pair] is None for each in known)
        return cls(known, fronts_wanted(known, usual, taken_over=taken_over), trouble, managed=managed)

    @classmethod
    def at_a_gateway(cls, current: str, sides: Sequence[SideState], around: ObjectsAround) -> Routing:
        """Routing with one endpoint picker instead of routers, which is shown one generation."""
        known = generations_of(current, [[each for each in side.replicas if _is_found(each)] for side in sides])
        desired = [side.census.desired if side.census is not None else 0 for side in sides]
        endpoints = around.mine(*ENDPOINTS, around.owner.name)
        shown = shown_to_a_picker(known, desired, shown_pair(endpoints))
        lacks = lacks_for_a_gateway(sides)
        return cls(known, {shown.pair: 1}, {shown.pair: lacks or route_trouble(around)}, lacks)

    @property
    def current(self) -> Generation:
        """The generation that the split's spec and engine release ask for."""
        return self.known[0]

    @property
    def pairs(self) -> tuple[Generation, ...]:
        """Generations that have a front and of which both halves answer."""
        return tuple(each for each in self.known if each.is_pair and each.pair in self.routers)

    @property
    def serves(self) -> bool:
        """Whether any generation is a pair with a front that answers."""
        return self.taken is None and any(self.trouble[each.pair] is None for each in self.pairs)

    @property
    def serves_the_current(self) -> bool:
        """Whether the current generation is a pair with a front that answers."""
        return self.taken is None and self.current in self.pairs and self.trouble[self.current.pair] is None

    @property
    def reached(self) -> frozenset[str]:
        """The pairs behind a front that answers."""
        return frozenset(each.pair for each in self.pairs if self.trouble[each.pair] is None)

    @property
    def awaited(self) -> Explanation | None:
        """Why the current generation is not reached although it is a pair; None where it is, or is none."""
        if not self.current.is_pair or self.serves_the_current:
            return None
        return self.taken or self.trouble.get(self.current.pair)

    @property
    def only(self) -> str:
        """The one pair that the Service may choose, where another front has no whole pair; empty where all may be.

        It is one whose front answers, if there is any: of the others no router takes the requests.
        """
        if not self.pairs or len(self.pairs) == len(self.routers):
            return ""
        return max(self.pairs, key=lambda each: (self.trouble[each.pair] is None, min(each.answering))).pair


def _is_found(replica: Replica) -> bool:
    """Whether an endpoint picker finds it: engines that were rendered for routers lack the label, and the sidecar."""
    return all(pod.split_uid for pod in replica.pods if pod.api_servers)


def lacks_for_a_gateway(sides: Sequence[SideState]) -> Explanation | None:
    """What the cluster lacks for the Gateway of a split; None where it lacks nothing or the split asks for none."""
    return next((side.pool.lacks for side in sides if side.pool is not None), None)
