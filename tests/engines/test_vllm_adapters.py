"""LoRA adapters of vLLM: how many are at hand, and of which rank."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import LLAMA, RELEASE, plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, ModelSpec
from weft.engines import LaunchRequest, adapter_for
from weft.render import revision

TWO = (("legal", "acme/legal"), ("code", "/adapters/code"))
MODULES = "--lora-modules legal=acme/legal code=/adapters/code"


def command(rank: int | None = None, args: tuple[str, ...] = (), version: str = "0.32.0") -> str:
    wanted = spec(model=ModelSpec(LLAMA, adapters=TWO, adapter_rank=rank), engine=EngineSpec(args=args))
    at = plan(shape(), replace(RELEASE, version=version))
    return " ".join(adapter_for(EngineName.VLLM).launch(LaunchRequest(wanted, at)).command)


@pytest.mark.parametrize(
    ("rank", "flags"),
    [
        (None, f"--enable-lora --max-loras 2 {MODULES}"),
        (16, f"--enable-lora --max-loras 2 {MODULES}"),
        (17, f"--enable-lora --max-loras 2 --max-lora-rank 32 {MODULES}"),
        (64, f"--enable-lora --max-loras 2 --max-lora-rank 64 {MODULES}"),
        (300, f"--enable-lora --max-loras 2 --max-lora-rank 320 {MODULES}"),
    ],
)
def test_vllm_has_room_for_the_largest_rank_in_one_of_its_sizes(rank: int | None, flags: str) -> None:
    assert flags in command(rank)


def test_a_larger_rank_than_vllm_has_is_refused() -> None:
    with pytest.raises(Invalid, match="rank 513 are not supported on vLLM: ranks go up to 512") as refused:
        command(513)
    assert refused.value.reason is Reason.FeatureUnsupported


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (ModelSpec("llama", adapters=(("llama", "acme/legal"),)), "llama is also the model's own name"),
        (ModelSpec(LLAMA, ("chat", "law"), adapters=(("law", "acme/legal"),)), "law is also the model's own name"),
        (ModelSpec(LLAMA, adapters=(("law", "/adapters/a,b"),)), "reads no source with a comma"),
    ],
)
def test_an_adapter_that_vllm_would_not_find_is_refused(model: ModelSpec, why: str) -> None:
    """The model would answer in its place, without a word; and a comma ends the engine."""
    with pytest.raises(Invalid, match=why):
        adapter_for(EngineName.VLLM).launch(LaunchRequest(spec(model=model), plan()))


def test_a_rank_of_the_users_is_theirs_and_large_enough() -> None:
    assert command(64, ("--max-lora-rank", "128")).count("--max-lora-rank") == 1
    with pytest.raises(
        Invalid, match=r"--max-lora-rank 32 has no room for spec\.model\.adapters of rank 64"
    ) as refused:
        command(64, ("--max-lora-rank", "32"))
    assert refused.value.reason is Reason.ArgumentConflict


def test_adapters_beyond_those_of_one_batch_wait_in_host_memory() -> None:
    fewer = command(args=("--max-loras", "1"))
    assert fewer.count("--max-loras") == 1
    assert "--max-cpu-loras 2" in fewer
    assert "--max-cpu-loras" not in command(args=("--max-loras=4",))
    assert command(args=("--max-loras", "1", "--max-cpu-loras", "1")).count("--max-cpu-loras") == 1


@pytest.mark.parametrize(
    ("size", "version", "allowed"),
    [
        ("48", "0.32.0", "use 1, 8, 16, 32, 64, 128, 256, 320 or 512"),
        ("1", "0.11.0", "use 8, 16, 32, 64, 128, 256, 320 or 512"),
        ("large", "0.33.1", "use 1, 8"),
    ],
)
def test_a_size_that_the_release_does_not_have_is_refused_with_those_it_has(
    size: str, version: str, allowed: str
) -> None:
    with pytest.raises(Invalid, match=allowed) as refused:
        command(args=("--max-lora-rank", size), version=version)
    assert refused.value.reason is Reason.FeatureUnsupported
    assert f"--max-lora-rank {size} is not supported on VLLM {version}" in refused.value.message


def test_a_size_that_the_release_has_passes() -> None:
    assert "--max-lora-rank 1" in command(args=("--max-lora-rank", "1"), version="0.11.1")


def test_a_pool_that_states_no_rank_keeps_its_revision() -> None:
    stated = spec(model=ModelSpec(LLAMA, adapters=TWO, adapter_rank=64))
    unstated = spec(model=ModelSpec(LLAMA, adapters=TWO))
    assert revision(stated, plan()) != revision(unstated, plan())
    assert revision(unstated, plan()) == "7d5fe766e6"
