"""TensorRT-LLM: what a wish becomes in arguments and in the settings file, and what is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.render.pools import UID, plan, shape, spec
from tests.render.tensorrt_llm_shapes import TENSORRT_LLM_SHAPES, V1_3, planned
from weft.catalog import load
from weft.catalog.options import engine_options
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, EngineRelease, Plan
from weft.domain.spec import (
    EngineSpec,
    KVSpec,
    ModelSource,
    ModelSpec,
    PoolSpec,
    RolloutSpec,
    RouterSpec,
    SourceKind,
)
from weft.domain.workload import Role
from weft.engines import FrontRequest, LaunchRequest, adapter_for, series_for

if TYPE_CHECKING:
    from weft.engines.terms.launch import ContainerLaunch

ENGINE = adapter_for(EngineName.TensorRTLLM)
OPTIONS = engine_options("tensorrt_llm_options.yaml")
SETTINGS = yaml.safe_load(Path(__file__).with_name("tensorrt_llm_settings.yaml").read_text())
GOLDEN = Path(__file__).parents[1] / "render" / "golden"
NIM = EngineRelease(EngineName.TensorRTLLM, "1.2.1", "nvcr.io/nim/meta/llama-3.3-70b-instruct:1.8")
TRITON = EngineRelease(EngineName.TensorRTLLM, "1.2.1", "nvcr.io/nvidia/tritonserver:25.10-trtllm-python-py3")


def launched(wanted: PoolSpec | None = None, chosen: Plan | None = None, **request: Any) -> ContainerLaunch:  # noqa: ANN401 - fields of LaunchRequest
    return ENGINE.launch(LaunchRequest(wanted or spec(), chosen or planned(), **request))


def command(wanted: PoolSpec | None = None, chosen: Plan | None = None) -> str:
    return " ".join(launched(wanted, chosen).command)


def settings(wanted: PoolSpec | None = None, chosen: Plan | None = None, **request: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of LaunchRequest
    (file,) = launched(wanted, chosen, **request).files
    found: dict[str, Any] = yaml.safe_load(file.text)
    return found


def golden(name: str) -> tuple[str, dict[str, Any]]:
    """The version of a recorded pod's engine as (major, minor) text, and the first pod of the replica."""
    release = TENSORRT_LLM_SHAPES[name].status.plan
    assert release is not None
    pod, *_ = yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text())
    return ".".join(release.engine.version.split(".")[:2]), pod


@pytest.mark.parametrize("name", TENSORRT_LLM_SHAPES)
def test_recorded_commands_use_only_options_that_their_version_has(name: str) -> None:
    version, pod = golden(name)
    given = [word for word in pod["spec"]["containers"][0]["command"] if word.startswith("-")]
    assert given
    assert set(given) <= (OPTIONS.of(version) or set())


@pytest.mark.parametrize("name", TENSORRT_LLM_SHAPES)
def test_recorded_files_have_only_settings_that_their_version_has(name: str) -> None:
    version, pod = golden(name)
    text = pod["metadata"]["annotations"]["weft.dev/file-trtllm.yaml"]
    assert set(yaml.safe_load(text)) <= set(SETTINGS[version])


@pytest.mark.parametrize("name", TENSORRT_LLM_SHAPES)
def test_the_file_is_where_the_command_says_and_only_read(name: str) -> None:
    """It is an annotation of the pod, which the kubelet writes as a file: no other object, and no shell."""
    _, pod = golden(name)
    container = pod["spec"]["containers"][0]
    path = container["command"][container["command"].index("--extra_llm_api_options") + 1]
    mount = next(each for each in container["volumeMounts"] if path.startswith(each["mountPath"] + "/"))
    volume = next(each for each in pod["spec"]["volumes"] if each["name"] == mount["name"])
    item = {"fieldPath": "metadata.annotations['weft.dev/file-trtllm.yaml']"}
    assert mount["readOnly"] is True
    assert volume["downwardAPI"]["items"][0] == {"path": path.rpartition("/")[2], "fieldRef": item}


@pytest.mark.parametrize(
    ("chosen", "flags"),
    [
        (planned(), "--tp_size 1 --gpus_per_node 1"),
        (planned(4, pipeline_parallel=2), "--tp_size 4 --pp_size 2 --gpus_per_node 8"),
        (planned(8, expert_parallel=8), "--tp_size 8 --ep_size 8 --gpus_per_node 8"),
        (planned(1, data_parallel=8, expert_parallel=8), "--tp_size 8 --ep_size 8 --gpus_per_node 8"),
    ],
    ids=str,
)
def test_a_shape_becomes_sizes(chosen: Plan, flags: str) -> None:
    assert flags in command(chosen=chosen)


