"""Nodes whose accelerators nobody here can use: none of them is passed over without a word."""

from __future__ import annotations

import pytest

from tests.fabric.cluster import AMD, NVIDIA, board, node
from weft.catalog import load
from weft.domain.cluster import NodeRecord
from weft.domain.reasons import Reason
from weft.domain.spec import PlacementSpec
from weft.fabric import build_fabric
from weft.placement import no_supplier

MACHINE = "node.kubernetes.io/instance-type"
PRODUCT = "nvidia.com/gpu.product"


def notes(*nodes: NodeRecord) -> list[tuple[Reason, str]]:
    found = build_fabric(nodes, (), load())
    assert () == found.domains
    return [(note.reason, note.message) for note in found.notes]


@pytest.mark.parametrize(
    "resource",
    [
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
        "tenstorrent.com/n300",
        "furiosa.ai/rngd",
        "rebellions.ai/ATOM",
        "cambricon.com/mlu",
        "mthreads.com/vgpu",
        "metax-tech.com/gpu",
        "hygon.com/dcunum",
        "iluvatar.ai/vgpu",
        "enflame.com/vgcu",
        "kunlunxin.com/xpu",
    ],
)
def test_accelerators_without_an_engine_are_told_of(resource: str) -> None:
    """Gaudi is in the catalog, but no label would make an engine run on it."""
    why = f"node n offers 8 {resource}, for which Weft has no engine: it is not used"
    assert [(Reason.AcceleratorUnknown, why)] == notes(node("n", {}, 8, resource))


@pytest.mark.parametrize("labels", [{}, {PRODUCT: "NVIDIA-H100-80GB-HBM3"}, {MACHINE: "p5.48xlarge"}])
@pytest.mark.parametrize(
    "resource", ["nvidia.com/GH100_H100_SXM5_80GB", "nvidia.com/NVIDIA_A10-24Q", "nvidia.com/pgpu"]
)
def test_gpus_of_virtual_machines_are_told_of(resource: str, labels: dict[str, str]) -> None:
    """KubeVirt's and Kata's device plugins offer them beside no feature discovery; a label of old may have stayed."""
    ((reason, message),) = notes(node("n", labels, 8, resource))
    assert (Reason.SharedDevice, f"node n offers 8 {resource}, which are for virtual machines") == (
        reason,
        message.partition(":")[0],
    )


def test_whole_gpus_beside_those_of_virtual_machines_are_used() -> None:
    devices = ((NVIDIA, 4), ("nvidia.com/GH100_H100_SXM5_80GB", 4))
    half = NodeRecord("n", "uid-n", ((PRODUCT, "NVIDIA-H100-80GB-HBM3"),), capacity=devices, allocatable=devices)
    found = build_fabric((half,), (), load()).nodes()["n"]
    assert (4, None) == (found.total, found.unusable)
    assert found.impaired is not None
    assert "for virtual machines" in found.impaired.message


@pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.10gb", "amd.com/cpx_nps4", "aliyun.com/gpu-mem"])
@pytest.mark.parametrize("labels", [{}, {MACHINE: "p5.48xlarge"}])
def test_parts_under_names_of_their_own_are_told_of_without_a_product_label(
    resource: str, labels: dict[str, str]
) -> None:
    ((reason, message),) = notes(node("n", labels, 56, resource))
    assert Reason.SharedDevice is reason
    assert message.startswith(f"node n offers 56 {resource}, which Weft does not ask for")


@pytest.mark.parametrize(
    ("label", "value", "what", "resource"),
    [
        (MACHINE, "p5.48xlarge", ", which has H100,", NVIDIA),
        (MACHINE, "BM.GPU.MI300X.8", ", which has MI300X,", AMD),
        ("nvidia.com/gpu.present", "true", "", NVIDIA),
        ("feature.node.kubernetes.io/amd-gpu", "true", "", AMD),
    ],
)
def test_a_node_that_must_have_gpus_and_offers_none_is_told_of(
    label: str, value: str, what: str, resource: str
) -> None:
    """Its device plugin has never registered, so that not even a zero stays behind."""
    why = f"node n is labelled {label}={value}{what} but offers no {resource}: is the device plugin running?"
    assert [(Reason.DevicePluginMissing, why)] == notes(node("n", {label: value}, 0))


@pytest.mark.parametrize(
    ("labels", "resource"),
    [
        ({}, "nvidia.com/mlnxnics"),
        ({}, "nvidia.com/sriov-rdma-vf"),
        ({}, "nvidia.com/GH100_H100_NVSwitch"),
        ({}, "devices.kubevirt.io/kvm"),
        ({}, "gpu.intel.com/i915_monitoring"),
        ({"nvidia.com/gpu.present": "false", MACHINE: "m7i.48xlarge"}, "vpc.amazonaws.com/efa"),
    ],
)
def test_nodes_without_accelerators_are_not(labels: dict[str, str], resource: str) -> None:
    assert [] == notes(node("n", labels, 8, resource))


def test_a_virtual_gpu_is_called_one() -> None:
    """Nobody should be told to label it as the whole GPU that it is a part of."""
    labels = {PRODUCT: "NVIDIA-A100D-40C", "nvidia.com/vgpu.present": "true"}
    ((reason, message),) = notes(node("n", labels, 1))
    assert Reason.AcceleratorUnknown is reason
    assert "has 'NVIDIA-A100D-40C', a virtual GPU (vGPU)" in message
    assert "kubectl" not in message


def test_a_pool_without_an_accelerator_is_told_of_such_a_node() -> None:
    only = build_fabric((node("n", {MACHINE: "p5.48xlarge"}, 0),), (), load())
    assert "node n is labelled" in no_supplier(only, PlacementSpec()).message
    beside = build_fabric((board("b"), node("n", {}, 8, "nvidia.com/pgpu")), (), load())
    assert "node n offers 8 nvidia.com/pgpu" in no_supplier(beside, PlacementSpec(accelerators=("H100",))).message
