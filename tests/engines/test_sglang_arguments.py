"""Arguments of SGLang: what a wish becomes in which release, and what is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.render.pools import DEEPSEEK, SGLANG, plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Plan, Shape
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
from weft.engines import ContainerLaunch, EnvValue, FrontRequest, HttpProbe, LaunchRequest, adapter_for

ENGINE = adapter_for(EngineName.SGLang)


def sized(tensor: int = 1, **rest: Any) -> Shape:  # noqa: ANN401 - fields of Shape
    return shape(tensor, engine=EngineName.SGLang, **rest)


def planned(chosen: Shape | None = None, version: str = "0.5.23") -> Plan:
    return plan(chosen or sized(), replace(SGLANG, version=version))


def launched(wanted: PoolSpec | None = None, chosen: Plan | None = None, **request: object) -> ContainerLaunch:
    return ENGINE.launch(LaunchRequest(wanted or spec(), chosen or planned(), **request))  # type: ignore[arg-type]


def command(wanted: PoolSpec | None = None, chosen: Plan | None = None, **request: object) -> str:
    return " ".join(launched(wanted, chosen, **request).command)


@pytest.mark.parametrize(
    ("chosen", "version", "flags"),
    [
        (sized(8), "0.5.23", "--tp-size 8 --enable-metrics"),
        (sized(4, pipeline_parallel=2), "0.5.23", "--tp-size 4 --pp-size 2"),
        (sized(8, expert_parallel=8), "0.5.23", "--tp-size 8 --ep-size 8 --enable-metrics"),
        (sized(2, data_parallel=4, expert_parallel=8), "0.5.22", "--tp-size 8 --ep-size 8 --attn-dp-size 4"),
        (sized(2, data_parallel=4), "0.5.21", "--tp-size 8 --dp-size 4 --enable-dp-attention"),
    ],
)
def test_a_shape_becomes_what_the_release_calls_it(chosen: Shape, version: str, flags: str) -> None:
    """Attention-DP ranks are part of SGLang's tensor group, which Weft counts apart."""
    assert flags in command(chosen=planned(chosen, version))


def test_pods_of_one_replica_differ_in_their_rank_and_the_leader_names_its_own_address() -> None:
    chosen = planned(sized(16, gpus_per_pod=8))
    leader, worker = (command(chosen=chosen, rank=rank, leader_host="zero") for rank in (0, 1))
    assert "--nnodes 2 --node-rank 0 --dist-init-addr $(SGLANG_HOST_IP):20000" in leader
    assert "--nnodes 2 --node-rank 1 --dist-init-addr zero:20000" in worker
    assert EnvValue("SGLANG_HOST_IP", field="status.podIP") in launched(chosen=chosen).env


@pytest.mark.parametrize(
    ("wanted", "flags"),
    [
        (spec(), "--served-model-name meta-llama/Llama-3.1-8B-Instruct"),
        (spec(model=ModelSpec("m", ("chat",), max_context_tokens=9000)), "--served-model-name chat --context-length"),
        (spec(model=ModelSpec("m", adapters=(("a", "x/a"), ("b", "/b")))), "--enable-lora --lora-paths a=x/a b=/b"),
        (spec(kv=KVSpec(Precision.FP8)), "--kv-cache-dtype fp8_e4m3"),
        (spec(kv=KVSpec(offload_json='{"size": "64Gi"}')), "--enable-hierarchical-cache --hicache-size 68"),
        (
            spec(Role.Prefill, kv=KVSpec(offload_json='{"size": "64Gi"}')),
            "--hicache-size 68 --disaggregation-mode prefill",
        ),
        (
            spec(engine=EngineSpec(speculative_json='{"method": "MTP", "tokens": 2}')),
            "EAGLE --speculative-num-steps 2 --speculative-eagle-topk 1 --speculative-num-draft-tokens 3",
        ),
        (
            spec(engine=EngineSpec(speculative_json='{"method": "DraftModel", "model": "small", "tokens": 3}')),
            "--speculative-algorithm STANDALONE --speculative-draft-model-path small --speculative-num-steps 3",
        ),
        (
            spec(engine=EngineSpec(speculative_json='{"method": "NGram", "tokens": 4}')),
            "--speculative-algorithm NGRAM --speculative-num-draft-tokens 5",
        ),
        (
            spec(model=ModelSpec("m", source=ModelSource(SourceKind.URI, "s3://bucket/m"))),
            "--model-path s3://bucket/m --served-model-name m --load-format runai_streamer",
        ),
        (spec(engine=EngineSpec(args=("--page-size", "64"))), "--host 0.0.0.0 --port 30000 --page-size 64"),
    ],
    ids=["name", "context", "adapters", "kv", "offload", "prefill", "mtp", "draft", "ngram", "uri", "users"],
)
def test_a_wish_becomes_flags(wanted: PoolSpec, flags: str) -> None:
    assert flags in command(wanted)


