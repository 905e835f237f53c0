"""Accelerators and engine releases."""

from __future__ import annotations

import pytest

from weft.catalog import load
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.units import MIB

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
    "label", ["NVIDIA-H100-PCIe", "NVIDIA-H100-NVL", "NVIDIA-H200-NVL", "NVIDIA-GB300", "Tesla-T4", ""]
)
def test_parts_with_other_links_are_not_taken_for_their_siblings(label: str) -> None:
    assert CATALOG.accelerator_of_product(label) is None


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
    with pytest.raises(Invalid, match="H100, H200, B200, GB200, MI300X, cpu") as caught:
        CATALOG.accelerator("TPU")
    assert caught.value.reason is Reason.NoAccelerator


def test_every_served_precision_is_one_that_the_accelerator_computes_in() -> None:
    for accelerator in CATALOG.accelerators:
        served = CATALOG.precisions(accelerator, EngineName.VLLM)
        assert set(served) == {precision for precision, _ in accelerator.flops}
        for precision in served:
            found = CATALOG.efficiency(accelerator, EngineName.VLLM, precision)
            fractions = (
                found.compute,
                found.memory,
                found.attention,
                found.collective_bandwidth,
                found.exchange_bandwidth,
                found.memory_fraction,
            )
            assert all(0 < fraction <= 1 for fraction in fractions)


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


@pytest.mark.parametrize("engine", [EngineName.SGLang, EngineName.TensorRTLLM])
def test_engines_that_cannot_be_rendered_yet_say_so(engine: EngineName) -> None:
    with pytest.raises(Invalid, match=r"rendering comes later; set engine\.name VLLM or Auto") as caught:
        CATALOG.release(engine, None, "nvidia")
    assert caught.value.reason is Reason.EngineUnsupported
