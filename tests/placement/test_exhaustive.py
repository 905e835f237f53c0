"""A replica is refused only where there is no place at all: against every choice of nodes on small fabrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TYPE_CHECKING

from hypothesis import event, given
from hypothesis import strategies as st

from tests.fabric.cluster import board, busy, nvlink_domain, rack
from tests.placement.cases import experts, free_map, stages_apart, tp
from weft.domain.cluster import Taint
from weft.domain.spec import DomainRule, PlacementSpec, Toleration
from weft.placement import Slot, find_slot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.shape import Shape

GB200 = "GB200"
SHAPES = [
    *(tp(size, GB200) for size in (1, 2, 4, 8, 16)),
    *(tp(4, GB200, per_pod=2), tp(8, GB200, per_pod=2), tp(4, GB200, stages=2), tp(8, GB200, stages=2)),
    *(tp(2, GB200, stages=2, per_pod=2), experts(1, 8, GB200), experts(2, 4, GB200)),
    *(tp(1), tp(8), tp(8, stages=2), tp(4, stages=2, per_pod=4)),
]
DEDICATED = Taint("dedicated", "inference", "NoSchedule")
PREFERENCE = Taint("better-not", "", "PreferNoSchedule")
TOLERANT = (Toleration("dedicated", "Equal", "inference", "NoSchedule", None),)
NEEDS = (("rdma/ib", "2"),)


@dataclass(frozen=True)
class Case:
    """A small fabric in any state, what runs on it, and what is asked of it."""

    nodes: list[NodeRecord]
    pods: list[PodRecord]
    shape: Shape
    placement: PlacementSpec
    needs: tuple[tuple[str, str], ...]

    @property
    def left(self) -> Mapping[str, int]:
        """GPUs by node that nobody holds."""
        left = Counter({node.name: dict(node.allocatable)["nvidia.com/gpu"] for node in self.nodes})
        left.subtract({pod.node: pod.requests[0][1] for pod in self.pods if pod.node})
        return left

    def may_use(self, node: NodeRecord) -> bool:
        """Whether a pod of the pool could run there on an empty node, by Kubernetes' rules."""
        placement, labels = self.placement, dict(node.labels)
        tolerated = all(taint == PREFERENCE or placement.tolerations == TOLERANT for taint in node.taints)
        selected = all(labels.get(key) == value for key, value in placement.node_selector)
        kind = ("GB200" in labels["nvidia.com/gpu.product"]) == (self.shape.accelerator == GB200)
        enough = not self.needs or dict(node.offers or ()).get("rdma/ib", 0) >= int(self.needs[0][1])
        return node.ready and not node.cordoned and tolerated and selected and kind and enough


@st.composite
def nodes_in_any_state(draw: st.DrawFn) -> list[NodeRecord]:
    """At most nine: two racks in two zones, and boards."""
    found = [*rack("a.1", draw(st.integers(0, 4))), *rack("b.1", draw(st.integers(0, 3)))]
    found += [board(f"b-{index}") for index in range(draw(st.integers(0, 2)))]
    changed = []
    for node in found:
        zone = ("topology.kubernetes.io/zone", draw(st.sampled_from(["east", "west"])) if "b-" in node.name else "east")
        zone = (zone[0], "west") if node.name.startswith("b.1") and draw(st.booleans()) else zone
        tier = draw(st.sampled_from([(), (("tier", "gold"),)]))
        ((resource, gpus),) = node.capacity
        healthy = draw(st.sampled_from([gpus] * 6 + [gpus - 1, 0]))
        node = replace(  # noqa: PLW2901 - it is the node that the case is about
            node,
            labels=tuple(sorted((*node.labels, zone, *tier))),
            allocatable=((resource, healthy),),
            taints=draw(st.sampled_from([(), (), (), (DEDICATED,), (PREFERENCE,)])),
            cordoned=draw(st.integers(0, 7)) == 7,
            ready=draw(st.integers(0, 7)) != 7,
            offers=(("rdma/ib", float(draw(st.sampled_from([1, 4, 4])))),),
        )
        changed.append(node)
    return changed


@st.composite
def cases(draw: st.DrawFn) -> Case:
    nodes = draw(nodes_in_any_state())
    pods = [
        busy(f"p-{node.name}", node.name, gpus)
        for node in nodes
        if (gpus := min(draw(st.sampled_from([0, 0, 0, 1, 2, 4, 8])), dict(node.allocatable)["nvidia.com/gpu"])) > 0
    ]
    placement = PlacementSpec(
        domain=draw(st.sampled_from([DomainRule.Required, DomainRule.Preferred])),
        tolerations=draw(st.sampled_from([(), TOLERANT])),
        node_selector=draw(st.sampled_from([(), (), (), (("tier", "gold"),)])),
        spare_nodes_per_domain=draw(st.sampled_from([0, 0, 1, 2])),
    )
    return Case(nodes, pods, draw(st.sampled_from(SHAPES)), placement, draw(st.sampled_from([(), NEEDS])))


@given(case=cases())
def test_a_replica_is_refused_only_where_no_choice_of_nodes_would_do(case: Case) -> None:
    """And what is found is one of those choices."""
    found = find_slot(case.shape, case.placement, free_map(case.nodes, *case.pods), needs=case.needs)
    event(f"{type(found).__name__}")
    if isinstance(found, Slot):
        assert is_a_place(case, found.nodes)
    else:
        usable = [node.name for node in case.nodes if fits(case, node)]
        assert not any(is_a_place(case, nodes) for nodes in permutations(usable, case.shape.pods))


def fits(case: Case, node: NodeRecord) -> bool:
    return case.may_use(node) and case.left[node.name] >= case.shape.gpus_per_pod


def is_a_place(case: Case, nodes: tuple[str, ...]) -> bool:
    """Whether a replica may be there, one pod on each node: by node, by NVLink domain, by zone and by spares."""
    known = {node.name: node for node in case.nodes}
    domains = {name: domain_of(node) for name, node in known.items()}
    if len(set(nodes)) < case.shape.pods or not all(fits(case, known[name]) for name in nodes):
        return False
    if stages_apart(case.shape, nodes, domains) or len({domains[name].partition("@")[2] for name in nodes}) > 1:
        return False
    if case.placement.domain is DomainRule.Required and len({domains[name] for name in nodes}) > 1:
        return False
    return all(keeps_spares(case, nodes, domain, domains) for domain in {domains[name] for name in nodes})


def domain_of(node: NodeRecord) -> str:
    """NVLink joins no two zones: a clique of two is read as two."""
    return f"{nvlink_domain(node)}@{dict(node.labels)['topology.kubernetes.io/zone']}"


def keeps_spares(case: Case, nodes: tuple[str, ...], domain: str, domains: Mapping[str, str]) -> bool:
    """Of the wholly free trays of a rack that could stand in for any other, as many stay as the pool keeps, or all."""
    mates = [node for node in case.nodes if domains[node.name] == domain]
    usable = {node.name: dict(node.allocatable)["nvidia.com/gpu"] for node in mates if case.may_use(node)}
    whole = max(usable.values(), default=0)
    idle = {name for name, gpus in usable.items() if case.left[name] == gpus == whole}
    return len(mates) == 1 or len(idle - set(nodes)) >= min(case.placement.spare_nodes_per_domain, len(idle))