@pytest.mark.parametrize(("version", "named"), [("0.5.19", True), ("0.5.20", False)])
def test_lengths_are_counted_in_every_release(version: str, named: bool) -> None:  # noqa: FBT001 - a column
    assert ("--collect-tokens-histogram" in command(chosen=planned(version=version))) is named


def test_contexts_are_shared_by_the_backend_that_can_unless_the_user_names_one() -> None:
    said = command(chosen=planned(sized(8, accelerator="B200", decode_context_parallel=4)))
    assert "--tp-size 8 --dcp-size 4 --attention-backend trtllm_mla" in said
    assert "--dcp-size" not in command(chosen=planned(sized(8, accelerator="B200")))
    users = spec(engine=EngineSpec(args=("--attention-backend", "flashinfer")))
    own = command(users, planned(sized(8, accelerator="B200", decode_context_parallel=4)))
    assert said_last(own, "--attention-backend") == "flashinfer"


def said_last(words: str, option: str) -> str:
    """The value of an option as argparse takes it."""
    return words.rpartition(f"{option} ")[2].split()[0]


def test_a_prefill_listens_for_its_partners_and_says_where() -> None:
    prefill, decode = (launched(spec(role)) for role in (Role.Prefill, Role.Decode))
    said = " ".join(prefill.command)
    assert "--disaggregation-mode prefill --disaggregation-transfer-backend nixl" in said
    assert "--disaggregation-bootstrap-port 8998" in said
    assert prefill.annotations == (("sglang.ai/bootstrap-port", "8998"),)
    assert ("bootstrap", 8998) in [(port.name, port.number) for port in prefill.ports]
    assert "--disaggregation-mode decode" in " ".join(decode.command)
    assert (decode.annotations, [port.name for port in decode.ports]) == ((), ["http"])


@pytest.mark.parametrize(
    ("connector", "transport", "variable"),
    [
        ("NIXL", "TCP", EnvValue("UCX_TLS", "tcp,cuda_copy,cuda_ipc,sm,self")),
        ("NIXL", "RDMA", EnvValue("UCX_TLS", "^tcp")),
        ("Mooncake", "TCP", EnvValue("MC_FORCE_TCP", "1")),
    ],
)
def test_the_wire_is_chosen_as_the_connector_wants_it(connector: str, transport: str, variable: EnvValue) -> None:
    wanted = spec(Role.Decode, kv=KVSpec(connector=connector, transport=transport))
    assert variable in launched(wanted).env
    assert f"--disaggregation-transfer-backend {connector.lower()}" in command(wanted)


@pytest.mark.parametrize(("version", "promised"), [("0.5.6", True), ("0.5.8", False)])
def test_old_decode_ranks_promise_how_prefill_balances(version: str, promised: bool) -> None:  # noqa: FBT001 - a column
    """Without it releases before 0.5.8 refuse to start."""
    said = command(spec(Role.Decode), planned(sized(1, data_parallel=8, expert_parallel=8), version))
    assert ("--prefill-round-robin-balance" in said) is promised


def test_the_key_comes_out_of_a_variable() -> None:
    made = launched(spec(router=RouterSpec(api_key_secret=("keys", "api"))))
    assert "--api-key $(WEFT_API_KEY)" in " ".join(made.command)
    assert EnvValue("WEFT_API_KEY", secret=("keys", "api")) in made.env


