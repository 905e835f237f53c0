"""Labels that cannot be true, or that lack what they are for: told by name, and no harm to the nodes beside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fabric.cluster import AMD, board, node, tray
from weft.catalog import load
from weft.domain.reasons import Reason
from weft.domain.reports import Reports
from weft.domain.spec import PlacementSpec
from weft.domain.texts.units import MIB
from weft.fabric import build_fabric
from weft.placement import no_supplier, suppliers

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.fabric import Fabric

MEMORY = "nvidia.com/gpu.memory"
CLIQUE = "nvidia.com/gpu.clique"
PRODUCT = "nvidia.com/gpu.product"
GB = 10**9


def fabric_of(*nodes: NodeRecord) -> Fabric:
    return build_fabric(nodes, (), load())


def told(fabric: Fabric) -> str:
    return "; ".join(note.message for note in fabric.notes)


@pytest.mark.parametrize("label", ["1", "8192", "1437710"])
def test_a_node_with_a_memory_that_its_gpus_cannot_have_makes_no_plan_smaller(label: str) -> None:
    """Plans go by the smallest memory of a kind, so that one node's label would be the word for all of them."""
    found = fabric_of(board("a"), board("b", labels={MEMORY: label}))
    (supplier,) = suppliers(found, PlacementSpec())
    assert 143771 * MIB == supplier.memory_bytes
    unusable = found.nodes()["b"].unusable
    assert unusable is not None
    assert Reason.LabelsContradict == unusable.reason
    assert f"node b has {MEMORY}={label} and is labelled as H200, which has 143771" in unusable.message


@pytest.mark.parametrize("cordoned", [False, True], ids=["not ready", "cordoned"])
def test_nor_does_it_while_such_a_node_is_away_for_another_reason(*, cordoned: bool) -> None:
    """Whoever corrects it cordons it first, and plans count on nodes that come back."""
    away = replace(board("b", labels={MEMORY: "8192"}), cordoned=cordoned, ready=cordoned)
    found = fabric_of(board("a"), away)
    (supplier,) = suppliers(found, PlacementSpec())
    assert 143771 * MIB == supplier.memory_bytes


def test_a_pool_that_has_only_such_a_node_is_told_of_the_label() -> None:
    found = fabric_of(board("b", labels={MEMORY: "1"}))
    assert f"node b has {MEMORY}=1" in no_supplier(found, PlacementSpec()).message


def test_memory_that_differs_by_less_is_believed_and_noted() -> None:
    found = fabric_of(board("b", labels={MEMORY: "100000"}))
    assert (100000 * MIB, None) == (found.nodes()["b"].memory_bytes, found.nodes()["b"].unusable)
    assert f"node b: {MEMORY}=100000, where H200 has 143771: the label is used" == told(found)


def test_our_own_label_may_name_a_stand_in_with_any_memory() -> None:
    found = fabric_of(board("b", labels={"weft.dev/accelerator": "H200", MEMORY: "24000"}))
    assert None is found.nodes()["b"].unusable


@pytest.mark.parametrize("label", ["lots", "81559 MiB", "0", "-5", "80Gi"])
def test_a_memory_label_that_is_no_number_is_noted(label: str) -> None:
    found = fabric_of(board("b", labels={MEMORY: label}))
    assert f"node b: {MEMORY}={label} is no number of MiB: 143771 are used, as H200 has" == told(found)


@pytest.mark.parametrize("clique", [".1", "1", "42"])
def test_a_clique_without_its_cluster_joins_nobody(clique: str) -> None:
    """The number of a partition is the same in every rack."""
    found = fabric_of(tray("t-0", clique), tray("t-1", clique))
    assert ["t-0", "t-1"] == [domain.name for domain in found.domains]
    assert f"node t-0: {CLIQUE}={clique} has no cluster UUID" in told(found)


@pytest.mark.parametrize(("product", "gpus"), [("NVIDIA-L40S", 8), ("NVIDIA-B200", 4)])
def test_cards_and_boards_are_joined_by_no_clique(product: str, gpus: int) -> None:
    """However few GPUs they have together: their links end at the node."""
    found = fabric_of(*(node(name, {PRODUCT: product, CLIQUE: "uuid.1"}, gpus) for name in "ab"))
    assert ["a", "b"] == [domain.name for domain in found.domains]
    assert "whose links do not leave a node: read as separate domains" in told(found)


