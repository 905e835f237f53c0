"""A name that nobody knows is answered with those that it may have meant."""

from __future__ import annotations

import pytest

from weft.catalog import load
from weft.domain.errors import Invalid

CATALOG = load()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("meta-llama/Llama-3.1-8B-Instrct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("deepseek-v33", "deepseek-ai/DeepSeek-V3"),
        ("DeepSeek R1", "deepseek-ai/DeepSeek-R1"),
        ("QWEN3-32", "Qwen/Qwen3-32B"),
        ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"),
        ("kimi", "moonshotai/Kimi-K2.5"),
    ],
)
def test_a_misspelt_or_shortened_model_is_recognised(name: str, meant: str) -> None:
    sentence = CATALOG.unknown_model(name)
    assert sentence.startswith(f"model {name!r} is not in the catalog, perhaps {meant}")
    assert sentence.count(" or ") < 3


@pytest.mark.parametrize("name", ["acme/secret", "acme-9b", "x", "", "模型", "a" * 5000])
def test_nothing_is_offered_for_a_name_like_no_other(name: str) -> None:
    assert "perhaps" not in CATALOG.unknown_model(name)
    assert len(CATALOG.unknown_model(name)) < 200


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("H2000", "H200"),
        ("mi300", "MI300X"),
        ("A-100", "A100"),
        ("NVIDIA-H200", "H200"),
        ("nvidia-h100-80gb", "H100"),
        ("NVIDIA-B300-SXM9", "B300"),
        ("GB200-NVL72", "GB200;"),
        ("h100_sxm5", "H100;"),
        ("H200-NVL-94GB", "H200-NVL;"),
    ],
)
def test_a_misspelt_accelerator_or_its_label_is_recognised(name: str, meant: str) -> None:
    with pytest.raises(Invalid, match=rf"{name}' is not in the catalog, perhaps {meant}.*it has A100, "):
        CATALOG.accelerator(name)
