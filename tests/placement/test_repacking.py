"""Moves that open a slot: surge first, bounded, smallest first, and nobody who may not be moved."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.fabric.cluster import board, busy, nvlink_domain, rack
from tests.placement.cases import ANYWHERE, free_map, tp
from weft.domain.spec import PlacementSpec
from weft.placement import FreeMap, Hold, Movable, Move, Repacking, Requirements, Slot, find_slot, repack, still_opens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.domain.cluster import NodeRecord

GOLD = PlacementSpec(node_selector=(("tier", "gold"),))
SPARING = PlacementSpec(spare_nodes_per_domain=1)


def required(gpus: int, placement: PlacementSpec = ANYWHERE, per_pod: int | None = None) -> Requirements:
    return Requirements(tp(gpus, "GB200", per_pod=per_pod), placement)


def at(owner: str, gpus: int, *nodes: str, placement: PlacementSpec = ANYWHERE) -> Movable:
    return Movable(owner, required(gpus, placement), nodes)


def trays(clique: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{clique}-t{number}" for number in numbers)


def holding(nodes: list[NodeRecord], movable: Sequence[Movable], *others: tuple[str, int]) -> FreeMap:
    """The fabric with these replicas on it, and GPUs that others hold."""
    free = free_map(nodes, *(busy(f"other-{index}", node, gpus) for index, (node, gpus) in enumerate(others)))
    for each in movable:
        for node in each.nodes:
            free.reserve(Hold(node, each.gpus_per_pod, each.owner))
    return free


class TestChoice:
    """What is moved, and where to."""

    def test_a_replica_in_the_way_goes_to_the_tightest_hole_elsewhere(self) -> None:
        movable = [at("chat/0", 1, "a.1-t1")]
        free = holding([*rack("a.1", 4), *rack("b.1", 3), *rack("c.1", 3)], movable, ("b.1-t2", 2), ("c.1-t0", 3))
        assert repack(required(16), movable, free, 1) == Repacking(
            (Move("chat/0", ("a.1-t1",), ("c.1-t0",), 1),), Slot(trays("a.1", 0, 1, 2, 3))
        )

    def test_the_fewest_gpus_move(self) -> None:
        """Two single GPUs rather than one replica of two trays, but that one where a single move is allowed."""
        movable = [at("a", 1, "a.1-t0"), at("b", 1, "a.1-t1"), at("big", 8, *trays("b.1", 0, 1))]
        free = holding([*rack("a.1", 4), *rack("b.1", 4), *rack("c.1", 2)], movable)
        two, one = repack(required(16), movable, free, 2), repack(required(16), movable, free, 1)
        assert two is not None
        assert one is not None
        assert ["a", "b"] == sorted(move.owner for move in two.moves)
        assert ["big"] == [move.owner for move in one.moves]

    def test_nobody_waits_for_another_to_leave(self) -> None:
        """Two moves one after the other would do: whoever is in the way of the target has to be waited for."""
        movable = [at("four", 16, *trays("a.1", 0, 1, 2, 3)), at("two", 8, *trays("b.1", 0, 1))]
        nodes = [*rack("a.1", 8), *rack("b.1", 4)]
        assert repack(required(32), movable, holding([*nodes, *rack("c.1", 2)], movable), 2) is None
        assert repack(required(32), movable, holding([*nodes, *rack("c.1", 4)], movable), 2) is not None

    def test_a_source_is_no_target_while_it_is_held(self) -> None:
        """Surge first: two trays cannot swap what is on them."""
        movable = [at("a", 4, "a.1-t0"), at("b", 2, "a.1-t1")]
        assert repack(required(8), movable, holding(rack("a.1", 3), movable, ("a.1-t2", 2)), 8) is None

    def test_a_replica_moves_within_its_domain(self) -> None:
        movable = [at("a", 2, "a.1-t0")]
        free = holding(rack("a.1", 3), movable, ("a.1-t1", 1), ("a.1-t2", 0))
        found = repack(required(8), movable, free, 1)
        assert found == Repacking((Move("a", ("a.1-t0",), ("a.1-t1",), 2),), Slot(("a.1-t0", "a.1-t2")))

    def test_no_move_where_it_fits_already(self) -> None:
        assert repack(required(8), [], free_map(rack("a.1", 2)), 1) == Repacking((), Slot(trays("a.1", 0, 1)))

    def test_no_moves_are_allowed_or_nothing_may_be_moved(self) -> None:
        movable = [at("a", 1, "a.1-t0")]
        free = holding([*rack("a.1", 2), *rack("b.1", 1)], movable)
        assert repack(required(8), movable, free, 0) is None
        assert repack(required(8), [], free, 8) is None
        assert repack(required(8), movable, free, 1) is not None

    def test_a_pool_that_may_only_use_some_nodes_stays_on_them(self) -> None:
        movable = [at("a", 1, "a.1-t0", placement=GOLD)]
        nodes = [*rack("a.1", 2), *rack("b.1", 1)]
        assert repack(required(8), movable, holding(nodes, movable), 1) is None
        gilded = [replace(node, labels=(*node.labels, ("tier", "gold"))) for node in nodes]
        assert repack(required(8), movable, holding(gilded, movable), 1) is not None

    def test_a_dearer_replica_moves_where_the_cheaper_one_has_no_place_beside_the_slot(self) -> None:
        """The two GPUs on t1 may go to rack a.1 only, where the slot takes the free tray."""
        movable = [at("a", 2, "a.1-t1", placement=GOLD), at("b", 4, "a.1-t2")]
        gold = [replace(node, labels=(*node.labels, ("tier", "gold"))) for node in rack("a.1", 3)]
        found = repack(required(8), movable, holding([*gold, *rack("b.1", 1)], movable), 1)
        assert found == Repacking((Move("b", ("a.1-t2",), ("b.1-t0",), 4),), Slot(("a.1-t0", "a.1-t2")))

    def test_boards_are_cleared_too(self) -> None:
        movable = [Movable(f"m{index}", Requirements(tp(2), ANYWHERE), (f"b-{index}",)) for index in range(3)]
        free = holding([board(f"b-{index}") for index in range(3)], movable, ("b-0", 5), ("b-2", 3))
        found = repack(Requirements(tp(8), ANYWHERE), movable, free, 1)
        assert found == Repacking((Move("m1", ("b-1",), ("b-2",), 2),), Slot(("b-1",)))


@dataclass(frozen=True)
class World:
    """A fabric with replicas that sit anywhere, and one that has no place."""

    nodes: list[NodeRecord]
    movable: list[Movable]
    fixed: list[tuple[str, int]]
    wanted: Requirements
    domains: dict[str, str]

    @property
    def free(self) -> FreeMap:
        return holding(self.nodes, self.movable, *self.fixed)

    def may_use(self, required: Requirements, node: str) -> bool:
        return required.placement != GOLD or self.domains[node] in {"d0.1", "d2.1"}


KINDS = [required(gpus) for gpus in (1, 2, 4, 8, 16, 32)]
KINDS += [required(4, GOLD), required(8, GOLD), required(4, per_pod=2), required(8, SPARING), required(2, SPARING)]


@st.composite
def worlds(draw: st.DrawFn, trays: int, kinds: Sequence[Requirements] = KINDS, per_node: int = 4) -> World:
    """Domains of up to so many trays, in random states: not only those that a best fit would leave behind."""
    sizes = draw(st.lists(st.integers(1, trays), min_size=3, max_size=6))
    nodes = [node for index, size in enumerate(sizes) for node in rack(f"d{index}.1", size)]
    nodes = [
        replace(node, labels=(*node.labels, ("tier", "gold"))) if re.match(r"d[02]", node.name) else node
        for node in nodes
    ]
    devices = (("nvidia.com/gpu", per_node),)
    nodes = [replace(node, capacity=devices, allocatable=devices) for node in nodes]
    domains = {node.name: nvlink_domain(node) for node in nodes}
    empty = World(nodes, [], [], draw(st.sampled_from(kinds)), domains)
    chance, left = Random(draw(st.integers(0, 2**32))), Counter({node.name: per_node for node in nodes})
    attempts = draw(st.sampled_from((1, 2, 3))) * len(nodes)
    movable: list[Movable] = []
    fixed: list[tuple[str, int]] = []
    for number in range(attempts):
        kind = draw(st.sampled_from(kinds)) if number < 6 else chance.choice(kinds)
        domain = f"d{chance.randrange(len(sizes))}.1"
        fitting = [name for name in left if empty.domains[name] == domain and left[name] >= kind.shape.gpus_per_pod]
        fitting = [name for name in fitting if empty.may_use(kind, name)]
        if len(fitting) < kind.shape.pods:
            continue
        taken = tuple(chance.sample(fitting, kind.shape.pods))
        left.subtract(dict.fromkeys(taken, kind.shape.gpus_per_pod))
        if chance.random() < 0.8:
            movable.append(Movable(f"r{number}", kind, taken))
        else:
            fixed += [(name, kind.shape.gpus_per_pod) for name in taken]
    return replace(empty, movable=movable, fixed=fixed)


def does_it(world: World, found: Repacking) -> None:
    """Take all targets before any source is left, which is every order at once; at the end the slot is free."""
    used: Counter[str] = Counter()
    where = {each.owner: each for each in world.movable}
    for name, gpus in (*world.fixed, *((name, each.gpus_per_pod) for each in world.movable for name in each.nodes)):
        used[name] += gpus
    for move in found.moves:
        moved = where.pop(move.owner)  # nobody moves twice, nobody who may not
        assert moved.nodes == move.source
        assert moved.required.shape.pods == len(set(move.target))
        assert 1 == len({world.domains[name] for name in move.target})
        assert all(world.may_use(moved.required, name) for name in move.target)
        used.update(dict.fromkeys(move.target, moved.gpus_per_pod))
    assert max(used.values(), default=0) <= 4
    for move in found.moves:
        used.subtract(dict.fromkeys(move.source, move.gpus_per_pod))
    slot, shape = found.slot.nodes, world.wanted.shape
    assert shape.pods == len(set(slot))
    assert 1 == len({world.domains[name] for name in slot})
    assert all(used[name] + shape.gpus_per_pod <= 4 and world.may_use(world.wanted, name) for name in slot)


@given(world=worlds(18), most_moves=st.integers(0, 8))
def test_moves_open_the_slot_and_overcommit_nothing(world: World, most_moves: int) -> None:
    """Whatever is where: at most so many moves, only of those that may, and the map is as it was."""
    free = world.free
    names = list(world.domains)
    before = free.each(names)
    found = repack(world.wanted, world.movable, free, most_moves)
    assert before == free.each(names)
    if found is not None:
        assert len(found.moves) <= most_moves
        does_it(world, found)


@given(world=worlds(12), seed=st.integers(0, 2**32))
def test_the_order_of_a_listing_changes_nothing(world: World, seed: int) -> None:
    shuffled = Random(seed)
    nodes, movable = list(world.nodes), list(world.movable)
    shuffled.shuffle(nodes)
    shuffled.shuffle(movable)
    other = replace(world, nodes=nodes, movable=movable)
    assert repack(world.wanted, world.movable, world.free, 4) == repack(world.wanted, movable, other.free, 4)


@settings(max_examples=300)
@given(world=worlds(12), replaced=st.integers(0, 8))
def test_moves_that_are_under_way_still_open_the_slot(world: World, replaced: int) -> None:
    """However many have taken their targets already: the others' places are beside them and beside the slot."""
    free = world.free
    found = repack(world.wanted, world.movable, free, 8)
    if found is None or not found.moves:
        return
    owners = [move.owner for move in found.moves]
    taken = [(node, move.gpus_per_pod) for move in found.moves[:replaced] for node in move.target]
    for node, gpus in taken:
        free.reserve(Hold(node, gpus, "successor"))
    leaving = [each for each in world.movable if each.owner in owners]
    again = still_opens((world.wanted, found.slot), leaving, set(owners[:replaced]), free)
    assert again is not None
    staying = [each for each in world.movable if each not in leaving]
    assert {move.owner for move in again.moves} == set(owners[replaced:])
    room = holding(world.nodes, staying, *world.fixed, *taken)
    assert found.slot == again.slot
    assert all(room.on(node) >= world.wanted.shape.gpus_per_pod for node in again.slot.nodes)


