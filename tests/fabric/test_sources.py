"""What several sources say about one node: which one counts, and which note tells that they disagree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fabric.cluster import AMD, NVIDIA, board, node, rack, tray
from weft.catalog import load
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.reasons import Reason
from weft.domain.reports import ComputeDomainReport, DeviceReport, DomainMember, Reports
from weft.domain.spec import PlacementSpec
from weft.domain.texts.units import GIB
from weft.fabric import build_fabric
from weft.fabric.membership import NO_FABRIC
from weft.placement import no_supplier, suppliers

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.fabric import Fabric

CLIQUE = "nvidia.com/gpu.clique"
MACHINE = "node.kubernetes.io/instance-type"
NOWHERE = f"{NO_FABRIC}.0"
NO_REPORTS = Reports()


def fabric_of(*nodes: NodeRecord, reports: Reports = NO_REPORTS, pods: tuple[PodRecord, ...] = ()) -> Fabric:
    return build_fabric(nodes, pods, load(), reports)


def told(fabric: Fabric) -> list[Reason]:
    return [note.reason for note in fabric.notes]


def slices(name: str, count: int, product: str = "NVIDIA GB200", driver: str = "gpu.nvidia.com") -> Reports:
    return Reports(devices=(DeviceReport(f"{name}-s", name, driver, name, 1, ((product, 184 * GIB, count),)),))


def joined(*members: tuple[str, str], name: str = "chat") -> Reports:
    found = tuple(DomainMember(node, clique, ready=True) for node, clique in members)
    return Reports(compute_domains=(ComputeDomainReport("team", name, found),))


@pytest.mark.parametrize(
    ("machine", "gpus", "accelerator"),
    [
        ("p5.48xlarge", 8, "H100"),
        ("ml.p5en.48xlarge", 8, "H200"),
        ("Standard_ND96isr_H100_v5", 8, "H100"),
        ("Standard_ND96isrf_H100_v5", 8, "H100"),
        ("Standard_ND96isrf_H200_v5", 8, "H200"),
        ("a4x-highgpu-4g", 4, "GB200"),
        ("BM.GPU.B200.8", 8, "B200"),
        ("BM.GPU.B4.8", 8, "A100-40GB"),
        ("a3-edgegpu-8g", 8, "H100"),
        ("gd-8xh100ib-i128", 8, "H100"),
        ("g6.48xlarge", 8, "L4"),
        ("g6e.12xlarge", 4, "L40S"),
        ("g7e.12xlarge", 2, "RTX-PRO-6000"),
        ("a4x-maxgpu-4g-metal", 4, "GB300"),
        ("b200-8x", 8, "B200"),
        ("gpu-h100-sxm", 8, "H100"),
        ("gpu-b200-sxm-a", 8, "B200"),
        ("gpu-gb300", 4, "GB300"),
        ("gpu-l40s-d", 4, "L40S"),
        ("h100-80gb-sxm-ib.8x", 8, "H100"),
    ],
)
def test_the_clouds_machine_tells_what_nobody_labels(machine: str, gpus: int, accelerator: str) -> None:
    """Clouds install a device plugin, and seldom feature discovery."""
    found = fabric_of(node("n", {MACHINE: machine}, gpus))
    assert ([accelerator], ()) == ([domain.accelerator for domain in found.domains], found.notes)


@pytest.mark.parametrize(
    ("product", "memory", "noted"),
    [
        ("NVIDIA-H200", "143771", False),
        ("NVIDIA-H200", "140000", False),
        ("NVIDIA-H200", "71000", True),
        ("NVIDIA-H200-MIG-3g.71gb", "71000", False),
    ],
)
def test_a_memory_that_such_gpus_do_not_have_is_told_and_believed(product: str, memory: str, noted: bool) -> None:  # noqa: FBT001 - a case
    """One node of it makes the plans of all pools that may use it smaller."""
    found = fabric_of(node("n", {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}, 8))
    said = f"node n: nvidia.com/gpu.memory={memory}, where H200 has 143771: the label is used"
    assert ([said] if noted else []) == [note.message for note in found.notes]


def test_the_driver_tells_what_neither_labels_nor_the_machine_do() -> None:
    """The device plugin offers the GPUs, and a ResourceSlice says what they are."""
    found = fabric_of(node("n", {}, 8), reports=slices("n", 8, "NVIDIA H100 80GB HBM3"))
    assert [("H100", 8, None)] == [(each.accelerator, each.total, each.unusable) for each in found.nodes().values()]
    assert () == found.notes


@pytest.mark.parametrize(
    ("label", "product", "accelerator", "resource"),
    [
        ("aliyun.accelerator/nvidia_name", "NVIDIA-H20", "H20", NVIDIA),
        ("doks.digitalocean.com/gpu-model", "h100", "H100", NVIDIA),
        ("doks.digitalocean.com/gpu-model", "mi300x", "MI300X", AMD),
    ],
)
def test_clouds_without_device_discovery_name_the_product(
    label: str, product: str, accelerator: str, resource: str
) -> None:
    found = fabric_of(node("n", {label: product}, 8, resource))
    assert ([accelerator], []) == ([domain.accelerator for domain in found.domains], told(found))


def test_a_machine_makes_no_domain_of_a_node_that_offers_no_gpu() -> None:
    assert (((),) * 2) == (fabric_of(node("n", {MACHINE: "p5.48xlarge"}, 0)).domains, fabric_of().domains)
    assert [Reason.AcceleratorUnknown] == told(fabric_of(node("n", {MACHINE: "m7i.4xlarge"}, 8)))


def test_labels_that_name_two_products_are_noted_and_the_drivers_is_believed() -> None:
    others = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb", MACHINE: "p5.48xlarge"}
    found = fabric_of(board("b", labels=others))
    assert ("H200", [Reason.LabelsContradict] * 2) == (found.domains[0].accelerator, told(found))
    overruled = board("b", labels={"weft.dev/accelerator": "H100"})
    assert ("H100", ()) == (fabric_of(overruled).domains[0].accelerator, fabric_of(overruled).notes)


@pytest.mark.parametrize(
    ("product", "driver", "accelerator"),
    [("NVIDIA GB200", "gpu.nvidia.com", "GB200"), ("AMD Instinct MI300X OAM", "gpu.amd.com", "MI300X")],
)
def test_gpus_that_only_dra_offers_are_shown_and_explained(product: str, driver: str, accelerator: str) -> None:
    """Pods ask for extended resources, so nothing is counted, nothing goes there, and the plan does not count on it."""
    found = fabric_of(node("n", {}, 0), reports=slices("n", 4, product, driver))
    (only,) = found.nodes().values()
    assert (accelerator, 0, 184 * GIB) == (only.accelerator, only.total, only.memory_bytes)
    assert only.unusable is not None
    assert Reason.DynamicResourcesOnly == only.unusable.reason
    assert "4 GPUs through DRA" in only.unusable.message
    assert () == suppliers(found, PlacementSpec())
    assert "through DRA" in no_supplier(found, PlacementSpec()).message


@pytest.mark.parametrize("labels", [{}, {"nvidia.com/gpu.product": "NVIDIA-GB200"}], ids=["unlabelled", "labelled"])
def test_dra_offers_what_the_device_plugin_left_a_zero_of(labels: dict[str, str]) -> None:
    """The kubelet keeps the resource of a plugin that was taken away."""
    left = replace(node("n", labels, 0), capacity=((NVIDIA, 0),), allocatable=((NVIDIA, 0),))
    found = fabric_of(left, reports=slices("n", 4, "NVIDIA GB200"))
    (only,) = found.nodes().values()
    assert only.unusable is not None
    assert (Reason.DynamicResourcesOnly, None, ()) == (only.unusable.reason, only.impaired, found.notes)


def test_a_tray_that_only_dra_offers_stays_in_its_rack() -> None:
    claimed = replace(tray("t-1", "c.1"), capacity=(), allocatable=())
    found = fabric_of(tray("t-0", "c.1"), claimed, reports=slices("t-1", 4))
    assert [("c.1", 4, ["t-0", "t-1"])] == [(d.name, d.total, [n.name for n in d.nodes]) for d in found.domains]


def test_a_product_that_only_dra_names_and_nobody_knows_is_noted() -> None:
    found = fabric_of(node("n", {}, 0), reports=slices("n", 4, "NVIDIA T4"))
    assert ((), [Reason.AcceleratorUnknown]) == (found.domains, told(found))


def test_dra_and_the_device_plugin_are_compared_where_both_offer() -> None:
    assert () == fabric_of(tray("t", None), reports=slices("t", 4)).notes
    assert [Reason.LabelsContradict] == told(fabric_of(tray("t", None), reports=slices("t", 3)))
    assert [Reason.LabelsContradict] == told(fabric_of(tray("t", None), reports=slices("t", 4, "NVIDIA H200")))
    assert 4 == fabric_of(tray("t", None), reports=slices("t", 3)).nodes()["t"].total


def test_a_compute_domain_knows_the_clique_that_no_label_names() -> None:
    found = fabric_of(tray("t-0", "c.1"), tray("t-1", None), reports=joined(("t-0", "c.1"), ("t-1", "c.1")))
    assert (["c.1"], ()) == ([domain.name for domain in found.domains], found.notes)


@pytest.mark.parametrize("label", ["c.1", None, NOWHERE])
def test_a_compute_domain_that_found_no_fabric_contradicts_nothing(label: str | None) -> None:
    """One that formed before the fabric was up has a clique of zeros; the other one of the node counts."""
    one, other = joined(("t", NOWHERE)), joined(("t", "c.1"), name="other")
    both = Reports(compute_domains=(*one.compute_domains, *other.compute_domains))
    found = fabric_of(tray("t", label), reports=both)
    assert (["c.1"], ()) == ([domain.name for domain in found.domains], found.notes)
    alone = fabric_of(tray("t", label), reports=one)
    assert (["c.1" if label == "c.1" else "t"], ()) == ([domain.name for domain in alone.domains], alone.notes)


def test_the_label_is_believed_over_a_compute_domain_and_both_are_noted() -> None:
    """The domain found its clique when its pods started; the label is of today."""
    found = fabric_of(tray("t", "c.2"), reports=joined(("t", "c.1")))
    assert (["c.2"], [Reason.LabelsContradict]) == ([domain.name for domain in found.domains], told(found))
    assert "what runs keeps running" in found.notes[0].message


def test_a_node_in_two_cliques_by_compute_domains_is_read_by_its_labels() -> None:
    one, other = joined(("t", "c.1")), joined(("t", "c.2"), name="other")
    both = Reports(compute_domains=(*one.compute_domains, *other.compute_domains))
    found = fabric_of(tray("t", None), reports=both)
    assert (["t"], [Reason.LabelsContradict]) == ([domain.name for domain in found.domains], told(found))


def test_trays_without_a_clique_in_a_rack_that_has_one_are_each_apart_and_noted() -> None:
    """NVML writes a clique only where the fabric is up: without it, memory may not be shared there, by any two."""
    label = {"ds.coreweave.com/nvlink.domain": "rack-7"}
    found = fabric_of(tray("t-0", "c.1", label), *(tray(f"t-{index}", None, label) for index in (2, 3)))
    assert ["c.1", "t-2", "t-3"] == [domain.name for domain in found.domains]
    assert [Reason.LabelsContradict] == told(found)
    assert "nodes t-2, t-3 are each apart from others with ds.coreweave.com/nvlink.domain=rack-7, which are in c.1" in (
        found.notes[0].message
    )
    assert f"as {CLIQUE} is missing: " in found.notes[0].message


def test_a_compute_domain_on_some_nodes_of_a_rack_without_clique_labels_cuts_no_rack() -> None:
    """It knows the nodes of its pods alone, and comes and goes with them."""
    label = {"cloud.google.com/gce-topology-subblock": "rack-7"}
    trays = [tray(f"t-{index}", None, label) for index in range(4)]
    found = fabric_of(*trays, reports=joined(("t-0", "c.1"), ("t-1", "c.1")))
    assert ([("rack-7", 16)], ()) == ([(domain.name, domain.total) for domain in found.domains], found.notes)


def test_compute_domains_in_two_cliques_of_one_rack_cut_it() -> None:
    """Of whom none knows, nobody can tell which of them he is in."""
    label = {"cloud.google.com/gce-topology-subblock": "rack-7"}
    trays = [tray(f"t-{index}", None, label) for index in range(6)]
    found = fabric_of(*trays, reports=joined(("t-0", "c.1"), ("t-1", "c.1"), ("t-2", "c.2"), ("t-3", "c.2")))
    assert [("c.1", 8), ("c.2", 8), ("t-4", 4), ("t-5", 4)] == [(each.name, each.total) for each in found.domains]
    assert [Reason.LabelsContradict] == told(found)


def test_a_tray_with_a_clique_of_zeros_in_such_a_rack_is_noted_as_what_it_is() -> None:
    label = {"ds.coreweave.com/nvlink.domain": "rack-7"}
    zeros = tray("t-1", NOWHERE, label)
    (note,) = fabric_of(tray("t-0", "c.1", label), zeros).notes
    assert f"as {CLIQUE} names no fabric: " in note.message
    (note,) = fabric_of(tray("t-0", "c.1", label), zeros, tray("t-2", None, label)).notes
    assert f"as {CLIQUE} is missing or names no fabric: " in note.message


def test_one_clique_with_two_racks_of_a_cloud_is_believed_and_noted() -> None:
    racks = [tray(f"t-{index}", "c.1", {"ds.coreweave.com/nvlink.domain": f"rack-{index}"}) for index in range(2)]
    found = fabric_of(*racks)
    assert (["c.1"], [Reason.LabelsContradict]) == ([domain.name for domain in found.domains], told(found))


def ours(name: str, on: str, rank: int, replica: int = 0) -> PodRecord:
    identity = PodIdentity("uid-chat", replica, rank, "r")
    return PodRecord("team", name, f"uid-{name}", PodPhase.Running, on, ((NVIDIA, 4),), identity)


def test_labels_that_change_under_a_running_replica_are_noted_and_it_keeps_its_gpus() -> None:
    """The nodes of its pods are in two domains now; what they hold is held as before."""
    pods = (ours("chat-0", "t-0", 0), ours("chat-1", "t-1", 1))
    before = fabric_of(tray("t-0", "c.1"), tray("t-1", "c.1"), pods=pods)
    after = fabric_of(tray("t-0", "c.1"), tray("t-1", "c.2"), pods=pods)
    assert ((), [Reason.DomainChanged]) == (before.notes, told(after))
    assert {"t-0": 0, "t-1": 0} == {name: each.free for name, each in after.nodes().items()}
    assert "team/chat-0" in after.notes[0].message


def test_replicas_of_one_pool_in_different_domains_are_nobodys_business() -> None:
    pods = (ours("chat-0", "t-0", 0), ours("chat-1", "t-1", 0, replica=1))
    assert () == fabric_of(tray("t-0", "c.1"), tray("t-1", "c.2"), pods=pods).notes


def test_a_kind_that_rbac_refuses_is_noted_after_everything_else() -> None:
    found = fabric_of(node("plain", {}, 8), reports=Reports(refused=("computedomains.resource.nvidia.com",)))
    assert [Reason.AcceleratorUnknown, Reason.NotPermitted] == told(found)


def test_mig_devices_under_names_of_their_own_are_told_and_not_used() -> None:
    mixed = node("m", {"nvidia.com/gpu.product": "NVIDIA-H200"}, 8)
    devices = ((NVIDIA, 4), ("nvidia.com/mig-3g.71gb", 8))
    some = fabric_of(replace(mixed, capacity=devices, allocatable=devices)).nodes()["m"]
    assert (4, False, None) == (some.total, some.shared, some.unusable)
    assert some.impaired is not None
    assert "8 nvidia.com/mig-3g.71gb" in some.impaired.message
    none = fabric_of(replace(mixed, capacity=devices[1:], allocatable=devices[1:]))
    assert ((), [Reason.SharedDevice]) == (none.domains, told(none))


def test_mig_devices_that_are_whole_again_leave_a_zero_that_says_nothing() -> None:
    devices = ((NVIDIA, 8), ("nvidia.com/mig-3g.71gb", 0))
    whole = replace(node("m", {"nvidia.com/gpu.product": "NVIDIA-H200"}, 8), capacity=devices, allocatable=devices)
    assert (8, None) == (fabric_of(whole).nodes()["m"].total, fabric_of(whole).nodes()["m"].impaired)


def test_amds_whole_devices_under_a_name_of_their_own_are_told_too() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    assert [Reason.SharedDevice] == told(fabric_of(node("m", labels, 8, "amd.com/spx_nps1")))
    assert () == fabric_of(node("m", labels, 8, AMD)).notes


def test_a_whole_rack_has_nothing_to_note() -> None:
    assert () == fabric_of(*rack("c.1", 18)).notes
