"""How long a sequence a config allows: as vLLM derives it, and never shorter than one of its releases does."""

from __future__ import annotations

import pytest

from tests.catalog import configs
from tests.catalog.configs import LLAMA, read, without

POSITIONS = LLAMA["max_position_embeddings"]


def test_the_positions_are_the_context() -> None:
    assert POSITIONS == read(LLAMA).max_context_tokens


@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(
    ("rotation", "context"),
    [
        ({"rope_type": "linear", "factor": 4.0}, 4 * POSITIONS),
        ({"type": "dynamic", "factor": 2}, 2 * POSITIONS),
        ({"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32768}, 262144),
        ({"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32768}, POSITIONS),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, POSITIONS),
        ({"rope_type": "longrope", "factor": 32.0}, POSITIONS),
        ({"rope_type": "default"}, POSITIONS),
        ({"rope_type": "linear", "factor": None}, POSITIONS),
        ({"full_attention": {"rope_type": "linear", "factor": 2.0}, "sliding_attention": {}}, 2 * POSITIONS),
        ("linear", POSITIONS),
    ],
    ids=str,
)
def test_a_stretched_rotation_reaches_further(name: str, rotation: object, context: int) -> None:
    assert context == read(LLAMA, **{name: rotation}).max_context_tokens


def test_gemma_counts_its_stretch_in_the_positions() -> None:
    config = without(LLAMA, "architectures") | {"sliding_window": 1024, "rope_scaling": {"type": "linear", "factor": 8}}
    assert POSITIONS == read(config, architectures=["Gemma3ForCausalLM"]).max_context_tokens


def test_a_length_that_is_stated_beside_the_positions_counts_if_it_is_longer() -> None:
    assert 2 * POSITIONS == read(LLAMA, model_max_length=2 * POSITIONS).max_context_tokens
    assert POSITIONS == read(LLAMA, model_max_length=10).max_context_tokens
    assert POSITIONS == read(configs.DEEPSEEK, model_max_length="long").max_context_tokens
