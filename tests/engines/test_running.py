"""What a pod runs is told by its own label and image."""

from __future__ import annotations

import pytest

from weft.catalog import load
from weft.domain.cluster import PodPhase, PodRecord
from weft.domain.shape import EngineName, EngineRelease
from weft.engines import engine_label, release_in

VLLM = EngineRelease(EngineName.VLLM, "0.32.0", "vllm/vllm-openai:v0.32.0")
SGLANG = EngineRelease(EngineName.SGLang, "0.5.23", "lmsysorg/sglang:v0.5.23")
TENSORRT = EngineRelease(EngineName.TensorRTLLM, "1.3.0rc12", "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12")
NIM = "nvcr.io/nim/nvidia/vllm-model-free-nim:2.1.6"


def pod(label: str, image: str) -> PodRecord:
    return PodRecord(*("team", "chat-0", "uid", PodPhase.Running, "node", ()), engine=label, image=image)


@pytest.mark.parametrize("planned", [VLLM, SGLANG, TENSORRT])
@pytest.mark.parametrize("runs", [VLLM, SGLANG, TENSORRT])
def test_a_release_is_known_by_label_and_tag_whatever_is_planned(planned: EngineRelease, runs: EngineRelease) -> None:
    assert release_in(pod(engine_label(runs.name), runs.image), planned) == runs


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.10.2", "0.10.2"),
        ("mirror:5000/vllm:0.11.2-cu128@sha256:aa", "0.11.2-cu128"),
        ("mirror/vllm:stable", "0.32.0"),
        ("mirror/vllm", "0.32.0"),
        (NIM, "0.32.0"),
        ("", "0.32.0"),
    ],
    ids=["a tag", "a tag and more", "a word", "no tag", "the number of a NIM", "no image"],
)
def test_what_a_tag_does_not_tell_of_the_same_engine_is_taken_from_the_plan(image: str, version: str) -> None:
    assert release_in(pod("vllm", image), VLLM) == EngineRelease(EngineName.VLLM, version, image or VLLM.image)


def test_what_a_tag_does_not_tell_of_another_engine_is_what_weft_takes_by_itself() -> None:
    usual = load().engine(EngineName.VLLM).version
    assert release_in(pod("vllm", "mirror/vllm:stable"), SGLANG).version == usual


def test_a_pod_whose_label_nobody_knows_runs_what_is_planned() -> None:
    assert release_in(pod("", VLLM.image), VLLM) == release_in(pod("odd", VLLM.image), VLLM) == VLLM


def test_the_plan_says_which_version_an_image_has_that_it_names() -> None:
    odd = EngineRelease(EngineName.VLLM, "0.20.0", "mirror/vllm:2025.1")
    assert release_in(pod("vllm", odd.image), odd) is odd
