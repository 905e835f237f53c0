"""Find one slot: the tightest NVLink domain that holds the whole replica, so that large holes stay whole.

Rule: best fit counted in pods of the arriving shape, the rule of Kueue's topology-aware scheduling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import DomainRule
from weft.placement.eligibility import memory_of
from weft.placement.names import natural
from weft.placement.nearness import path_of
from weft.placement.refusal import NOBODY, PlacementRefusal, refuse
from weft.placement.rooms import rooms_for
from weft.placement.tally import NO_WISHES, Group, PlacementPreferences, crowding, crowding_of_zones, tally_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.freemap import FreeMap
    from weft.placement.rooms import Room
    from weft.placement.tally import Tally


@dataclass(frozen=True, slots=True)
class Slot:
    """Nodes of one replica; `nodes[rank]` is the node of pod `rank`."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Nodes that influence where a replica goes: of `siblings` in its pool, and of `partners` in the other half.

    KV travels a shorter way to a near partner, which counts for more than a tight fit: in its NVLink domain, below its
    leaf switch, in its block, and so on up to its zone. Where the pool wants to spread over zones, that comes first,
    and partners do not count.
    """

    siblings: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()


ALONE = Neighbours()

# The answer to callers that need no reasons, as those of all domains take many times as long to find.
NOBODY_ASKED = PlacementRefusal(Explanation(Reason.NoSlot, ""), ())


def find_slot(  # noqa: PLR0913 - what is looked for, where, and how
    shape: Shape,
    placement: PlacementSpec,
    free: FreeMap,
    neighbours: Neighbours = ALONE,
    needs: Pairs = (),
    *,
    own: frozenset[str] = NOBODY,
    tells: bool = True,
) -> Slot | PlacementRefusal:
    """Nodes for one replica of `shape`, or why there are none. Reserves nothing: the caller does.

    Pipeline stages share a domain unless `placement.domain` is Preferred; a stage itself never leaves one. `needs`
    is what each pod requests besides accelerators. `own` are holders that a refusal does not ask to make room. If
    nobody reads the reasons of a refusal, `tells` is False.
    """
    whole = find_whole(shape, placement, free, neighbours, needs)
    if whole is not None:
        return whole
    found: Slot | PlacementRefusal | None = _refused_before((shape, placement, needs, NOBODY), free)
    if found is None and not tells and not _may_spread(shape, placement):
        return NOBODY_ASKED
    found = found or _in_stages_or_not(shape, placement, free, neighbours, needs)
    if isinstance(found, Slot) or not tells or found.holders.isdisjoint(own):
        return found
    return _refusal(shape, placement, free, needs, own)


def _in_stages_or_not(
    shape: Shape, placement: PlacementSpec, free: FreeMap, neighbours: Neighbours, needs: Pairs
) -> Slot | PlacementRefusal:
    if _may_spread(shape, placement):
        stage = Group(
            max(1, shape.domain_group_gpus // shape.gpus_per_pod), shape.gpus_per_pod, memory=memory_of(needs)
        )
        rooms = rooms_for(shape, placement, free, needs)
        crowds = wishes_of(placement, neighbours, free)
        nodes = _stages_over_domains(rooms, stage, shape.pods // stage.pods, crowds, free)
        if nodes is not None:
            return Slot(nodes)
    return _refusal(shape, placement, free, needs)


def _refusal(
    shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs, own: frozenset[str] = NOBODY
) -> PlacementRefusal:
    """The refusal, which many replicas of one kind share until something changes."""
    asked = shape, placement, needs, own
    if (found := _refused_before(asked, free)) is not None:
        return found
    found = refuse(shape, rooms_for(shape, placement, free, needs), free, placement.domain, own)
    free.refusals[asked] = len(free.changes), found
    return found


def _refused_before(asked: Hashable, free: FreeMap) -> PlacementRefusal | None:
    seen, found = free.refusals.get(asked, (-1, None))
    return found if isinstance(found, PlacementRefusal) and seen == len(free.changes) else None


def _may_spread(shape: Shape, placement: PlacementSpec) -> bool:
    """Whether pipeline stages of one replica may be in different domains."""
    return shape.pipeline_parallel > 1 and shape.pods > 1 and placement.domain is DomainRule.Preferred


def find_whole(
    shape: Shape, placement: PlacementSpec, free: FreeMap, neighbours: Neighbours = ALONE, needs: Pairs = ()
) -> Slot | None:
    """Nodes of one NVLink domain for the whole replica, or None."""
    return find_in(tally_of(shape, placement, free, needs), placement, neighbours, free)


def find_in(tally: Tally, placement: PlacementSpec, neighbours: Neighbours, free: FreeMap) -> Slot | None:
    """The slot for a whole replica, given its tally, or None."""
    best = tally.tightest(wishes_of(placement, neighbours, free))
    return None if best is None else Slot(pick(tally.nodes(best), tally.group, free))


def wishes_of(placement: PlacementSpec, neighbours: Neighbours, free: FreeMap) -> PlacementPreferences:
    """Criteria besides a tight fit, from `placement.spread` and the neighbours."""
    if neighbours is ALONE:
        return NO_WISHES
    by_zone = placement.spread == "Zone"
    homes = {free.domain_of(node) for node in neighbours.partners} if not by_zone else set()
    near = tuple(sorted({path_of(free.fabric.domains[home]) for home in homes if home is not None}))
    if by_zone:
        return PlacementPreferences(near, {}, crowding_of_zones(neighbours.siblings, free))
    return PlacementPreferences(near, crowding(neighbours.siblings, free) if placement.spread == "Domain" else {})


def pick(names: Sequence[str], group: Group, free: FreeMap) -> tuple[str, ...]:
    """Nodes for one group out of `names`, which hold it: the fullest that fit, and as close by name as possible.

    `names` are in natural order.
    """
    left = free.each(names, joins=group.joins, memory=group.memory)
    fitting = sorted((gpus, position) for position, gpus in enumerate(left) if gpus >= group.gpus_per_pod)
    if group.pods == 1:
        return (names[fitting[0][1]],)
    roomiest = fitting[group.pods - 1][0]
    usable = sorted(position for gpus, position in fitting if gpus <= roomiest)
    spans = [(usable[start + group.pods - 1] - usable[start], start) for start in range(len(usable) - group.pods + 1)]
    start = min(spans)[1]
    return tuple(names[position] for position in usable[start : start + group.pods])


def _stages_over_domains(
    rooms: Sequence[Room], stage: Group, stages: int, wishes: PlacementPreferences, free: FreeMap
) -> tuple[str, ...] | None:
    """Nodes for pipeline stages in as few domains of one zone as possible, each stage whole inside one domain.

    The zone is one with the fewest siblings, if that is wished; of domains with equal room those with the fewest.
    """
    crowds = {free.fabric.domains[index].name: pods for index, pods in wishes.in_domain.items()}
    for zone in sorted({room.zone for room in rooms}, key=lambda zone: (wishes.in_zone.get(zone, 0), zone)):
        names = {room.name: _in_order(room) for room in rooms if room.zone == zone}
        slots = {name: _stages_in(nodes, stage, free) for name, nodes in names.items()}
        if sum(slots.values()) >= stages:
            order = sorted(names, key=lambda name: (-slots[name], crowds.get(name, 0), natural(name)))
            return tuple(_fill([names[name] for name in order], stage, stages, free))
    return None


def _in_order(room: Room) -> list[str]:
    return sorted((node.name for node in room.nodes), key=natural)


def _stages_in(nodes: Sequence[str], stage: Group, free: FreeMap) -> int:
    """How many stages of one replica fit: unlike different replicas, they share no node."""
    return sum(gpus >= stage.gpus_per_pod for gpus in free.each(nodes, memory=stage.memory)) // stage.pods


def _fill(rooms: Sequence[list[str]], stage: Group, stages: int, free: FreeMap) -> list[str]:
    nodes: list[str] = []
    for room in rooms:
        left = room
        while len(nodes) < stages * stage.pods and _stages_in(left, stage, free):
            taken = pick(left, stage, free)
            left = [node for node in left if node not in taken]  # every pod has a node of its own
            nodes.extend(taken)
    return nodes
