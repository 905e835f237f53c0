"""Rules of placement that hold for any fabric: nothing is promised twice (S2), no group leaves its domain (S9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.cluster import board, busy, rack
from tests.placement.cases import free_map, tp
from weft.domain.spec import DomainRule, PlacementSpec
from weft.domain.status import Assignment
from weft.placement import Hold, Slot, find_slot, leaves_domain

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.shape import Shape

NODES = [*rack("a.1", 5), *rack("b.1", 3), *(board(f"b-{index}") for index in range(3))]
SHAPES = [
    *(tp(size, "GB200") for size in (1, 2, 4, 8, 16)),
    *(tp(size) for size in (1, 2, 4, 8)),
    *(tp(8, "GB200", stages=2), tp(8, stages=2), tp(4, "GB200", per_pod=2)),
]

APART = PlacementSpec(domain=DomainRule.Preferred)

held = st.lists(st.tuples(st.sampled_from(NODES), st.integers(1, 8)), max_size=8)


@given(held=held, arrivals=st.lists(st.sampled_from(SHAPES), max_size=12))
def test_arrivals_fill_the_fabric_without_overlap(held: list[tuple[NodeRecord, int]], arrivals: list[Shape]) -> None:
    """Whatever runs already: every slot had its GPUs free, and every group shares one NVLink domain."""
    pods = [busy(f"p{index}", node.name, gpus) for index, (node, gpus) in enumerate(held)]
    free = free_map(NODES, *pods)
    for replica, shape in enumerate(arrivals):
        found = find_slot(shape, APART, free)
        if not isinstance(found, Slot):
            continue
        assert len(set(found.nodes)) == len(found.nodes) == shape.pods
        assert not leaves_domain(Assignment(replica, "r", found.nodes, shape.gpus_per_pod, 0.0), shape, free.fabric)
        for node in found.nodes:
            assert free.on(node) >= shape.gpus_per_pod
            free.reserve(Hold(node, shape.gpus_per_pod, "pool a/b"))


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
