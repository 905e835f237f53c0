"""What one node offers, what is held there, and why it may not be used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fabric.cluster import NVIDIA, board, busy, node, taint, tray
from weft.catalog import load
from weft.domain.cluster import PodPhase
from weft.domain.fabric import Fabric
from weft.domain.reasons import Reason
from weft.domain.texts.units import MIB
from weft.fabric import build_fabric

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.fabric import FabricNode


def fabric_of(nodes: list[NodeRecord], pods: list[PodRecord] | None = None) -> Fabric:
    return build_fabric(nodes, pods or [], load())


def only_node(one: NodeRecord, *pods: PodRecord) -> FabricNode:
    return fabric_of([one], list(pods)).nodes()[one.name]


def test_total_is_what_the_kubelet_can_allocate() -> None:
    """A GPU that fell off the bus leaves capacity as it is and allocatable one lower."""
    assert only_node(replace(board("b"), allocatable=((NVIDIA, 7),))).total == 7


def test_everyones_pods_hold_devices_until_they_are_gone() -> None:
    pods = [
        busy("running", "b", 2),
        replace(busy("terminating", "b", 1), terminating=True),
        busy("nominated", "b", 1, phase=PodPhase.Pending),
        busy("done", "b", 4, phase=PodPhase.Succeeded),
        busy("failed", "b", 4, phase=PodPhase.Failed),
        busy("elsewhere", "c", 4),
        busy("waiting", None, 4),
    ]
    assert (only_node(board("b"), *pods).used, only_node(board("b"), *pods).free) == (4, 4)


def test_a_cluster_that_looks_as_before_has_the_same_fabric() -> None:
    """Equal nodes and pods, though another watch brought them; another pod makes another fabric."""
    found = fabric_of([board("a")], [busy("p", "a", 2)])
    assert fabric_of([board("a")], [busy("p", "a", 2)]) is found
    assert fabric_of([board("a")], [busy("p", "a", 3)]).nodes()["a"].used == 3
    assert fabric_of([board("a"), board("b")], [busy("p", "a", 3)]).nodes().keys() == {"a", "b"}


def test_free_is_never_negative() -> None:
    assert only_node(replace(board("b"), allocatable=((NVIDIA, 2),)), busy("p", "b", 8)).free == 0


def test_memory_comes_from_the_label_or_else_from_the_catalog() -> None:
    h200 = load().accelerator("H200")
    assert only_node(board("b")).memory_bytes == 143771 * MIB
    assert only_node(node("b", {"nvidia.com/gpu.product": "NVIDIA-H200"}, 8)).memory_bytes == h200.memory_bytes
    assert only_node(board("b", labels={"nvidia.com/gpu.memory": "lots"})).memory_bytes == h200.memory_bytes


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/gpu.product": "NVIDIA-H200-SHARED"},
        {"nvidia.com/gpu.product": "NVIDIA-H200-MIG-3g.71gb"},
        {"nvidia.com/gpu.product": "NVIDIA-H200-MIG-1g.18gb-SHARED"},
        {"nvidia.com/gpu.sharing-strategy": "time-slicing"},
        {"nvidia.com/gpu.sharing-strategy": "mps"},
        {"nvidia.com/gpu.replicas": "4"},
        {"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"},
        {"cloud.google.com/gke-max-shared-clients-per-gpu": "2"},
        {"cloud.google.com/gke-gpu-partition-size": "1g.18gb"},
    ],
)
def test_parts_of_gpus_are_marked_shared(labels: dict[str, str]) -> None:
    assert only_node(board("b", labels=labels)).shared
    assert only_node(board("b", labels=labels)).accelerator == "H200"


def test_a_time_sliced_device_counts_for_its_part_of_the_memory() -> None:
    assert only_node(board("b", labels={"nvidia.com/gpu.replicas": "4"})).memory_bytes == 143771 * MIB // 4


def test_whole_gpus_are_not_shared() -> None:
    labels = {"nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.replicas": "1", "nvidia.com/gpu.count": "8"}
    assert not only_node(board("b", labels=labels)).shared
    assert not only_node(board("b", gpus=16)).shared


@pytest.mark.parametrize(
    ("labels", "devices", "memory_bytes"),
    [
        ({"gke-gpu-sharing-strategy": "time-sharing", "gke-max-shared-clients-per-gpu": "8"}, 64, 81559 * MIB // 8),
        ({"gke-gpu-sharing-strategy": "mps", "gke-max-shared-clients-per-gpu": "2"}, 16, 81559 * MIB // 2),
        ({"gke-gpu-partition-size": "1g.10gb"}, 56, 10 * 10**9),
        ({"gke-gpu-partition-size": "3g.40gb", "gke-max-shared-clients-per-gpu": "2"}, 32, 20 * 10**9),
        ({"gke-gpu-partition-size": "a quarter"}, 32, 81559 * MIB),
    ],
    ids=["time-sharing", "mps", "mig", "shared mig", "mig of a profile that cannot be read"],
)
def test_gke_tells_of_parts_by_labels_of_its_own(labels: dict[str, str], devices: int, memory_bytes: int) -> None:
    """It offers them as nvidia.com/gpu and runs no feature discovery."""
    named = {f"cloud.google.com/{label}": value for label, value in labels.items()}
    found = only_node(node("n", {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb", **named}, devices))
    assert ("H100", True, memory_bytes) == (found.accelerator, found.shared, found.memory_bytes)


@pytest.mark.parametrize(
    "counted",
    [
        {"nvidia.com/gpu.count": "8"},
        {"nvidia.com/gpu.count": "0", "karpenter.k8s.aws/instance-gpu-count": "8"},
        {"eks.amazonaws.com/instance-gpu-count": "8"},
        {"karpenter.azure.com/sku-gpu-count": "8"},
        {"cloud.google.com/gke-accelerator-count": "8"},
        {"aliyun.accelerator/nvidia_count": "8"},
        {},
    ],
    ids=lambda labels: next(reversed(labels), "nobody"),
)
def test_more_devices_than_gpus_are_parts_of_them(counted: dict[str, str]) -> None:
    """A device plugin that cuts GPUs (HAMi), or slices them without feature discovery, tells it by the count alone."""
    found = only_node(board("b", gpus=80, labels=counted))
    assert (True, 143771 * MIB // 10) == (found.shared, found.memory_bytes)


def test_mig_devices_that_a_cloud_counts_as_whole_gpus_have_their_own_memory() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200-MIG-1g.18gb", "nvidia.com/gpu.memory": "16384"}
    labels |= {"karpenter.k8s.aws/instance-gpu-count": "8"}
    assert 16384 * MIB == only_node(node("m", labels, 56)).memory_bytes


def test_a_broken_gpu_that_discovery_no_longer_counts_makes_no_parts_of_the_others() -> None:
    assert not only_node(board("b", labels={"nvidia.com/gpu.count": "7"})).shared


def test_renamed_shared_devices_are_found_under_their_name() -> None:
    renamed = node("b", {"nvidia.com/gpu.product": "NVIDIA-H200"}, 32, "nvidia.com/gpu.shared")
    assert (only_node(renamed).resource, only_node(renamed).shared) == ("nvidia.com/gpu.shared", True)


def test_the_zero_that_renaming_leaves_behind_hides_no_shared_devices() -> None:
    """The kubelet keeps a resource that a device plugin offered once."""
    devices = ((NVIDIA, 0), ("nvidia.com/gpu.shared", 32))
    found = only_node(replace(board("b"), capacity=devices, allocatable=devices))
    assert ("nvidia.com/gpu.shared", 32, None) == (found.resource, found.total, found.impaired)
    back = ((NVIDIA, 8), ("nvidia.com/gpu.shared", 0))
    assert (NVIDIA, False) == ((again := only_node(replace(board("b"), capacity=back))).resource, again.shared)


@pytest.mark.parametrize("prefix", ["amd.com", "beta.amd.com"])
def test_partitions_that_differ_from_gpu_to_gpu_count_as_the_smallest(prefix: str) -> None:
    """AMD's node labeller counts each mode by itself then: four GPUs are cut in eight and four are whole."""
    modes = {f"{prefix}/compute-memory-partition.{mode}": "4" for mode in ("cpx_nps4", "spx_nps1")}
    found = only_node(node("m", {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", **modes}, 36, "amd.com/gpu"))
    assert (True, 192 * 1024 * MIB // 8) == (found.shared, found.memory_bytes)


def test_one_kind_that_amds_labeller_only_counts_is_the_nodes() -> None:
    counted = node("m", {"beta.amd.com/gpu.product-name.AMD_Instinct_MI300X_OAM": "8"}, 8, "amd.com/gpu")
    assert "MI300X" == only_node(counted).accelerator


def test_several_kinds_of_amd_gpus_on_one_node_are_not_used_and_named() -> None:
    """They are one resource, of which a pod gets any."""
    kinds = {f"amd.com/gpu.product-name.AMD_Instinct_{kind}": "4" for kind in ("MI300X_OAM", "MI325X")}
    found = fabric_of([node("m", kinds, 8, "amd.com/gpu")])
    assert ((), [Reason.AcceleratorUnknown]) == (found.domains, [note.reason for note in found.notes])
    assert "8 amd.com/gpu of several kinds (AMD_Instinct_MI300X_OAM, AMD_Instinct_MI325X)" in found.notes[0].message


@pytest.mark.parametrize(
    "resource", ["google.com/tpu", "aws.amazon.com/neuron", "aws.amazon.com/neuroncore", "huawei.com/Ascend910"]
)
def test_accelerators_without_an_engine_are_told_of(resource: str) -> None:
    found = fabric_of([node("t", {}, 4, resource)])
    told = f"node t offers 4 {resource}, for which Weft has no engine: it is not used"
    assert ((), [told]) == (found.domains, [note.message for note in found.notes])


def test_a_node_that_runs_windows_is_not_used_and_told_of() -> None:
    """AKS does not taint such nodes, and no engine has an image for them."""
    windows = board("b", labels={"kubernetes.io/os": "windows"})
    found = fabric_of([windows, board("c", labels={"kubernetes.io/os": "linux"})])
    assert ["c"] == list(found.nodes())
    assert [(Reason.AcceleratorUnknown, "node b runs windows, where no engine does: it is not used")] == [
        (note.reason, note.message) for note in found.notes
    ]


def test_network_cards_and_a_zero_of_others_are_not_told_of() -> None:
    nodes = [node("n", {}, 8, "rdma/ib"), replace(node("z", {}, 1), capacity=(("google.com/tpu", 0),))]
    assert () == fabric_of(nodes).notes


def test_a_partitioned_amd_device_is_shared() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/compute-memory-partition": "cpx_nps4"}
    assert only_node(node("m", labels, 64, "amd.com/gpu")).shared


@pytest.mark.parametrize(
    ("mode", "parts"), [("spx_nps1", 1), ("dpx_nps2", 2), ("qpx_nps4", 4), ("cpx_nps4", 8), ("CPX_NPS1", 8), ("new", 8)]
)
def test_a_part_of_an_amd_device_has_its_share_of_the_memory(mode: str, parts: int) -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/compute-memory-partition": mode}
    found = only_node(node("m", labels, 8 * parts, "amd.com/gpu"))
    assert (found.memory_bytes * parts, found.shared) == (196608 * MIB, parts > 1)


def test_partitions_under_a_resource_of_their_own_are_not_taken_for_whole_devices() -> None:
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM", "amd.com/compute-memory-partition": "cpx_nps4"}
    fabric = fabric_of([node("m", labels, 64, "amd.com/cpx_nps4")])
    assert fabric.domains == ()
    assert (Reason.SharedDevice, True) == (fabric.notes[0].reason, "64 amd.com/cpx_nps4" in fabric.notes[0].message)


def test_gaudi_is_known_by_our_label_alone_and_nobody_is_asked_to_add_it() -> None:
    """No device discovery names it, and no engine runs there, labelled or not."""
    assert "Gaudi3" == only_node(node("g", {"weft.dev/accelerator": "Gaudi3"}, 8, "habana.ai/gaudi")).accelerator
    (note,) = fabric_of([node("g", {}, 8, "habana.ai/gaudi")]).notes
    assert "has no engine: it is not used" in note.message


def test_an_unknown_product_is_named_and_not_used() -> None:
    fabric = fabric_of([node("odd", {"nvidia.com/gpu.product": "Voodoo-3"}, 8)])
    assert fabric.domains == ()
    assert fabric.notes[0].reason is Reason.AcceleratorUnknown
    assert "odd" in fabric.notes[0].message
    assert "Voodoo-3" in fabric.notes[0].message


def test_a_node_without_labels_is_named_with_the_label_it_needs() -> None:
    fabric = fabric_of([node("plain", {}, 8)])
    assert fabric.domains == ()
    assert "kubectl label node plain nvidia.com/gpu.product=" in fabric.notes[0].message


def test_a_labelled_node_without_devices_is_noted() -> None:
    assert fabric_of([board("b", gpus=0)]).notes[0].reason is Reason.DevicePluginMissing


def test_a_node_without_accelerators_is_nobodys_business() -> None:
    assert fabric_of([node("cpu", {"kubernetes.io/arch": "amd64"}, 0)]) == Fabric(())


def test_a_node_with_only_network_devices_is_nobodys_business() -> None:
    assert fabric_of([node("net", {}, 8, "rdma/ib")]) == Fabric(())


def test_unready_and_cordoned_nodes_are_unusable_and_their_gpus_not_free() -> None:
    fabric = fabric_of(
        [
            replace(board("a"), ready=False),
            replace(board("b"), cordoned=True),
            replace(board("c"), taints=(taint("x"),)),
        ]
    )
    unusable = {name: each.unusable.reason for name, each in fabric.nodes().items() if each.unusable}
    assert unusable == {"a": Reason.NodeNotReady, "b": Reason.NodeCordoned}
    assert [domain.free for domain in fabric.domains] == [0, 0, 8]
    assert fabric.nodes()["c"].taints == (taint("x"),)


def test_our_own_label_lets_an_administrator_say_what_a_node_has() -> None:
    assert only_node(node("plain", {"weft.dev/accelerator": "H200"}, 8)).accelerator == "H200"


def test_garbage_in_labels_breaks_nothing() -> None:
    noise = {
        "nvidia.com/gpu.replicas": "²",
        "nvidia.com/gpu.count": "9" * 5000,
        "nvidia.com/gpu.memory": "-1",
        "nvidia.com/gpu.clique": "",
    }
    assert only_node(tray("t", None, noise)).domain == "t"
