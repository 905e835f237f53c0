"""Accelerators and engine releases."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from weft.catalog import load
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.texts.units import MIB

if TYPE_CHECKING:
    from weft.domain.hardware import Accelerator

CATALOG = load()


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("NVIDIA-H200", "H200"),
        ("NVIDIA-H200-SXM5-141GB", "H200"),
        ("NVIDIA-B200", "B200"),
        ("NVIDIA-GB200", "GB200"),
        ("NVIDIA-GB200-192GB-HBM3e", "GB200"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("CPU-TEST", "cpu"),
        ("nvidia-h100-80gb", "H100"),
        ("nvidia-h100-mega-80gb", "H100"),
        ("nvidia-h200-141gb", "H200"),
        ("nvidia-tesla-a100", "A100-40GB"),
        ("nvidia-a100-80gb", "A100"),
        ("nvidia-gb300", "GB300"),
        ("nvidia-rtx-pro-6000", "RTX-PRO-6000"),
        ("NVIDIA-A100-SXM4-80GB", "A100"),
        ("NVIDIA-A100-SXM4-40GB", "A100-40GB"),
        ("A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA-A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("NVIDIA-A100-80GB-PCIe", "A100-PCIe"),
        ("NVIDIA-A100-80GB-PCIe-MIG-1g.10gb", "A100-PCIe"),
        ("NVIDIA-A10", "A10"),
        ("NVIDIA-A10G", "A10G"),
        ("NVIDIA-H100-PCIe", "H100-PCIe"),
        ("NVIDIA-H100-NVL", "H100-NVL"),
        ("NVIDIA-H200-NVL", "H200-NVL"),
        ("NVIDIA-H20", "H20"),
        ("NVIDIA-H20-3e", "H20-3e"),
        ("NVIDIA-H800", "H800"),
        ("NVIDIA-A800-SXM4-80GB", "A800"),
        ("NVIDIA-A40", "A40"),
        ("NVIDIA-L40", "L40"),
        ("NVIDIA-L20", "L20"),
        ("NVIDIA-GH200-480GB", "GH200"),
        ("NVIDIA-GH200-144G-HBM3e", "GH200-144GB"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
        ("NVIDIA-GB300", "GB300"),
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA-L4", "L4"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000"),
        ("AMD_Instinct_MI325X_OAM", "MI325X"),
        ("AMD_Instinct_MI325_OAM", "MI325X"),
        ("AMD_Instinct_MI355_OAM", "MI355X"),
        ("AMD_Instinct_MI355X", "MI355X"),
        ("AMD_Instinct_MI350X", "MI350X"),
        ("AMD_Instinct_MI350_OAM", "MI350X"),
        ("gaudi3", "Gaudi3"),
        ("H200", "H200"),
        ("NVIDIA-B200-SHARED", "B200"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "H100"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb-SHARED", "H100"),
    ],
)
def test_product_labels_name_their_accelerator(label: str, expected: str) -> None:
    found = CATALOG.accelerator_of_product(label)
    assert found is not None
    assert found.name == expected


@pytest.mark.parametrize(
    "label",
    [
        "NVIDIA-A100X",
        "NVIDIA-A16",
        "NVIDIA-A10M",
        "NVIDIA-H800-PCIe",
        "NVIDIA-H20Z",
        "NVIDIA-L40G",
        "NVIDIA-A800-80GB-PCIe",
        "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
        "AMD_Instinct_MI300A",
        "AMD_Instinct_MI308X",
        "AMD_Instinct_MI350P",
        "Tesla-T4",
        "",
    ],
)
def test_parts_that_the_catalog_does_not_know_are_not_taken_for_their_siblings(label: str) -> None:
    assert CATALOG.accelerator_of_product(label) is None


def test_no_product_names_two_accelerators() -> None:
    for accelerator in CATALOG.accelerators:
        for product in accelerator.products:
            assert CATALOG.accelerator_of_product(product.replace("*", "")) in {accelerator, None}
            assert CATALOG.accelerator_of_product(product.replace("*", "-x")) is accelerator


def test_every_accelerator_is_found_by_its_own_name() -> None:
    for accelerator in CATALOG.accelerators:
        assert CATALOG.accelerator_of_product(accelerator.name) is accelerator


def test_the_first_product_of_every_accelerator_is_a_real_label() -> None:
    for accelerator in CATALOG.accelerators:
        assert CATALOG.accelerator_of_product(accelerator.products[0]) is accelerator


def test_numbers_are_in_plain_units() -> None:
    h200 = CATALOG.accelerator("h200")
    assert h200.memory_bytes == 143771 * MIB
    assert h200.memory_bandwidth == pytest.approx(4.8e12)
    assert h200.peak_flops(Precision.FP8) == pytest.approx(1.979e15)
    assert h200.peak_flops(Precision.NVFP4) is None
    assert h200.scale_up_bandwidth == pytest.approx(450e9)


def test_an_unknown_accelerator_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(Invalid, match=r"A100, A100-40GB, A100-PCIe, .*, MI355X, Gaudi3, cpu$") as caught:
        CATALOG.accelerator("TPU")
    assert caught.value.reason is Reason.NoAccelerator


REAL = [each for each in CATALOG.accelerators if each.vendor != "cpu"]
GENERATIONS = {
    "Ampere": {"A100", "A100-40GB", "A100-PCIe", "A100-PCIe-40GB", "A800", "A30", "A40", "A10", "A10G"},
    "Ada": {"L40S", "L40", "L20", "L4"},
    "Hopper": {"H100", "H100-PCIe", "H100-NVL", "H200", "H200-NVL", "H20", "H20-3e", "H800", "GH200", "GH200-144GB"},
    "Blackwell": {"B100", "B200", "B300", "GB200", "GB300"},
    "BlackwellRTX": {"RTX-PRO-6000"},
    "CDNA3": {"MI300X", "MI325X"},
    "CDNA4": {"MI350X", "MI355X"},
    "Gaudi": {"Gaudi3"},
}
# The most that one GPU of a generation computes in BF16, and that its link and its NIC carry: dense TFLOP/s and GB/s
# one way. Twice as much is sparse or both directions, and far more is a rack.
MOST = {
    "Ampere": (312, 300, 25),
    "Ada": (362, 32, 50),
    "Hopper": (989, 450, 50),
    "Blackwell": (2500, 900, 100),
    "BlackwellRTX": (504, 64, 50),
    "CDNA3": (1307, 448, 50),
    "CDNA4": (2500, 535.5, 50),
    "Gaudi": (1835, 600, 75),
}
FP8_OF_BF16 = {"Gaudi3": 1.0}  # of all others 2
EVERY_HARDWARE = pytest.mark.parametrize("accelerator", REAL, ids=lambda each: each.name)


def test_generations_have_the_parts_that_run_the_same_kernels() -> None:
    found: dict[str, set[str]] = {}
    for accelerator in REAL:
        found.setdefault(accelerator.generation, set()).add(accelerator.name)
    assert found == GENERATIONS


@EVERY_HARDWARE
def test_no_figure_is_sparse_or_of_both_directions_or_of_a_rack(accelerator: Accelerator) -> None:
    flops, link, network = MOST[accelerator.generation]
    assert 0 < (accelerator.peak_flops(Precision.BF16) or 0) <= flops * 1e12
    assert 0 < accelerator.scale_up_bandwidth <= link * 1e9
    assert 0 < accelerator.network_bandwidth <= network * 1e9
    assert accelerator.network_bandwidth < accelerator.scale_up_bandwidth or accelerator.domain_gpus == 1
    assert (accelerator.pcie_bandwidth is not None) == accelerator.name.endswith("-NVL")
    assert 0 < accelerator.link_bandwidth(accelerator.gpus_per_node) <= accelerator.link_bandwidth(1)


@EVERY_HARDWARE
def test_eight_bits_compute_twice_as_fast_as_sixteen(accelerator: Accelerator) -> None:
    """A sparse figure beside a dense one would make it four times."""
    half = accelerator.peak_flops(Precision.BF16) or 0
    for precision in (Precision.FP8, Precision.INT8):
        if (peak := accelerator.peak_flops(precision)) is not None:
            assert peak / half == pytest.approx(FP8_OF_BF16.get(accelerator.name, 2.0), rel=0.02)


@EVERY_HARDWARE
def test_four_bits_compute_like_what_the_kernels_widen_them_to(accelerator: Accelerator) -> None:
    half, eight = accelerator.peak_flops(Precision.BF16), accelerator.peak_flops(Precision.FP8)
    native = accelerator.generation in {"Blackwell", "CDNA4"}
    assert accelerator.peak_flops(Precision.INT4) in {half, None}
    assert accelerator.peak_flops(Precision.MXFP4) in {eight if native else half, None}
    nvfp4 = accelerator.peak_flops(Precision.NVFP4)
    assert (nvfp4 is not None) == accelerator.generation.startswith("Blackwell")
    if nvfp4 is not None and eight is not None:
        assert 1.99 <= nvfp4 / eight <= 3.01  # three times on the Ultra parts (B300, GB300)


@EVERY_HARDWARE
def test_memory_and_its_bandwidth_are_of_one_gpu(accelerator: Accelerator) -> None:
    """All HBM is read in 20 to 50 ms, GDDR in 40 to 90; a figure of a pair makes it half or twice."""
    gddr = {"A40", "A10", "A10G", "L20", "L4", "L40", "L40S", "RTX-PRO-6000"}
    least, most = (0.04, 0.09) if accelerator.name in gddr else (0.02, 0.05)
    assert 22e9 < accelerator.memory_bytes < 310e9
    assert least < accelerator.memory_bytes / accelerator.memory_bandwidth < most


@EVERY_HARDWARE
def test_racks_are_the_only_domains_larger_than_a_node(accelerator: Accelerator) -> None:
    racks = {"GB200", "GB300"}
    assert accelerator.gpus_per_node == {"GB200": 4, "GB300": 4, "GH200": 1, "GH200-144GB": 1}.get(accelerator.name, 8)
    if accelerator.name in racks:
        assert accelerator.domain_gpus == 72
    else:
        assert 1 <= accelerator.domain_gpus <= accelerator.gpus_per_node


@EVERY_HARDWARE
def test_costs_are_relative_to_one_h100(accelerator: Accelerator) -> None:
    assert CATALOG.accelerator("H100").cost == pytest.approx(1.0)
    assert 0.1 <= accelerator.cost <= 3


@pytest.mark.parametrize("engine", list(EngineName))
@EVERY_HARDWARE
def test_every_served_precision_is_one_that_the_accelerator_computes_in(
    accelerator: Accelerator, engine: EngineName
) -> None:
    served = CATALOG.precisions(accelerator, engine)
    assert set(served) <= {precision for precision, _ in accelerator.flops}
    for precision in served:
        found = CATALOG.efficiency(accelerator, engine, precision)
        fractions = (
            found.weights,
            found.kv,
            found.matmul,
            found.prefill,
            found.prefill_experts,
            found.attention,
            found.collective_bandwidth,
            found.exchange_bandwidth,
            found.memory_fraction,
        )
        assert all(0 < fraction <= 1 for fraction in fractions)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A100", "BF16 INT8 INT4 MXFP4"),
        ("A100-PCIe", "BF16 INT8 INT4 MXFP4"),
        ("A10G", "BF16 INT8 INT4 MXFP4"),
        ("L40S", "BF16 FP8 INT8 INT4 MXFP4"),
        ("H100", "BF16 FP8 INT8 INT4 MXFP4"),
        ("B200", "BF16 FP8 INT4 NVFP4 MXFP4"),
        ("B300", "BF16 FP8 INT4 NVFP4 MXFP4"),
        ("RTX-PRO-6000", "BF16 FP8 INT4 NVFP4 MXFP4"),
        ("MI300X", "BF16 FP8 INT8 INT4 MXFP4"),
        ("MI355X", "BF16 FP8 INT8 INT4 MXFP4"),
        ("Gaudi3", ""),
        ("cpu", "FP32 BF16 INT8"),
    ],
)
def test_vllm_serves_what_its_own_table_of_hardware_says(name: str, expected: str) -> None:
    """No FP8 on Ampere, FP4 activations on Blackwell only, and no INT8 kernels from compute capability 10 on."""
    assert " ".join(CATALOG.precisions(CATALOG.accelerator(name), EngineName.VLLM)) == expected


def test_what_one_part_cannot_compute_in_is_not_served_on_it_whatever_its_generation_does() -> None:
    b200 = CATALOG.accelerator("B200")
    without = replace(b200, flops=tuple(pair for pair in b200.flops if pair[0] is not Precision.FP8))
    assert Precision.FP8 in CATALOG.precisions(b200, EngineName.VLLM)
    assert Precision.FP8 not in CATALOG.precisions(without, EngineName.VLLM)


def test_an_accelerator_without_engines_is_known_and_refused_by_name() -> None:
    gaudi = CATALOG.accelerator("gaudi3")
    with pytest.raises(Invalid, match="VLLM does not serve BF16 on Gaudi3; it serves nothing there") as caught:
        CATALOG.efficiency(gaudi, EngineName.VLLM, Precision.BF16)
    assert caught.value.reason is Reason.PrecisionUnsupported
    with pytest.raises(Invalid, match="VLLM has no image for intel accelerators"):
        CATALOG.release(EngineName.VLLM, None, gaudi.vendor)


def test_a_precision_that_is_not_served_is_refused_with_those_that_are() -> None:
    with pytest.raises(Invalid, match="VLLM does not serve NVFP4 on H100; it serves BF16, FP8") as caught:
        CATALOG.efficiency(CATALOG.accelerator("H100"), EngineName.VLLM, Precision.NVFP4)
    assert caught.value.reason is Reason.PrecisionUnsupported


@pytest.mark.parametrize(
    ("vendor", "image"),
    [
        ("nvidia", "docker.io/vllm/vllm-openai:v0.32.0"),
        ("amd", "docker.io/vllm/vllm-openai-rocm:v0.32.0"),
        ("cpu", "docker.io/vllm/vllm-openai-cpu:v0.32.0"),
    ],
)
def test_the_default_release_has_an_image_for_each_vendor(vendor: str, image: str) -> None:
    assert CATALOG.release(EngineName.VLLM, None, vendor).image == image


def test_a_version_may_be_written_with_and_without_its_letter() -> None:
    assert CATALOG.release(EngineName.VLLM, "v0.11.2", "nvidia") == CATALOG.release(EngineName.VLLM, "0.11.2", "nvidia")


@pytest.mark.parametrize("version", ["0.9.2", "0.34.0", "1.0.0", "latest", "0.11.2; rm"])
def test_versions_outside_of_the_known_range_are_refused(version: str) -> None:
    with pytest.raises(Invalid, match=r"0\.10 to 0\.33") as caught:
        CATALOG.release(EngineName.VLLM, version, "nvidia")
    assert caught.value.reason is Reason.EngineUnsupported


@pytest.mark.parametrize("version", ["0.4.9", "0.5", "0.5.2", "0.5.24", "0.6.0"])
def test_releases_of_sglang_are_told_apart_by_their_third_number(version: str) -> None:
    with pytest.raises(Invalid, match=re.escape(f"SGLang {version} is not known; known are 0.5.3 to 0.5.23")):
        CATALOG.release(EngineName.SGLang, version, "nvidia")


@pytest.mark.parametrize("version", ["0.5.3", "0.5.10.post1", "v0.5.23", "0.5.23.post1"])
def test_known_releases_of_sglang_are_taken(version: str) -> None:
    assert CATALOG.release(EngineName.SGLang, version, "nvidia").version == version.removeprefix("v")