def test_stand_ins_for_trays_are_joined_by_a_clique() -> None:
    """Nodes of the end-to-end suite play a rack with a GPU each."""
    labels = {"nvidia.com/gpu.product": "CPU-TEST", "nvidia.com/gpu.memory": "4096", "nvidia.com/gpu.clique": "e2e.1"}
    fabric = fabric_of(*(node(f"tray-{index}", labels, 1) for index in range(4)))
    assert [len(domain.nodes) for domain in fabric.domains] == [4]
    assert told(fabric) == ""


@pytest.mark.parametrize(
    ("product", "expected"),
    [("NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", 40 * GB), ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED", 5 * GB)],
)
def test_mig_devices_without_a_memory_label_have_that_of_their_name(product: str, expected: int) -> None:
    only = fabric_of(node("b", {PRODUCT: product}, 14)).nodes()["b"]
    assert (True, expected) == (only.shared, only.memory_bytes)


def test_a_gpu_that_is_shared_by_nobody_knows_how_many_counts_for_half() -> None:
    only = fabric_of(node("b", {PRODUCT: "NVIDIA-H200-SHARED", MEMORY: "143771"}, 8)).nodes()["b"]
    assert (True, 143771 * MIB // 2) == (only.shared, only.memory_bytes)


@pytest.mark.parametrize("label", ["nvidia.com/gpu.count", "karpenter.k8s.aws/instance-gpu-count"])
def test_gpus_that_a_label_counts_and_nobody_offers_are_told_of(label: str) -> None:
    """One that failed before the device plugin started is missing in `capacity` too: the node is impaired as others."""
    found = fabric_of(board("b", gpus=7, labels={label: "8"})).nodes()["b"]
    assert (7, None, None) == (found.total, found.unusable, found.leaving)
    assert found.impaired is not None
    assert found.impaired.reason is Reason.LabelsContradict
    assert f"node b offers 7 nvidia.com/gpu and has {label}=8: what it offers counts" in found.impaired.message
    assert fabric_of(board("b", labels={label: "8"})).nodes()["b"].impaired is None


def test_gpus_that_are_counted_and_offered_as_parts_are_none_that_lack() -> None:
    """With the strategy `mixed` the label counts GPUs that are cut, too; the node says that it offers parts."""
    devices = (("nvidia.com/gpu", 7), ("nvidia.com/mig-1g.18gb", 7))
    mixed = replace(board("b", labels={"nvidia.com/gpu.count": "8"}), capacity=devices, allocatable=devices)
    assert "" == told(fabric_of(mixed))


@pytest.mark.parametrize("product", ["NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3-shared"])
def test_a_product_as_a_driver_or_a_person_spells_it_is_known(product: str) -> None:
    assert "H100" == fabric_of(node("b", {PRODUCT: product}, 8)).nodes()["b"].accelerator


def test_a_label_of_another_vendor_than_the_devices_is_said_to_be_wrong() -> None:
    """No device plugin is missing there."""
    found = fabric_of(node("b", {"weft.dev/accelerator": "H200"}, 8, AMD))
    assert "offers no nvidia.com/gpu: it offers 8 amd.com/gpu, so that the label is wrong" in told(found)


def test_where_no_accelerator_is_known_a_pool_is_told_what_weft_may_not_see() -> None:
    """GPUs that DRA alone offers, on nodes without a label, are known by their ResourceSlices."""
    blind = build_fabric((node("a", {}, 0),), (), load(), Reports(refused=("resourceslices.resource.k8s.io",)))
    assert "Weft may not list resourceslices.resource.k8s.io" in no_supplier(blind, PlacementSpec()).message
    seeing = build_fabric((board("a"),), (), load(), Reports(refused=("resourceslices.resource.k8s.io",)))
    found = no_supplier(seeing, PlacementSpec(accelerators=("B200",))).message
    assert "allowed accelerators: B200; the cluster has H200" == found


def test_a_pool_is_told_what_bars_the_nodes_that_it_selects() -> None:
    """Not that others are not selected, and no note of a node that has nothing to do with it."""
    found = fabric_of(board("a", labels={MEMORY: "100000"}), board("b", labels={"team": "x", MEMORY: "1"}))
    assert "node b has" in no_supplier(found, PlacementSpec(node_selector=(("team", "x"),))).message
    elsewhere = no_supplier(found, PlacementSpec(accelerators=("B200",))).message
    assert "allowed accelerators: B200; the cluster has H200" == elsewhere