@pytest.mark.parametrize(
    ("wanted", "chosen", "reason", "named"),
    [
        (spec(model=ModelSpec("m", ("a", "b"))), planned(), Reason.FeatureUnsupported, "servedNames with 2 names"),
        (spec(model=ModelSpec("m", ("a:b",))), planned(), Reason.FeatureUnsupported, "servedNames a:b"),
        (spec(kv=KVSpec(Precision.NVFP4)), planned(), Reason.FeatureUnsupported, "spec.kvCache.precision NVFP4"),
        (
            spec(Role.Prefill, kv=KVSpec(connector="LMCache")),
            planned(),
            Reason.FeatureUnsupported,
            "connector LMCache is not supported on SGLang: use NIXL or Mooncake",
        ),
        (
            spec(Role.Decode, kv=KVSpec(offload_json='{"size": "64Gi"}')),
            planned(),
            Reason.FeatureUnsupported,
            "offload in a decode half",
        ),
        (
            spec(kv=KVSpec(offload_json='{"size": "64Gi", "backend": "LMCache"}')),
            planned(),
            Reason.FeatureUnsupported,
            "backend LMCache",
        ),
        (spec(kv=KVSpec(offload_json='{"size": "4Gi"}')), planned(sized(8)), Reason.FeatureUnsupported, "8 GPUs"),
        (
            spec(model=ModelSpec("m", source=ModelSource(SourceKind.URI, "s3://bucket/m"))),
            planned(version="0.5.9"),
            Reason.FeatureUnsupported,
            "SGLang 0.5.9 streams no weights from s3://: use 0.5.10 or later",
        ),
        (
            spec(model=ModelSpec("m", source=ModelSource(SourceKind.URI, "oss://bucket/m"))),
            planned(),
            Reason.FeatureUnsupported,
            "no weights from oss://bucket/m: use s3://, gs://, az://",
        ),
        (
            spec(engine=EngineSpec(speculative_json='{"method": "NGram"}')),
            planned(sized(1, data_parallel=8)),
            Reason.FeatureUnsupported,
            "NGram with attention-DP ranks",
        ),
        (
            spec(engine=EngineSpec(speculative_json='{"method": "MTP"}')),
            planned(sized(8, pipeline_parallel=2)),
            Reason.FeatureUnsupported,
            "pipeline stages",
        ),
        (spec(), planned(sized(8, prefill_context_parallel=2)), Reason.FeatureUnsupported, "--enable-prefill-cp"),
        (spec(), planned(sized(8, pipeline_parallel=3, gpus_per_pod=12)), Reason.ShapeInvalid, "3 stages"),
        (spec(engine=EngineSpec(env=(("SGLANG_HOST_IP", "1"),))), planned(), Reason.ArgumentConflict, "SGLANG_HOST_IP"),
        (spec(engine=EngineSpec(args=("--tp", "4"))), planned(), Reason.ArgumentConflict, "--tp"),
    ],
)
def test_what_sglang_cannot_do_is_refused_by_name(wanted: PoolSpec, chosen: Plan, reason: Reason, named: str) -> None:
    with pytest.raises(Invalid) as refused:
        command(wanted, chosen)
    assert refused.value.reason is reason
    assert named in refused.value.message


@pytest.mark.parametrize(
    ("version", "startup", "readiness"),
    [("0.5.19", "/health", HttpProbe("/health", 30000, timeout=20)), ("0.5.20", "/ready", HttpProbe("/ready", 30000))],
)
def test_probes_ask_what_answers_at_once_where_there_is_such_a_thing(
    version: str, startup: str, readiness: HttpProbe
) -> None:
    """`/health` generates a token first, which takes a second at least."""
    made = launched(chosen=planned(version=version))
    assert made.startup is not None
    assert (made.startup.path, made.startup.timeout) == (startup, 5)
    assert made.readiness == readiness
    assert launched(chosen=planned(sized(16, gpus_per_pod=8)), rank=1).readiness is None


def test_loading_large_weights_may_take_longer() -> None:
    small, large = (launched(chosen=plan(sized(), weight_bytes=size)).startup for size in (1e9, 700e9))
    assert small is not None
    assert large is not None
    assert small.failures * small.period < 620
    assert large.failures * large.period > 3000


def test_the_grace_period_is_the_limit_of_a_drain_that_has_none_of_its_own() -> None:
    made = launched(spec(rollout=RolloutSpec(drain_timeout_seconds=120)))
    assert (made.pre_stop_seconds, made.grace_seconds) == (5, 5 + 120 + 5)
    assert not [argument for argument in made.command if "timeout" in argument]


def test_a_pod_that_helps_the_first_one_stays_for_the_whole_drain() -> None:
    """It has no requests of its own to wait for, and ends at SIGTERM, in the middle of those of the first pod."""
    two = planned(shape(8, engine=EngineName.SGLang, pipeline_parallel=2, gpus_per_pod=8))
    request = LaunchRequest(spec(rollout=RolloutSpec(drain_timeout_seconds=120)), two, 1, "leader")
    helps = ENGINE.launch(request)
    assert (helps.pre_stop_seconds, helps.grace_seconds) == (5 + 120, 5 + 120 + 5)


@pytest.mark.parametrize(
    "argument",
    [
        *("--tp-size", "--tp-size=4", "--tp", "--tensor-parallel-size", "--tensor-par", "--pp", "--ep", "--dp=2"),
        *(
            "--enable-dp-attention",
            "--attn-dp-size",
            "--nnodes",
            "--dist-init-addr",
            "--host=::1",
            "--host",
            "--port",
            "--config",
        ),
        *("--model", "--model-path", "--served-model-name", "--enable-metrics", "--kv-cache-dtype", "--quantization"),
        *("--disaggregation-mode", "--speculative-algorithm", "--speculative-algo", "--api-key", "--hicache-size"),
        *("--enable-hicache", "--enable-flexkv", "--flexkv-config-file", "--enable-flex"),
        *("--enable-prefill-context-parallel", "--enable-nsa-prefill-context-parallel", "--enable-ep-moe"),
        *("--enable-dsa-prefill-context-parallel", "--disaggregation-prefill-pp"),
    ],
)
def test_an_argument_of_ours_is_refused_however_it_is_spelled(argument: str) -> None:
    conflict = ENGINE.argument_conflict(("--max-running-requests", "8", argument, "4"), sized(8))
    assert conflict is not None
    assert conflict.reason is Reason.ArgumentConflict
    assert argument in conflict.message


