"""What the repository and the tag of a published image say of the engine in it."""

from __future__ import annotations

import pytest

from weft.catalog import load
from weft.domain.shape import EngineName, EngineRelease
from weft.domain.spec import EngineSpec
from weft.engines.images.tags import image_mismatch, is_of_unknown_release, wished_version

VLLM, SGLANG, TENSORRT = EngineName.VLLM, EngineName.SGLang, EngineName.TensorRTLLM
ACCELERATORS = {each.vendor: each.name for each in load().accelerators}  # one of each vendor
DIGEST = f"@sha256:{'ab' * 32}"
TOLD = [
    (VLLM, "vllm/vllm-openai:v0.17.1", "0.17.1"),
    (VLLM, "docker.io/vllm/vllm-openai:v0.17.1", "0.17.1"),
    (VLLM, "registry.example/vllm/vllm-openai:v0.17.1", "0.17.1"),
    (VLLM, "registry.example:5000/mirrors/vllm/vllm-openai:v0.10.1.1", "0.10.1.1"),
    (VLLM, f"vllm/vllm-openai:v0.17.1-cu130{DIGEST}", "0.17.1"),
    (VLLM, "vllm/vllm-openai-rocm:v0.18.0", "0.18.0"),
    (VLLM, "vllm/vllm-openai-cpu:v0.32.0", "0.32.0"),
    (SGLANG, "lmsysorg/sglang:v0.5.10", "0.5.10"),
    (SGLANG, "lmsysorg/sglang:v0.5.12.post1-rocm720-mi30x", "0.5.12.post1"),
    (TENSORRT, "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc12", "1.3.0rc12"),
    (TENSORRT, "registry.example/tensorrt-llm/release:1.2.1", "1.2.1"),
]
UNTOLD = [
    (VLLM, f"vllm/vllm-openai{DIGEST}"),
    (VLLM, "vllm/vllm-openai:latest"),
    (VLLM, "vllm/vllm-openai:nightly-0123456789abcdef"),
    (VLLM, "vllm/vllm-openai"),
    (VLLM, "vllm/vllm-openai:v0.9.0"),
    (VLLM, "vllm/vllm-openai:v0.17.1.dev3"),
    (VLLM, "vllm-openai:v0.17.1"),
    (VLLM, "registry.example/team/vllm:v0.17.1"),
    (VLLM, "registry.example/team/vllm-openai:v0.17.1"),
    (VLLM, "lmsysorg/sglang:v0.5.10"),
    (SGLANG, "lmsysorg/sglang:v0.5.2"),
    (TENSORRT, "registry.example/team/release:1.3.0rc12"),
]


@pytest.mark.parametrize(("engine", "image", "version"), TOLD)
def test_the_tag_of_a_published_image_says_its_release(engine: EngineName, image: str, version: str) -> None:
    wish = EngineSpec(name=engine, image=image)
    assert wished_version(wish, engine) == version
    assert not is_of_unknown_release(wish, engine)


@pytest.mark.parametrize(("engine", "image"), UNTOLD)
def test_other_names_say_no_release_that_weft_knows(engine: EngineName, image: str) -> None:
    assert wished_version(EngineSpec(name=engine, image=image), engine) is None


def test_the_version_that_is_named_goes_first() -> None:
    wish = EngineSpec(name=VLLM, image="vllm/vllm-openai:v0.17.1", version="0.30.0")
    assert wished_version(wish, VLLM) == "0.30.0"
    assert not is_of_unknown_release(EngineSpec(version="0.30.0", image="registry.example/team/vllm:7"), VLLM)


@pytest.mark.parametrize("image", [f"vllm/vllm-openai{DIGEST}", "vllm/vllm-openai:latest", "example/vllm:v0.17.1"])
def test_an_image_without_a_release_is_known_as_such(image: str) -> None:
    assert is_of_unknown_release(EngineSpec(name=VLLM, image=image), VLLM)
    assert not is_of_unknown_release(EngineSpec(name=VLLM), VLLM)


@pytest.mark.parametrize(
    ("release", "vendor", "words"),
    [
        (EngineRelease(VLLM, "0.30.0", "vllm/vllm-openai:v0.17.1"), "nvidia", "release 0.17.1, and is started as VLLM"),
        (EngineRelease(VLLM, "0.32.0", "mirror.example/vllm/vllm-openai:v0.9.0"), "nvidia", "release 0.9.0"),
        (EngineRelease(TENSORRT, "1.3.0rc12", "tensorrt-llm/release:1.3.0rc14"), "nvidia", "1.3.0rc14"),
        (
            EngineRelease(VLLM, "0.32.0", "lmsysorg/sglang:v0.5.23"),
            "nvidia",
            "is one of SGLang, and is started as VLLM",
        ),
        (EngineRelease(VLLM, "0.32.0", "vllm/vllm-openai-rocm:v0.32.0"), "nvidia", "amd accelerators, and runs on"),
    ],
    ids=[
        "another release",
        "a release that Weft does not know",
        "another candidate",
        "another engine",
        "another vendor",
    ],
)
def test_a_contradiction_is_told(release: EngineRelease, vendor: str, words: str) -> None:
    told = image_mismatch(release, ACCELERATORS[vendor])
    assert told is not None
    assert told.startswith(f"spec.engine.image {release.image} is ")
    assert words in told


@pytest.mark.parametrize(
    ("release", "vendor"),
    [
        (EngineRelease(VLLM, "0.17.1", "vllm/vllm-openai:v0.17.1-cu130"), "nvidia"),
        (EngineRelease(VLLM, "v0.17.1", f"vllm/vllm-openai{DIGEST}"), "nvidia"),
        (EngineRelease(VLLM, "0.30.0", "vllm/vllm-openai:latest"), "nvidia"),
        (EngineRelease(VLLM, "0.30.0", "registry.example/team/vllm:v0.17.1"), "nvidia"),
        (EngineRelease(SGLANG, "0.5.12", "lmsysorg/sglang:v0.5.12-rocm720-mi30x"), "amd"),
        (EngineRelease(SGLANG, "0.5.10.post1", "lmsysorg/sglang:v0.5.10"), "nvidia"),
    ],
    ids=[
        "more behind it",
        "a digest",
        "a word",
        "a build of one's own",
        "the only repository for all",
        "a later build",
    ],
)
def test_what_fits_or_says_nothing_is_no_contradiction(release: EngineRelease, vendor: str) -> None:
    assert image_mismatch(release, ACCELERATORS[vendor]) is None


@pytest.mark.parametrize("engine", EngineName)
def test_no_image_of_the_catalog_contradicts_itself(engine: EngineName) -> None:
    facts = load().engine(engine)
    for vendor, image in facts.images:
        wish = EngineSpec(name=engine, image=image.format(version=facts.version))
        assert wished_version(wish, engine) == facts.version
        assert image_mismatch(load().release(engine, None, vendor), ACCELERATORS[vendor]) is None