def test_ranks_with_attention_of_their_own_are_said_in_the_file() -> None:
    """The tensor group is then a group of ranks that each keep attention whole."""
    assert settings(chosen=planned(1, data_parallel=8, expert_parallel=8))["enable_attention_dp"] is True
    assert "enable_attention_dp" not in settings(chosen=planned(8, expert_parallel=8))


def test_the_server_listens_where_it_is_probed_and_scraped() -> None:
    found, series = launched(), series_for(EngineName.TensorRTLLM, "1.2.1")
    assert "--host 0.0.0.0 --port 8000 --backend pytorch" in " ".join(found.command)
    assert [port.number for port in found.ports] == [series.port]
    assert found.startup is not None
    assert found.readiness is not None
    assert {(probe.path, probe.port) for probe in (found.startup, found.readiness)} == {("/health", series.port)}


def test_metrics_that_scaling_reads_are_switched_on() -> None:
    """Gauges of each iteration are on that page from 1.3 on."""
    older, newer = settings(), settings(chosen=planned(release=V1_3))
    assert older["return_perf_metrics"] is newer["return_perf_metrics"] is True
    assert newer["enable_iter_perf_stats"] is True
    assert "enable_iter_perf_stats" not in older


def test_memory_for_kv_is_what_is_planned_with() -> None:
    fraction = load().performance[EngineName.TensorRTLLM].memory_fraction
    assert settings()["kv_cache_config"] == {"free_gpu_memory_fraction": fraction}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (spec(kv=KVSpec(Precision.FP8)), {"free_gpu_memory_fraction": 0.9, "dtype": "fp8"}),
        (
            spec(kv=KVSpec(offload_json='{"size": "64Gi"}')),
            {"free_gpu_memory_fraction": 0.9, "host_cache_size": 16 * 1024**3},
        ),
    ],
    ids=["fp8", "offload"],
)
def test_kv_wishes_become_settings_of_each_gpu(wanted: PoolSpec, found: dict[str, Any]) -> None:
    assert settings(wanted, planned(4))["kv_cache_config"] == found


def test_long_prompts_are_cut_into_chunks() -> None:
    """Without them the server refuses a prompt that is longer than one step has tokens."""
    assert settings()["enable_chunked_prefill"] is True


@pytest.mark.parametrize(
    ("wish", "found"),
    [
        ('{"method": "MTP", "tokens": 2}', {"decoding_type": "MTP", "num_nextn_predict_layers": 2}),
        (
            '{"method": "EAGLE3", "model": "org/draft"}',
            {"decoding_type": "Eagle", "max_draft_len": 3, "speculative_model_dir": "org/draft"},
        ),
        (
            '{"method": "NGram", "tokens": 4}',
            {"decoding_type": "NGram", "max_draft_len": 4, "max_matching_ngram_size": 2},
        ),
        (
            '{"method": "DraftModel", "model": "org/small"}',
            {"decoding_type": "Draft_Target", "max_draft_len": 3, "speculative_model_dir": "org/small"},
        ),
    ],
    ids=["mtp", "eagle3", "ngram", "draft-model"],
)
def test_drafting_becomes_a_setting(wish: str, found: dict[str, Any]) -> None:
    wanted = spec(engine=EngineSpec(speculative_json=wish))
    assert settings(wanted, planned(release=V1_3))["speculative_config"] == found


def test_context_servers_overlap_no_steps_and_generation_servers_do() -> None:
    model = ModelSpec("m", max_context_tokens=16384)
    wire = {"backend": "NIXL", "max_tokens_in_buffer": 16384}
    context, generation = (settings(spec(role, model=model)) for role in (Role.Prefill, Role.Decode))
    assert context["cache_transceiver_config"] == generation["cache_transceiver_config"] == wire
    assert context["disable_overlap_scheduler"] is True
    assert "disable_overlap_scheduler" not in generation
    assert "cache_transceiver_config" not in settings()


def test_a_revision_and_a_cast_are_settings() -> None:
    source = ModelSource(SourceKind.HuggingFace, "org/m", revision="6f6073b")
    assert settings(spec(model=ModelSpec("m", source=source)))["revision"] == "6f6073b"
    assert settings(checkpoint=Precision.FP32)["dtype"] == "bfloat16"
    assert "dtype" not in settings(checkpoint=Precision.BF16)


