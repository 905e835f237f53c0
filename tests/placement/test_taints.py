"""Taints and tolerations: looked up instead of compared pair by pair, with the same answers as by Kubernetes' rule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.counting import counted
from tests.fabric.cluster import board, rack, taint
from tests.forgetting import forget_everything
from tests.placement.cases import free_map, tp
from weft.domain.cluster import Taint
from weft.domain.reasons import Reason
from weft.domain.spec import PlacementSpec, Toleration
from weft.placement import FreeMap, PlacementRefusal, Supplier, eligible_domains, find_slot, no_supplier, suppliers
from weft.placement.taints import WIDE_DOMAINS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.domain.cluster import NodeRecord
    from weft.domain.fabric import Fabric, FabricNode

KEYS, VALUES = ["team", "dedicated", "nvidia.com/gpu"], ["", "a", "b"]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
PASSING = Taint("node.kubernetes.io/memory-pressure", "", "NoSchedule")
PART = {"nvidia.com/gpu.product": "NVIDIA-H200-MIG-3g.71gb", "nvidia.com/gpu.memory": "71424"}

taints = st.one_of(
    st.just(PASSING), st.builds(Taint, st.sampled_from(KEYS), st.sampled_from(VALUES), st.sampled_from(EFFECTS))
)
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", *KEYS, PASSING.key]),
    st.sampled_from(["Equal", "Exists"]),
    st.sampled_from(VALUES),
    st.sampled_from(["", *EFFECTS]),
    st.sampled_from([None, None, 0, 300]),
)
# Of each kind of node there are few, or more than a narrow toleration opens.
kinds = st.tuples(
    st.lists(taints, max_size=3, unique=True), st.booleans(), st.sampled_from([1, 1, 2, WIDE_DOMAINS + 1])
)


def tolerates(toleration: Toleration, found: Taint) -> bool:
    """As Kubernetes documents it; what ends after some seconds is none for us."""
    if toleration.effect and toleration.effect != found.effect:
        return False
    if toleration.key and toleration.key != found.key:
        return False
    if found.effect == "NoExecute" and toleration.seconds is not None:
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == found.value)


def keeps_away(node: FabricNode, placement: PlacementSpec, but: str = "") -> Taint | None:
    """The first taint that pods of this pool would not tolerate, but for those whose key begins so."""
    hard = (each for each in node.taints if each.effect != "PreferNoSchedule" and each.key != node.resource)
    hard = (each for each in hard if not but or not each.key.startswith(but))
    return next((each for each in hard if not any(tolerates(one, each) for one in placement.tolerations)), None)


def expected_suppliers(fabric: Fabric, placement: PlacementSpec) -> tuple[Supplier, ...]:
    """Every node looked at."""
    by_domain = [
        [node for node in domain.nodes if keeps_away(node, placement, "node.kubernetes.io/") is None]
        for domain in fabric.domains
    ]
    open_nodes = [node for nodes in by_domain for node in nodes]
    whole = [node for node in open_nodes if not node.shared]
    counted = [[node.installed for node in nodes if node in (whole or nodes)] for nodes in by_domain]
    used = whole or open_nodes
    if not used:
        return ()
    memory, per_node = min(node.memory_bytes for node in used), max(node.installed for node in used)
    return (Supplier("H200", memory, max(map(sum, counted)), per_node, shared=not whole),)


def cluster(drawn: Sequence[tuple[list[Taint], bool, int]]) -> list[NodeRecord]:
    names = [(f"b-{kind}-{number}", kind) for kind, each in enumerate(drawn) for number in range(each[2])]
    nodes = [(board(name, labels=PART if drawn[kind][1] else None), kind) for name, kind in names]
    return [replace(node, taints=tuple(drawn[kind][0])) for node, kind in nodes]


@given(drawn=st.lists(kinds, min_size=1, max_size=5), pools=st.lists(st.lists(tolerations, max_size=4), max_size=4))
def test_who_may_use_what_is_as_by_comparing_each_toleration_with_each_taint(
    drawn: list[tuple[list[Taint], bool, int]], pools: list[list[Toleration]]
) -> None:
    """Whatever pools asked before, and in the same words."""
    free = free_map(cluster(drawn))
    for tolerated in pools:
        placement = PlacementSpec(tolerations=tuple(tolerated))
        assert suppliers(free.fabric, placement) == expected_suppliers(free.fabric, placement)
        whole = any(not each.shared for each in expected_suppliers(free.fabric, placement))
        for domain in eligible_domains(tp(1), placement, free):
            refused = {node.name: why for node, why in domain.passed_over}
            for node in domain.domain.nodes:
                away = keeps_away(node, placement)
                if away is not None:
                    named = f"{away.key}={away.value}:{away.effect}".replace("=:", ":")
                    told = f"node {node.name} has the taint {named}, which spec.placement.tolerations does not tolerate"
                    assert (refused[node.name].reason, refused[node.name].message) == (Reason.NodeTainted, told)
                elif node.shared and whole:
                    assert refused[node.name].reason is Reason.SharedDevice
                else:
                    assert node in domain.nodes
            assert len(domain.nodes) + len(refused) == len(domain.domain.nodes)


def test_a_taint_of_one_tray_leaves_the_others_of_its_rack() -> None:
    """And a pool that tolerates it counts the whole rack, in which others count what is left."""
    trays = rack("a.1", 4)
    fabric = free_map([replace(trays[0], taints=(taint("team", "a"),)), *trays[1:]]).fabric
    tolerant = PlacementSpec(tolerations=(Toleration("team", value="a"),))
    assert [12, 16] == [suppliers(fabric, each)[0].largest_domain_gpus for each in (PlacementSpec(), tolerant)]


def test_who_has_nothing_is_told_by_the_first_node_that_keeps_it_off() -> None:
    fabric = free_map([replace(board(f"b-{index}"), taints=(taint(f"t{index}"),)) for index in range(2)]).fabric
    assert (
        "node b-0 has the taint t0:NoSchedule, which spec.placement.tolerations does not tolerate"
        in no_supplier(fabric, PlacementSpec()).message
    )


def with_own(node: NodeRecord, index: int) -> NodeRecord:
    return replace(node, taints=(taint("team", f"t{index}"),))


def with_own_and_another(node: NodeRecord, index: int) -> NodeRecord:
    return replace(node, taints=(taint("dedicated", "inference"), taint(f"team-{index}")))


def with_own_on_every_second(node: NodeRecord, index: int) -> NodeRecord:
    return with_own(node, index) if index % 2 else node


@pytest.mark.parametrize("tainted", [with_own, with_own_and_another, with_own_on_every_second])
def test_work_grows_with_pools_and_nodes_and_not_with_their_pairs(
    tainted: Callable[[NodeRecord, int], NodeRecord],
) -> None:
    """Twice as many pools with tolerations of their own, beside twice as many nodes with their taints."""
    few, many = (_calls(tainted, size) for size in (100, 200))
    assert many <= 2.2 * few


def _calls(tainted: Callable[[NodeRecord, int], NodeRecord], size: int) -> int:
    """Calls of functions while each pool finds what it could use, and a node that it tolerates."""
    nodes = [tainted(board(f"b-{index}"), index) for index in range(size)]
    fabric = free_map(nodes).fabric
    placements = [
        PlacementSpec(
            tolerations=(
                Toleration("dedicated", value="inference"),
                Toleration("team", value=f"t{index}"),
                Toleration(f"team-{index}", "Exists"),
            )
        )
        for index in range(size)
    ]
    forget_everything()
    free = FreeMap.of(fabric)
    found, calls = counted(lambda: [(suppliers(fabric, each), find_slot(tp(8), each, free)) for each in placements])
    assert all(supply and not isinstance(slot, PlacementRefusal) for supply, slot in found)
    return calls