@pytest.mark.parametrize("option", ["--radix-cache-backend", "--radix_cache_backend", "--radix-cache"])
@pytest.mark.parametrize(("backend", "refused"), [("flexkv", True), ("mine", False)])
def test_a_tier_that_nobody_counts_is_not_chosen_by_its_name_either(
    option: str,
    backend: str,
    refused: bool,  # noqa: FBT001 - a case
) -> None:
    for args in ((option, backend), (f"{option}={backend}",)):
        assert (ENGINE.argument_conflict(args, sized(8)) is not None) is refused


@pytest.mark.parametrize("said", [("--host", "::"), ("--host=::",)], ids=["two", "one"])
def test_it_may_be_told_to_listen_over_ipv6(said: tuple[str, ...]) -> None:
    """By itself it listens on IPv4 alone, and pods may have no such address. The last `--host` counts."""
    assert ENGINE.argument_conflict(("--page-size", "8", *said), sized(8)) is None
    assert command(spec(engine=EngineSpec(args=said))).endswith(" ".join(("--host 0.0.0.0 --port 30000", *said)))
    conflict = ENGINE.argument_conflict((*said, "--port", "1"), sized(8))
    assert conflict is not None
    assert "--port" in conflict.message


def test_a_refusal_names_the_field_and_the_shape() -> None:
    conflict = ENGINE.argument_conflict(("--dp-size", "4"), sized(8))
    assert conflict is not None
    assert conflict.message == (
        "spec.engine.args may not contain --dp-size: use spec.shape.dataParallel; this replica is H200 BF16 TP8"
    )


@pytest.mark.parametrize(
    "argument",
    [
        *("--mem-fraction-static", "--max-running-requests=8", "--enable-metrics-for-all-schedulers", "--page-size"),
        *("--moe-a2a-backend", "--load-balance-method", "--enable-lora-overlap-loading", "--trust-remote-code", "8"),
        *("--speculative-attention-mode", "--disaggregation-ib-device", "--no-such-flag"),
    ],
)
def test_other_arguments_are_the_users(argument: str) -> None:
    assert ENGINE.argument_conflict((argument,), sized(8)) is None


def test_a_front_of_one_pool_selects_its_pods() -> None:
    said = " ".join(ENGINE.front(FrontRequest("team", RouterSpec(), (("a", "1"), ("b", "2")))).command)
    assert said.startswith("python3 -m sglang_router.launch_router --host 0.0.0.0 --port 30000")
    assert "--service-discovery-port 30000 --service-discovery-namespace team --selector a=1 b=2" in said
    assert "--pd-disaggregation" not in said


def test_a_front_of_a_pair_selects_both_sides() -> None:
    made = ENGINE.front(FrontRequest("team", RouterSpec(), (("a", "1"),), (("b", "2"),)))
    assert "--pd-disaggregation --prefill-selector a=1 --decode-selector b=2" in " ".join(made.command)
    assert made.readiness == HttpProbe("/readiness", 30000, 5)
    assert [(port.name, port.number) for port in made.ports] == [("http", 30000), ("metrics", 29000)]


@pytest.mark.parametrize("drain", [60, 300, 3600])
def test_a_front_that_goes_lets_streams_run_for_as_long_as_a_replica_does(drain: int) -> None:
    """By itself it ends them after three minutes."""
    made = ENGINE.front(FrontRequest("team", RouterSpec(), (("a", "1"),), drain_seconds=drain))
    assert f"--shutdown-grace-period-secs {drain}" in " ".join(made.command)
    assert (made.pre_stop_seconds, made.grace_seconds) == (5, 5 + drain + 5)


def test_a_checkpoint_in_another_precision_is_quantised_while_loading_or_refused() -> None:
    to_fp8 = planned(shape(engine=EngineName.SGLang, precision=Precision.FP8))
    assert "--quantization fp8" in command(chosen=to_fp8, checkpoint=Precision.BF16)
    assert "--quantization" not in command(spec(model=ModelSpec(DEEPSEEK)), to_fp8, checkpoint=Precision.FP8)
    with pytest.raises(Invalid, match="stored as NVFP4"):
        command(chosen=planned(shape(engine=EngineName.SGLang, precision=Precision.NVFP4)), checkpoint=Precision.BF16)