def test_a_model_is_named_where_the_version_can_be_told() -> None:
    assert "--served_model_name" not in command()
    assert "--served_model_name chat" in command(spec(model=ModelSpec("m", ("chat",))), planned(release=V1_3))
    assert "--served_model_name m" in command(spec(model=ModelSpec("m")), planned(release=V1_3))


def test_the_grace_period_is_the_drain_limit() -> None:
    """The server waits for open requests however long they take."""
    found = launched(spec(rollout=RolloutSpec(drain_timeout_seconds=120)))
    assert found.pre_stop_seconds == 5
    assert found.grace_seconds == 5 + 120 + 5


@pytest.mark.parametrize(("drain", "serves_on"), [(120, 5 + 25), (10, 5 + 10)])
def test_a_prefill_pod_stays_for_those_who_pull_the_kv_of_its_last_prompts(drain: int, serves_on: int) -> None:
    """It has answered by then, and nothing tells that somebody is yet to come."""
    rollout = RolloutSpec(drain_timeout_seconds=drain)
    prefill, decode = (launched(spec(role, rollout=rollout)) for role in (Role.Prefill, Role.Decode))
    assert (serves_on, 5) == (prefill.pre_stop_seconds, decode.pre_stop_seconds)
    assert serves_on + drain + 5 == prefill.grace_seconds


def test_loading_large_weights_may_take_longer() -> None:
    small, large = (launched(chosen=planned(weight_bytes=size)).startup for size in (1e9, 700e9))
    assert small is not None
    assert large is not None
    assert small.failures * small.period < 620
    assert large.failures * large.period > 3000


@pytest.mark.parametrize(
    ("wanted", "chosen", "reason", "words"),
    [
        (spec(), planned(4, data_parallel=2, expert_parallel=8), Reason.ShapeInvalid, "TP 4 x DP 2"),
        (spec(), planned(8, decode_context_parallel=4), Reason.ShapeInvalid, "by Helix alone"),
        (spec(), planned(8, prefill_context_parallel=2), Reason.ShapeInvalid, "shares no prompts"),
        (
            spec(model=ModelSpec("m", adapters=(("a", "/a"),))),
            planned(),
            Reason.FeatureUnsupported,
            "knows no adapter by name",
        ),
        (spec(model=ModelSpec("m", ("chat",))), planned(), Reason.FeatureUnsupported, "1.3.0rc6 or later"),
        (spec(model=ModelSpec("m", ("a", "b"))), planned(release=V1_3), Reason.FeatureUnsupported, "name one"),
        (
            spec(model=ModelSpec("m", source=ModelSource(SourceKind.URI, "s3://bucket/m"))),
            planned(),
            Reason.FeatureUnsupported,
            "model.source.uri",
        ),
        (
            spec(router=RouterSpec(api_key_secret=("keys", "key"))),
            planned(),
            Reason.FeatureUnsupported,
            "router.apiKeySecretRef",
        ),
        (spec(), planned(release=NIM), Reason.FeatureUnsupported, "one with trtllm-serve, not a NIM, which keeps"),
        (spec(), planned(release=TRITON), Reason.FeatureUnsupported, "one with trtllm-serve, not Triton, which stays"),
        (spec(kv=KVSpec(Precision.NVFP4)), planned(), Reason.FeatureUnsupported, "use BF16 or FP8"),
        (spec(Role.Decode, kv=KVSpec(connector="Mooncake")), planned(), Reason.FeatureUnsupported, "use NIXL"),
        (
            spec(Role.Decode, kv=KVSpec(offload_json='{"size": "1Gi"}')),
            planned(),
            Reason.FeatureUnsupported,
            "Aggregated",
        ),
        (
            spec(kv=KVSpec(offload_json='{"size": "1Gi", "backend": "LMCache"}')),
            planned(),
            Reason.FeatureUnsupported,
            "use Native",
        ),
        (
            spec(engine=EngineSpec(speculative_json='{"method": "DraftModel", "model": "m"}')),
            planned(),
            Reason.FeatureUnsupported,
            "version 1.3 or later",
        ),
        (spec(engine=EngineSpec(env=(("TLLM_DISABLE_MPI", "1"),))), planned(), Reason.ArgumentConflict, "engine.env"),
        (
            spec(engine=EngineSpec(env=(("OMPI_MCA_plm_rsh_agent", "ssh"),))),
            planned(8, pipeline_parallel=2, gpus_per_pod=8),
            Reason.ArgumentConflict,
            "OMPI_MCA_plm_rsh_agent",
        ),
        (spec(engine=EngineSpec(args=("--tp_size", "4"))), planned(), Reason.ArgumentConflict, "tensorParallel"),
    ],
)
def test_what_cannot_be_launched_is_refused_with_its_reason(
    wanted: PoolSpec, chosen: Plan, reason: Reason, words: str
) -> None:
    with pytest.raises(Invalid) as refused:
        launched(wanted, chosen)
    assert refused.value.reason is reason
    assert words in refused.value.message