PLAIN = [kind for kind in KINDS if kind.placement != SPARING]
# Pods that leave room for others on nodes of 8 GPUs: one that moves may stay in its domain, beside the slot.
PARTS = [required(gpus, per_pod=per_pod) for gpus in (2, 4, 8, 16) for per_pod in (1, 2, 4, 8) if per_pod <= gpus]


@given(world=st.one_of(worlds(6, PLAIN), worlds(5, PARTS, per_node=8)))
def test_where_one_move_is_enough_one_is_found(world: World) -> None:
    """Against every choice of one replica, of the slot's nodes and of the domain that it moves to."""
    free = world.free
    assume(not isinstance(find_slot(world.wanted.shape, world.wanted.placement, free), Slot))
    found = repack(world.wanted, world.movable, free, 1)
    assert any(_one_move_does_it(world, free, each) for each in world.movable) == (found is not None)


def _one_move_does_it(world: World, free: FreeMap, moved: Movable) -> bool:
    """While it moves it is in both places: what the slot takes of its source only counts when it has left."""
    pods, gpus = world.wanted.shape.pods, world.wanted.shape.gpus_per_pod
    left = {name: free.on(name) for name in world.domains}
    after = {name: left[name] + moved.gpus_per_pod * (name in moved.nodes) for name in left}
    for domain in set(world.domains.values()):
        fitting = [name for name in left if world.domains[name] == domain and after[name] >= gpus]
        for slot in combinations([name for name in fitting if world.may_use(world.wanted, name)], pods):
            room = {name: min(left[name], after[name] - gpus * (name in slot)) for name in left}
            if _fits(world, moved.required, room):
                return True
    return False


def _fits(world: World, required: Requirements, room: dict[str, int]) -> bool:
    places = [name for name in room if room[name] >= required.shape.gpus_per_pod and world.may_use(required, name)]
    return max(Counter(world.domains[name] for name in places).values(), default=0) >= required.shape.pods
