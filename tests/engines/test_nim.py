"""NVIDIA's NIM: which images Weft drives, how one is started behind its proxy, and what is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.render.nim_shapes import NIM_SGLANG, NIM_SHAPES, NIM_VLLM, WRITES, in_a_nim, planned
from tests.render.pools import LLAMA, plan, pool, shape, spec
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, EngineRelease, Plan
from weft.domain.spec import (
    Balancing,
    EngineSpec,
    KVSpec,
    ModelSource,
    ModelSpec,
    PodSpec,
    PoolSpec,
    RolloutSpec,
    RouterKind,
    RouterSpec,
    SourceKind,
)
from weft.domain.texts.units import GIB
from weft.domain.workload import Role
from weft.engines import LaunchRequest, adapter_for, series_for, series_in_image
from weft.engines.images.nim import is_driven
from weft.render import render_pods

if TYPE_CHECKING:
    from weft.engines.terms.launch import ContainerLaunch

MODEL_FREE = "nvcr.io/nim/nvidia/vllm-model-free-nim"
OLD = EngineRelease(EngineName.VLLM, "0.31.0", "nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.6")
TRITON = EngineRelease(EngineName.VLLM, "0.31.0", "nvcr.io/nvidia/tritonserver:25.10-vllm-python-py3")
_HUB = SourceKind.HuggingFace


def launched(wanted: PoolSpec | None = None, chosen: Plan | None = None) -> ContainerLaunch:
    chosen = chosen or planned()
    return adapter_for(chosen.engine.name).launch(LaunchRequest(wanted or in_a_nim(chosen.engine), chosen))


def variables(found: ContainerLaunch) -> dict[str, str]:
    return {each.name: each.value for each in found.env}


def named(image: str, engine: EngineName = EngineName.VLLM) -> EngineRelease:
    return EngineRelease(engine, "0.31.0", image)


@pytest.mark.parametrize(
    ("image", "driven"),
    [
        (f"{MODEL_FREE}:2.1.6", True),
        (f"{MODEL_FREE}:2.0.10", True),
        (f"{MODEL_FREE}:2.1.2-variant", True),
        (f"{MODEL_FREE}:2.1.6@sha256:{64 * 'a'}", True),
        ("registry.example:5000/mirrored/vllm-model-free-nim:2.1.6", True),
        (f"{MODEL_FREE}:2.0.4-pb6", False),
        (f"{MODEL_FREE}:3.0.0", False),
        (f"{MODEL_FREE}:latest", False),
        (f"{MODEL_FREE}@sha256:{64 * 'a'}", False),
        (MODEL_FREE, False),
        ("nvcr.io/nim/nvidia/sglang-model-free-nim:2.1.6", False),  # another engine than the plan's
        ("nvcr.io/nim/nvidia/model-free-nim:2.1.5", False),  # of which engine?
        ("nvcr.io/nim/meta/llama-3.1-8b-instruct:1.8.6", False),
        ("nvcr.io/nim/meta/llama-3.1-8b-instruct:2.0.9", False),
        ("nvcr.io/nim/meta/llama-3.1-8b-instruct:3.0.0", False),
        ("nvcr.io/nim/meta/llama-3.1-8b-instruct:latest", False),
    ],
)
def test_a_nim_is_driven_or_refused_by_its_name_and_tag(image: str, *, driven: bool) -> None:
    release = named(image)
    assert is_driven(release) is driven
    if driven:
        assert launched(in_a_nim(release), planned(release)).args[0] == "nim-serve"
        return
    with pytest.raises(Invalid, match="a NIM for any model") as refused:
        launched(in_a_nim(release), planned(release))
    assert refused.value.reason is Reason.FeatureUnsupported
    assert image in refused.value.message


@pytest.mark.parametrize(
    "image",
    [
        "docker.io/vllm/vllm-openai:v0.31.0",
        "registry.example/nimble/vllm:2.1.6",
        "registry.example/nim/vllm-openai:v0.31.0",
        "registry.example/tritonserver-tools/vllm:v0.31.0",
        "registry.example/vllm-for-tritonserver:v0.31.0",
        "nvcr.io/nvidia/vllm:26.07-py3",  # what Triton's image for vLLM is built on, without Triton
    ],
)
def test_any_other_image_is_started_as_it_ever_was(image: str) -> None:
    found = launched(spec(), planned(named(image)))
    assert found.command[:2] == ("vllm", "serve")
    assert (found.args, found.user) == ((), None)


@pytest.mark.parametrize(
    ("release", "words"),
    [
        (OLD, "vllm-model-free-nim) or for one, by a tag from 2.0.10 to 2.x; this one is a NIM, which keeps its own"),
        (replace(OLD, image=f"mirror.example/{OLD.image}"), "this one is a NIM"),
        (TRITON, "name an image of vLLM or a NIM for any model (vllm-model-free-nim)"),
        (TRITON, "Triton, which stays ready after its engine has died, and reports no running requests and no KV use"),
        (replace(TRITON, image="mirror.example/tritonserver-pb:25.10"), "this one is Triton"),
        (replace(TRITON, name=EngineName.SGLang, version="0.5.23"), "name an image of SGLang or a NIM for any model"),
    ],
    ids=["nim", "nim-mirrored", "triton", "triton-why", "triton-branch", "triton-sglang"],
)
def test_servers_with_a_shape_of_their_own_are_refused_for_every_engine(release: EngineRelease, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        launched(spec(), planned(release))
    assert refused.value.reason is Reason.FeatureUnsupported
    assert words in refused.value.message


@pytest.mark.parametrize("release", [NIM_VLLM, NIM_SGLANG], ids=["vllm", "sglang"])
def test_it_listens_where_it_is_probed_scraped_and_sent_requests(release: EngineRelease) -> None:
    """The proxy knows neither `/health` nor `/metrics`."""
    found, series = launched(chosen=planned(release)), series_in_image(release)
    port = adapter_for(release.name).port
    assert variables(found)["NIM_SERVER_PORT"] == variables(found)["NIM_HEALTH_PORT"] == str(port)
    assert [each.number for each in found.ports] == [port]
    assert found.startup is not None
    assert found.readiness is not None
    assert {(each.path, each.port) for each in (found.startup, found.readiness)} == {("/v1/health/ready", port)}
    assert (series.port, series.path) == (port, "/v1/metrics")
    assert series == replace(series_for(release.name, release.version), path="/v1/metrics")
    assert not {"--port", "--host", "--model-path", "serve", "vllm"} & set(found.args)


@pytest.mark.parametrize(
    ("chosen", "flags"),
    [
        (planned(), ["--tensor-parallel-size 1", "--pipeline-parallel-size 1"]),
        (planned(tensor=4, pipeline_parallel=2), ["--tensor-parallel-size 4", "--pipeline-parallel-size 2"]),
        (planned(data_parallel=8, expert_parallel=8), ["--tensor-parallel-size 1", "--data-parallel-size 8"]),
        (planned(NIM_SGLANG), ["--tp-size 1", "--pp-size 1"]),
        (planned(NIM_SGLANG, data_parallel=8, expert_parallel=8), ["--tp-size 8", "--pp-size 1"]),
    ],
    ids=["one", "stages", "ranks", "sglang-one", "sglang-ranks"],
)
def test_the_plan_rules_over_the_profile_that_nim_would_choose_by_the_gpus_it_sees(
    chosen: Plan, flags: list[str]
) -> None:
    """Sizes of one are said too, once each."""
    line = " ".join(launched(chosen=chosen).args)
    assert [line.count(flag) for flag in flags] == [1] * len(flags)
    assert line.count(flags[0].partition(" ")[0] + " ") == 1


@pytest.mark.parametrize(
    ("source", "path", "mount"),
    [
        (None, f"hf://{LLAMA}", ("EmptyDir", "", "/opt/nim/.cache", True)),
        (ModelSource(_HUB, "a/b"), "hf://a/b", ("EmptyDir", "", "/opt/nim/.cache", True)),
        (ModelSource(_HUB, "a/b", revision="6f"), "hf://a/b:6f", ("EmptyDir", "", "/opt/nim/.cache", True)),
        (ModelSource(_HUB, "a/b", cache="kept"), "hf://a/b", ("PVC", "kept", "/opt/nim/.cache", True)),
        (ModelSource(SourceKind.PVC, "weights", "a/b"), "/model/a/b", ("PVC", "weights", "/model", False)),
        (ModelSource(SourceKind.Image, "registry/a"), "/model", ("Image", "registry/a", "/model", False)),
    ],
    ids=["none", "hub", "revision", "cache", "claim", "image"],
)
def test_the_model_of_the_plan_is_served_and_kept_where_nim_keeps_it(
    source: ModelSource | None, path: str, mount: tuple[Any, ...]
) -> None:
    found = launched(in_a_nim(model=ModelSpec(LLAMA, source=source)))
    assert variables(found)["NIM_MODEL_PATH"] == path
    assert found.model_mount is not None
    assert (found.model_mount.kind, found.model_mount.location, found.model_mount.path) == mount[:3]
    assert found.model_mount.writable is mount[3]
    assert "--revision" not in found.args
    assert "HF_HUB_CACHE" not in variables(found)


def test_the_token_of_the_hub_comes_from_the_secret_that_the_resource_names() -> None:
    source = ModelSource(_HUB, "a/b", token_secret=("hub", "token"))
    found = launched(in_a_nim(model=ModelSpec(LLAMA, source=source)))
    assert [each.secret for each in found.env if each.name == "HF_TOKEN"] == [("hub", "token")]


def test_requests_have_all_of_the_drain_before_sigterm() -> None:
    """Nobody says what the proxy does to open ones then, so even an engine that drains by itself is not told to."""
    found = launched(in_a_nim(rollout=RolloutSpec(drain_timeout_seconds=120)))
    assert found.pre_stop_seconds == 5 + 120
    assert found.grace_seconds == 5 + 120 + 5
    assert "--shutdown-timeout" not in found.args


@pytest.mark.parametrize(
    ("release", "offload"),
    [
        (
            EngineRelease(EngineName.VLLM, "0.33.0", f"{MODEL_FREE}:2.1.6"),
            '{"size":"64Gi","backend":"LMCache","diskGiB":200}',
        ),
        (NIM_SGLANG, '{"size":"64Gi","diskGiB":200}'),
    ],
    ids=str,
)
def test_kv_on_disks_has_its_volume_there_too(release: EngineRelease, offload: str) -> None:
    wanted = in_a_nim(release, kv=KVSpec(offload_json=offload))

    assert launched(wanted, planned(release)).disk_bytes == 200 * GIB
    assert launched(in_a_nim(release), planned(release)).disk_bytes == 0


def test_it_runs_as_the_user_that_its_files_belong_to_and_writes_them() -> None:
    record = NIM_SHAPES["nim-vllm-claim"]
    (pod,) = render_pods(record, record.status.assignments[0])
    (container,) = pod["spec"]["containers"]
    security = container["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"], security["readOnlyRootFilesystem"]) == (1000, 1000, False)
    assert pod["spec"]["securityContext"]["fsGroup"] == 2000  # so that it may write to the volumes of the pod


def test_a_writable_root_is_what_any_image_gets_that_asks_for_it_and_no_other() -> None:
    for asked in ((), ("WritableRoot",)):
        record = pool(spec(pod=PodSpec(relaxations=asked, permitted=asked)), plan(), ("node-a",))
        (pod,) = render_pods(record, record.status.assignments[0])
        security = pod["spec"]["containers"][0]["securityContext"]
        assert security["readOnlyRootFilesystem"] is not bool(asked)
        assert "runAsUser" not in security


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"role": Role.Decode}, "role Decode is not supported in a NIM: use Aggregated, or an image of the engine"),
        ({"pod": PodSpec()}, "add WritableRoot to spec.pod.relaxations"),
        ({"pod": replace(WRITES, relaxations=("WritableRoot", "RunAsRoot"))}, "spec.pod.relaxations RunAsRoot"),
        ({"router": RouterSpec(RouterKind.Managed)}, "spec.router.type Managed is not supported in a NIM: use None or"),
        ({"router": RouterSpec(api_key_secret=("keys", "key"))}, "router.apiKeySecretRef"),
        ({"model": ModelSpec(LLAMA, adapters=(("a", "/a"),))}, "model.adapters"),
        ({"model": ModelSpec(LLAMA, source=ModelSource(_HUB, LLAMA, warm_up=True))}, "warmUp"),
        ({"model": ModelSpec(LLAMA, source=ModelSource(SourceKind.URI, "s3://b/m"))}, "model.source.uri"),
        ({"balancing": Balancing.External}, "shape.dataParallelBalancing External"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_cannot_be_in_a_nim_is_refused_with_what_can(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        launched(replace(in_a_nim(), **parts))
    assert refused.value.reason is Reason.FeatureUnsupported
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"version": None}, "spec.engine.image without spec.engine.version is not supported in a NIM: say which"),
        ({"distributed": "Ray"}, "spec.engine.distributed Ray"),
        ({"env": (("NIM_MODEL_PROFILE", "x"),)}, "spec.engine.env may not set NIM_MODEL_PROFILE: use spec.shape"),
        ({"env": (("NIM_TAGS_SELECTOR", "tp=2"),)}, "spec.engine.env may not set NIM_TAGS_SELECTOR: use spec.shape"),
        ({"env": (("NIM_SPECDEC_ENABLE", "1"),)}, "use spec.engine.speculative"),
        ({"env": (("NIM_PASSTHROUGH_ARGS", "-x"),)}, "use spec.engine.args"),
        ({"env": (("NIM_SERVER_PORT", "9000"),)}, "Weft sets it"),
        ({"args": ("--tensor-parallel-size", "2")}, "spec.shape.tensorParallel"),
        ({"args": ("--port", "9000")}, "--port"),
        ({"args": ("--host", "::")}, "spec.engine.args may not contain --host in a NIM: requests come to its proxy"),
    ],
    ids=["version", "ray", "profile", "tags", "drafting", "passthrough", "port", "tensor", "listens", "ipv6"],
)
def test_what_contradicts_the_plan_is_refused_with_the_field_to_use(engine: dict[str, Any], words: str) -> None:
    usual = EngineSpec(name=NIM_VLLM.name, version=NIM_VLLM.version, image=NIM_VLLM.image)
    with pytest.raises(Invalid) as refused:
        launched(in_a_nim(engine=replace(usual, **engine)))
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        (planned(tensor=16, gpus_per_pod=8), "over 2 pods is not supported; allowed: one pod, or another"),
        (plan(shape(1, "MI300X"), NIM_VLLM), "runs on GPUs of NVIDIA, not on"),
        (plan(shape(1, "cpu", Precision.FP32), NIM_VLLM), "runs on GPUs of NVIDIA, not on"),
    ],
    ids=["pods", "amd", "cpu"],
)
def test_where_a_nim_does_not_run_it_is_refused(chosen: Plan, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        launched(chosen=chosen)
    assert words in refused.value.message
