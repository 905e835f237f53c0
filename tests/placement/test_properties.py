"""Rules of placement that hold for any fabric: nothing is promised twice (S2), no group leaves its domain (S9)."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.cluster import board, busy, nvlink_domain, rack
from tests.placement.cases import experts, free_map, stages_apart, tp
from weft.domain.spec import DomainRule, PlacementSpec
from weft.domain.status import Assignment
from weft.placement import Hold, PlacementRefusal, Slot, find_slot, leaves_domain

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.shape import Shape
    from weft.placement import FreeMap

NODES = [*rack("a.1", 9), *rack("b.1", 5), *(board(f"b-{index}") for index in range(3))]
GPUS = {node.name: node.allocatable[0][1] for node in NODES}
DOMAINS = {node.name: nvlink_domain(node) for node in NODES}
SHAPES = [
    *(tp(size, "GB200") for size in (1, 2, 4, 8, 16)),
    *(tp(size) for size in (1, 2, 4, 8)),
    *(tp(8, "GB200", stages=2), tp(8, stages=2), tp(4, "GB200", per_pod=2)),
    *(experts(1, 8), experts(2, 4), experts(1, 8, stages=2)),
    *(experts(1, 8, "GB200"), experts(2, 8, "GB200"), experts(1, 32, "GB200"), experts(2, 4, "GB200", stages=2)),
]

APART = PlacementSpec(domain=DomainRule.Preferred)

held = st.lists(st.tuples(st.sampled_from(NODES), st.integers(1, 8)), max_size=8)


@given(held=held, arrivals=st.lists(st.sampled_from(SHAPES), max_size=12))
def test_arrivals_fill_the_fabric_without_overlap(held: list[tuple[NodeRecord, int]], arrivals: list[Shape]) -> None:
    """Whatever runs already: every slot had its GPUs free, and every stage shares one NVLink domain."""
    pods = [busy(f"p{index}", node.name, gpus) for index, (node, gpus) in enumerate(held)]
    free = free_map(NODES, *pods)
    given: Counter[str] = Counter()
    for node, gpus in held:
        given[node.name] += gpus
    for shape in arrivals:
        found = find_slot(shape, APART, free)
        if not isinstance(found, Slot):
            continue
        assert len(set(found.nodes)) == len(found.nodes) == shape.pods
        assert stages_apart(shape, found.nodes, DOMAINS) == []
        for name in found.nodes:
            given[name] += shape.gpus_per_pod
            assert given[name] <= GPUS[name]
            free.reserve(Hold(name, shape.gpus_per_pod, "pool a/b"))


@given(shape=st.sampled_from(SHAPES), data=st.data())
def test_the_second_look_finds_every_stage_that_is_apart(shape: Shape, data: st.DataObject) -> None:
    """It agrees with a count of the GPUs, wherever a replica sits by now."""
    names = [node.name for node in NODES if (GPUS[node.name] == 4) == (shape.accelerator == "GB200")]
    near = sorted(names, key=lambda name: DOMAINS[name] != DOMAINS[names[0]])
    nodes = data.draw(st.one_of(st.just(near), st.permutations(names)))
    nodes = (nodes * shape.pods)[: shape.pods]
    seen = leaves_domain(Assignment(0, "r", tuple(nodes), shape.gpus_per_pod, 0.0), shape, free_map(NODES).fabric)
    assert seen == bool(stages_apart(shape, nodes, DOMAINS))


@given(held=held, shape=st.sampled_from(SHAPES))
def test_a_refusal_is_true(held: list[tuple[NodeRecord, int]], shape: Shape) -> None:
    """Where a replica is refused, no single domain has as many nodes with room as one of its groups needs."""
    pods = [busy(f"p{index}", node.name, gpus) for index, (node, gpus) in enumerate(held)]
    free = free_map(NODES, *pods)
    if isinstance(find_slot(shape, APART, free), Slot) or shape.pipeline_parallel > 1:
        return
    for domain in free.fabric.domains:
        fitting = [node for node in domain.nodes if free.on(node.name) >= shape.gpus_per_pod]
        assert domain.accelerator != shape.accelerator or len(fitting) < shape.pods


@given(held=held, shape=st.sampled_from(SHAPES), spares=st.integers(0, 3))
def test_what_a_refusal_asks_for_makes_room(held: list[tuple[NodeRecord, int]], shape: Shape, spares: int) -> None:
    """Spares or not: to free what the sentence says, never nothing and never less, is enough for the replica."""
    used = {node.name: min(gpus, node.allocatable[0][1]) for node, gpus in held}  # no node gives more than it has
    pods = [busy(f"on-{name}", name, gpus) for name, gpus in used.items()]
    free = free_map(NODES, *pods)
    placement = PlacementSpec(domain=DomainRule.Preferred, spare_nodes_per_domain=spares)
    found = find_slot(shape, placement, free)
    if not isinstance(found, PlacementRefusal):
        return
    message = found.explanation.message
    assert all(int(number) > 0 for number in re.findall(r"\bfree (-?\d+)", message))
    if shape.pipeline_parallel == 1 and _does_what_it_asks(message, shape, free):
        assert isinstance(find_slot(shape, placement, free), Slot), message


def _does_what_it_asks(message: str, shape: Shape, free: FreeMap) -> bool:
    """Free what `message` asks for, or say that it asks for nothing."""
    if on_node := re.search(r"free (\d+) GPUs? more on ([\w.-]+)", message):
        free.reserve(Hold(on_node[2], -int(on_node[1]), "nobody"))
        return True
    nodes = re.search(r"([\w.]+) comes nearest .* free (\d+) more of its nodes", message)
    if nodes is None and (named := re.search(r"free (\d+) more of the nodes of ([\w.]+)", message)):
        domain, count = named[2], int(named[1])
    elif nodes is not None:
        domain, count = nodes[1], int(nodes[2])
    else:
        return False
    cleared = [
        node
        for node in free.fabric.nodes().values()
        if node.domain == domain and free.on(node.name) < shape.gpus_per_pod
    ][:count]
    assert len(cleared) == count, message
    for node in cleared:
        free.reserve(Hold(node.name, free.on(node.name) - node.total, "nobody"))
    return True
