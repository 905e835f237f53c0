"""NVIDIA's NIM for one model: the profile that the user names rules the weights, and has to be the plan's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.render.nim_shapes import B200_TP8, FP8_TP2, NIM_VLLM, ONE_SGLANG, ONE_VLLM, by_profile, in_a_nim, planned
from tests.render.pools import plan, shape
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, EngineRelease, Plan
from weft.domain.spec import ModelSource, ModelSpec, PoolSpec, SourceKind
from weft.engines import LaunchRequest, adapter_for, series_for, series_in_image
from weft.engines.images.nim import is_driven, is_of_one_model
from weft.engines.images.nim_profiles import PROFILE

if TYPE_CHECKING:
    from weft.engines.terms.launch import ContainerLaunch

MODEL = "meta-llama/Llama-3.3-70B-Instruct"
_HUB = SourceKind.HuggingFace
FP8 = planned(ONE_VLLM, tensor=2, precision=Precision.FP8)
BRANCH = replace(ONE_VLLM, image="nvcr.io/nim/nvidia/nemotron-3.5-lightning-30b-a3b-pb7:2.1.5-pb7.0")


def launched(wanted: PoolSpec | None = None, chosen: Plan = FP8, checkpoint: Any = Precision.BF16) -> ContainerLaunch:  # noqa: ANN401 - of the catalog
    request = LaunchRequest(wanted or by_profile(FP8_TP2), chosen, checkpoint=checkpoint)
    return adapter_for(chosen.engine.name).launch(request)


def of_branch(release: EngineRelease = BRANCH, **key: str) -> ContainerLaunch:
    """A production branch, with the given variables beside its profile."""
    wanted = by_profile(None if "model-free" in release.image else FP8_TP2, release)
    engine = replace(wanted.engine, env=(*wanted.engine.env, *key.items()))
    return launched(replace(wanted, engine=engine), replace(FP8, engine=release))


def test_the_profile_that_is_named_is_told_and_no_model_beside_it() -> None:
    told = {each.name: each.value for each in launched().env}
    assert told[PROFILE] == FP8_TP2
    assert "NIM_MODEL_PATH" not in told


def test_weights_of_a_profile_are_loaded_as_they_are_stored() -> None:
    """The model of the plan is stored in BF16, and its FP8 by the profile is another checkpoint."""
    assert "--quantization" not in launched().args
    assert "--quantization" in launched(in_a_nim(NIM_VLLM), replace(FP8, engine=NIM_VLLM)).args


@pytest.mark.parametrize(
    ("wanted", "chosen", "said"),
    [
        (
            by_profile(FP8_TP2),
            FP8,
            "--tensor-parallel-size 2,--pipeline-parallel-size 1,--data-parallel-size 1,--no-enable-expert-parallel",
        ),
        (
            by_profile("vllm-fp8-tp2-pp2"),
            planned(ONE_VLLM, tensor=2, pipeline_parallel=2, precision=Precision.FP8),
            "--tensor-parallel-size 2,--pipeline-parallel-size 2,--data-parallel-size 1",
        ),
        (
            by_profile("vllm-fp8-tp2-pp1"),
            planned(ONE_VLLM, tensor=2, expert_parallel=2, precision=Precision.FP8),
            "--enable-expert-parallel",
        ),
        (
            by_profile("sglang-bf16-tp1-pp1", ONE_SGLANG),
            planned(ONE_SGLANG),
            "--tp-size 1,--pp-size 1,--dp-size 1,--ep-size 1",
        ),
        (
            by_profile("sglang-bf16-tp2-pp1", ONE_SGLANG),
            planned(ONE_SGLANG, tensor=2, expert_parallel=2),
            "--tp-size 2,--pp-size 1,--dp-size 1,--ep-size 2",
        ),
    ],
    ids=["vllm", "stages", "experts", "sglang", "sglang experts"],
)
def test_all_sizes_are_said_once_so_that_none_comes_with_the_profile(wanted: PoolSpec, chosen: Plan, said: str) -> None:
    line = f" {' '.join(launched(wanted, chosen).args)} "
    assert [line.count(f" {each} ") for each in said.split(",")] == [1] * len(said.split(","))


@pytest.mark.parametrize("release", [ONE_VLLM, ONE_SGLANG], ids=["vllm", "sglang"])
def test_it_is_probed_and_scraped_as_the_one_for_any_model(release: EngineRelease) -> None:
    profile = f"{release.name.value.lower()}-bf16-tp1-pp1"
    found, series = launched(by_profile(profile, release), planned(release)), series_in_image(release)
    assert found.args[0] == "nim-serve"
    assert found.startup is not None
    assert found.readiness is not None
    assert {(each.path, each.port) for each in (found.startup, found.readiness)} == {("/v1/health/ready", series.port)}
    assert series == replace(series_for(release.name, release.version), path="/v1/metrics")
    assert found.user == 1000


@pytest.mark.parametrize("image", [ONE_VLLM.image, f"mirror.example/{ONE_VLLM.image}"])
def test_it_is_told_by_its_folder(image: str) -> None:
    release = replace(ONE_VLLM, image=image)
    assert is_of_one_model(release)
    assert is_driven(release)
    assert not is_of_one_model(replace(release, name=EngineName.TensorRTLLM))
    assert not is_of_one_model(NIM_VLLM)


def test_its_token_and_the_claim_for_downloads_are_the_resources() -> None:
    source = ModelSource(_HUB, MODEL, token_secret=("hub", "token"), cache="kept")
    found = launched(by_profile(FP8_TP2, model=ModelSpec(MODEL, source=source)))
    assert [each.secret for each in found.env if each.name == "HF_TOKEN"] == [("hub", "token")]
    assert found.model_mount is not None
    assert (found.model_mount.location, found.model_mount.path) == ("kept", "/opt/nim/.cache")


@pytest.mark.parametrize(
    ("profile", "reason", "words"),
    [
        (None, Reason.EngineUnsupported, f"without {PROFILE} in spec.engine.env"),
        (64 * "a", Reason.EngineUnsupported, "allowed: a description that list-model-profiles of the image prints"),
        ("default", Reason.EngineUnsupported, "does not say engine, precision (bf16, fp8, mxfp4, nvfp4), TP and PP"),
        ("tensorrt_llm-h100-fp8-tp2-pp1-latency", Reason.EngineUnsupported, "does not say engine, precision"),
        ("vllm-w4a16-tp2-pp1", Reason.EngineUnsupported, "does not say engine, precision"),
        ("vllm-fp8-tp0-pp1", Reason.EngineUnsupported, "does not say engine, precision"),
        (f"vllm-fp8-tp{5000 * '2'}-pp1", Reason.EngineUnsupported, f"{88 * '2'} does not say engine, precision"),
        ("vllm-fp8-tp2-pp1-feat_lora", Reason.EngineUnsupported, "is for adapters"),
        ("vllm-fp8-tp2-pp1-lora", Reason.EngineUnsupported, "is for adapters"),
        ("vllm-fp8-tp2-pp1-dp4", Reason.EngineUnsupported, "says dp4, which Weft cannot plan"),
        ("sglang-fp8-tp2-pp1", Reason.EngineUnsupported, "is of SGLang; allowed: spec.engine.name SGLang"),
        (
            "vllm-nvidia-b200-fp8-tp2-pp1",
            Reason.EngineUnsupported,
            "is for nvidia-b200; allowed: spec.placement.accelerators [B200]",
        ),
        (
            "vllm-h300-fp8-tp2-pp1",
            Reason.EngineUnsupported,
            "is for h300, which Weft does not know; allowed: a profile without",
        ),
        ("vllm-bf16-tp2-pp1", Reason.PrecisionUnsupported, "has weights in BF16; allowed: spec.model.precision BF16"),
        ("vllm-fp8-tp4-pp1", Reason.EngineUnsupported, "allowed: spec.shape.tensorParallel 4 and pipelineParallel 1"),
        ("vllm-fp8-tp2-pp2", Reason.EngineUnsupported, "is TP 2 x PP 2; allowed: spec.shape.tensorParallel 2"),
    ],
)
def test_a_profile_that_is_not_the_plans_is_refused_with_the_field_to_use(
    profile: str | None, reason: Reason, words: str
) -> None:
    with pytest.raises(Invalid) as refused:
        launched(by_profile(profile))
    assert (refused.value.reason, words in refused.value.message) == (reason, True), refused.value.message


@pytest.mark.parametrize("profile", ["vllm-nvidia-h200-fp8-tp2-pp1-throughput-41.0", "vllm-h200-fp8-tp2-pp1-latency"])
def test_a_profile_for_the_gpu_of_the_plan_is_taken(profile: str) -> None:
    assert PROFILE in {each.name for each in launched(by_profile(profile)).env}


def test_ranks_beside_those_of_a_profile_are_refused() -> None:
    with pytest.raises(Invalid, match="is for 2 GPUs; allowed: one data-parallel rank"):
        launched(chosen=planned(ONE_VLLM, tensor=2, data_parallel=4, precision=Precision.FP8))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            ModelSource(SourceKind.PVC, "weights"),
            "spec.model.source.pvc is not supported in a NIM: remove it, as the profile",
        ),
        (ModelSource(SourceKind.Image, "registry/a"), "model.source.image"),
        (ModelSource(SourceKind.URI, "s3://b/m"), "model.source.uri"),
        (ModelSource(_HUB, "another/model"), "model.source.huggingFace.repository"),
        (ModelSource(_HUB, MODEL, revision="6f"), "model.source.huggingFace.revision"),
    ],
    ids=["claim", "image", "store", "repository", "revision"],
)
def test_weights_of_the_users_are_refused_as_the_profile_decides_which(source: ModelSource, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        launched(by_profile(FP8_TP2, model=ModelSpec(MODEL, source=source)))
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NIM_MODEL_PATH", "its profile decides which weights"),
        ("NIM_TAGS_SELECTOR", f"name one profile in {PROFILE}"),
        ("NIM_TENSOR_PARALLEL_SIZE", "use spec.shape.tensorParallel"),
    ],
)
def test_variables_that_choose_otherwise_are_refused(name: str, words: str) -> None:
    wanted = by_profile(FP8_TP2)
    engine = replace(wanted.engine, env=(*wanted.engine.env, (name, "x")))
    with pytest.raises(Invalid, match=words) as refused:
        launched(replace(wanted, engine=engine))
    assert refused.value.message.startswith(f"spec.engine.env may not set {name}")


@pytest.mark.parametrize("release", [BRANCH, replace(NIM_VLLM, image=f"{NIM_VLLM.image}-pb7.0")], ids=["one", "any"])
def test_a_production_branch_does_not_download_without_a_key(release: EngineRelease) -> None:
    with pytest.raises(Invalid, match="use an image without -pb in its name and tag"):
        of_branch(release)
    assert of_branch(release, NGC_API_KEY="nvapi-x").args[0] == "nim-serve"


def test_a_production_branch_for_any_model_reads_a_claim_without_a_key() -> None:
    release = replace(NIM_VLLM, image=f"{NIM_VLLM.image}-pb7.0")
    wanted = in_a_nim(release, model=ModelSpec(MODEL, source=ModelSource(SourceKind.PVC, "weights")))
    assert launched(wanted, replace(FP8, engine=release)).args[0] == "nim-serve"


def test_where_a_profile_fits_a_plan_on_another_kind_it_is_not_taken_for_this_one() -> None:
    chosen = plan(shape(8, "H200", Precision.NVFP4, EngineName.SGLang), ONE_SGLANG)
    with pytest.raises(Invalid, match="is for nvidia-b200; allowed"):
        launched(by_profile(B200_TP8, ONE_SGLANG), chosen)