def test_a_checkpoint_is_loaded_as_it_is_stored() -> None:
    with pytest.raises(Invalid, match="stored as FP8") as refused:
        launched(chosen=planned(precision=Precision.FP8), checkpoint=Precision.BF16)
    assert refused.value.reason is Reason.PrecisionUnsupported


@pytest.mark.parametrize(
    "argument",
    [
        "--tp_size",
        "--tensor_parallel_size=4",
        "--tensor-parallel-size",
        "--ep_size",
        "--moe_expert_parallel_size",
        "--config",
        "--extra_llm_api_options=/x.yaml",
        "--set",
        "--kv_cache_free_gpu_memory_fraction",
        "--free_gpu_memory_fraction=0.5",
        "--max_seq_len",
        "--grpc",
        "--server_role",
        "--disagg_cluster_uri",
        "--host",
        "--backend",
    ],
)
def test_an_argument_of_ours_is_refused_however_it_is_spelled(argument: str) -> None:
    conflict = ENGINE.argument_conflict(("--max_batch_size", "8", argument, "4"), shape(8))
    assert conflict is not None
    assert conflict.reason is Reason.ArgumentConflict
    assert argument in conflict.message


@pytest.mark.parametrize(
    "argument", ["--max_batch_size", "--max_num_tokens=4096", "--tool_parser", "--reasoning_parser", "--tokenizer", "8"]
)
def test_other_arguments_are_the_users_and_come_last(argument: str) -> None:
    assert ENGINE.argument_conflict((argument,), shape(8)) is None
    assert launched(spec(engine=EngineSpec(args=(argument,)))).command[-1] == argument


def test_every_owned_option_is_one_that_a_version_has() -> None:
    known = {option.replace("_", "-") for options in OPTIONS.by_release for option in options}
    owned = [option for option in known if ENGINE.argument_conflict((option,), shape(8)) is not None]
    assert len(owned) >= 28


@pytest.mark.parametrize(
    ("argument", "version", "told"),
    [
        ("--max-batch-size=8", "1.2.1", "--max-batch-size, perhaps --max_batch_size"),
        ("--max_batch", "1.3.0rc12", "--max_batch, perhaps --max_batch_size"),
        ("--frobnicate", "1.3.0", "--frobnicate"),
        ("--tool_parser", "1.2", "--tool_parser (new in 1.3)"),
        ("--no-trust_remote_code", "1.2.1", "--no-trust_remote_code, perhaps --trust_remote_code"),
    ],
)
def test_what_the_release_does_not_know_is_told_as_click_spells_it(argument: str, version: str, told: str) -> None:
    (found,) = ENGINE.unknown_arguments(("--max_num_tokens", "-1", argument, "--log_level=info"), version)
    assert found == told


@pytest.mark.parametrize("version", ["1.2.1", "1.3.0rc6", "1.3.0", "1.4.0"])
def test_of_a_version_between_two_that_were_read_nothing_is_said_that_either_has(version: str) -> None:
    known = ("--tool_parser", "qwen3", "--no-telemetry", "--generation-config=auto", "--hf_revision", "main")
    assert ENGINE.unknown_arguments(known, version) == ()


def test_nothing_is_said_of_a_version_that_nobody_read() -> None:
    assert ENGINE.unknown_arguments(("--frobnicate",), "1.1.0") == ()


def test_a_front_of_one_pool_is_the_plain_router() -> None:
    """Its own front is for pairs only; this one asks engines for nothing but OpenAI's API and /health."""
    request = FrontRequest("team", RouterSpec(), (("pool", UID),))
    vllms = adapter_for(EngineName.VLLM).front(request)
    assert ENGINE.front(request) == vllms


def test_vllm_carries_no_files() -> None:
    assert adapter_for(EngineName.VLLM).launch(LaunchRequest(spec(), plan())).files == ()
