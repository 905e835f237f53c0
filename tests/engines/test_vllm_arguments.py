"""Arguments of vLLM: what a wish becomes, and what is refused by name."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.render.pools import RELEASE, plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Plan
from weft.domain.spec import EngineSpec, KVSpec, ModelSource, ModelSpec, PoolSpec, RolloutSpec, RouterSpec, SourceKind
from weft.domain.workload import Role, Workload
from weft.engines import FrontRequest, LaunchRequest, adapter_for

VLLM = adapter_for(EngineName.VLLM)


def command(wanted: PoolSpec | None = None, chosen: Plan | None = None, **request: object) -> str:
    launch = LaunchRequest(wanted or spec(), chosen or plan(), **request)  # type: ignore[arg-type]
    return " ".join(VLLM.launch(launch).command)


@pytest.mark.parametrize(
    ("checkpoint", "wanted", "flags"),
    [
        (Precision.BF16, Precision.BF16, ""),
        (Precision.FP8, Precision.FP8, ""),
        (Precision.BF16, Precision.FP8, "--quantization fp8"),
        (Precision.FP32, Precision.BF16, "--dtype bfloat16"),
        (Precision.FP32, Precision.FP32, "--dtype float32"),
        (None, Precision.FP8, ""),
    ],
)
def test_precision_is_named_only_where_it_differs_from_the_checkpoint(
    checkpoint: Precision | None, wanted: Precision, flags: str
) -> None:
    said = command(chosen=plan(shape(precision=wanted)), checkpoint=checkpoint)
    assert ("--quantization" in said or "--dtype" in said) is bool(flags)
    assert flags in said


def test_a_precision_that_needs_another_checkpoint_is_refused() -> None:
    with pytest.raises(Invalid, match="stored as NVFP4") as refused:
        command(chosen=plan(shape(precision=Precision.NVFP4)), checkpoint=Precision.BF16)
    assert refused.value.reason is Reason.PrecisionUnsupported


@pytest.mark.parametrize(
    ("wanted", "flags"),
    [
        (spec(model=ModelSpec("m", adapters=(("a", "x/a"), ("b", "/b")))), "--max-loras 2 --lora-modules a=x/a b=/b"),
        (spec(kv=KVSpec(Precision.FP8)), "--kv-cache-dtype fp8"),
        (spec(kv=KVSpec(offload_json='{"size": "64Gi"}')), "--kv-offloading-size 64 --kv-offloading-backend native"),
        (
            spec(engine=EngineSpec(speculative_json='{"method": "MTP", "tokens": 2}')),
            '--speculative-config {"method":"mtp","num_speculative_tokens":2}',
        ),
        (
            spec(Role.Prefill),
            '{"kv_connector":"NixlConnector","kv_load_failure_policy":"recompute","kv_role":"kv_both"}',
        ),
    ],
    ids=["adapters", "kv-precision", "offload", "speculative", "transfer"],
)
def test_each_wish_becomes_flags(wanted: PoolSpec, flags: str) -> None:
    assert flags in command(wanted)


def test_a_shared_context_and_shared_prompts_become_flags_and_others_none() -> None:
    shared = command(chosen=plan(shape(8, decode_context_parallel=4)))
    assert "--tensor-parallel-size 8 --decode-context-parallel-size 4" in shared
    assert "--prefill-context" not in shared
    prompts = command(spec(Role.Prefill), plan(shape(2, prefill_context_parallel=4)))
    assert "--tensor-parallel-size 2 --prefill-context-parallel-size 4" in prompts
    assert "context-parallel" not in command(chosen=plan(shape(8)))


@pytest.mark.parametrize(("role", "kv_role"), [(Role.Prefill, "kv_producer"), (Role.Decode, "kv_consumer")])
def test_a_half_keeps_kv_in_host_memory_beside_mooncake(role: Role, kv_role: str) -> None:
    """Mooncake comes first, as what decode fetches is all of a prompt; the pair has its role, as its page says."""
    wanted = spec(role, kv=KVSpec(connector="Mooncake", offload_json='{"size": "4Gi"}'))
    words = VLLM.launch(LaunchRequest(wanted, plan(release=replace(RELEASE, version="0.33.0")))).command
    said = json.loads(words[words.index("--kv-transfer-config") + 1])
    mooncake, memory = said["kv_connector_extra_config"]["connectors"]
    assert (said["kv_connector"], said["kv_role"]) == ("MultiConnector", kv_role)
    assert (mooncake["kv_connector"], mooncake["kv_role"]) == ("MooncakeConnector", kv_role)
    assert memory["kv_connector_extra_config"] == {"cpu_bytes_to_use": 4 * 1024**3}
    assert memory["kv_role"] == "kv_both"


def test_groups_that_share_prompts_only_give_kv_away() -> None:
    """NIXL lets them take none; a decode half beside them may stay what it is."""
    prompts = command(spec(Role.Prefill), plan(shape(2, prefill_context_parallel=2)))
    assert '"kv_role":"kv_producer"' in prompts
    assert '"kv_role":"kv_both"' in command(spec(Role.Decode), plan(shape(2)))


def test_a_half_keeps_kv_in_host_memory_beside_nixl() -> None:
    """VLLM's own tests join these two; each data-parallel rank has its part of the memory."""
    ranks = shape(1, data_parallel=2)
    launch = LaunchRequest(spec(Role.Decode, kv=KVSpec(offload_json='{"size": "4Gi"}')), plan(ranks))
    words = VLLM.launch(launch).command
    assert "--kv-offloading-size" not in words
    said = json.loads(words[words.index("--kv-transfer-config") + 1])
    assert said == {
        "kv_connector": "MultiConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": "recompute",
        "kv_connector_extra_config": {
            "connectors": [
                {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
                {
                    "kv_connector": "OffloadingConnector",
                    "kv_role": "kv_both",
                    "kv_connector_extra_config": {"cpu_bytes_to_use": 2 * 1024**3},
                },
            ]
        },
    }


RDMA = EngineSpec(resources=(("rdma/hca", "1"), ("memory", "64Gi")))
NO_DEVICE = EngineSpec(resources=(("memory", "64Gi"),))


@pytest.mark.parametrize(
    ("engine", "transport", "over_tcp"),
    [(NO_DEVICE, "Auto", True), (RDMA, "Auto", False), (RDMA, "TCP", True), (RDMA, "RDMA", False)],
)
def test_mooncake_is_told_of_tcp_where_it_would_take_rdma_for_granted(
    engine: EngineSpec,
    transport: str,
    over_tcp: bool,  # noqa: FBT001 - a column of the table
) -> None:
    said = command(spec(Role.Prefill, engine=engine, kv=KVSpec(connector="Mooncake", transport=transport)))
    assert ('"mooncake_protocol":"tcp"' in said) is over_tcp
    assert '"kv_connector":"MooncakeConnector"' in said


def test_over_mooncake_one_side_gives_and_listens_and_the_other_takes() -> None:
    wish = KVSpec(connector="Mooncake")
    gives, takes = (VLLM.launch(LaunchRequest(spec(role, kv=wish), plan())) for role in (Role.Prefill, Role.Decode))
    assert '"kv_role":"kv_producer"' in " ".join(gives.command)
    assert '"kv_role":"kv_consumer"' in " ".join(takes.command)
    assert [("http", 8000), ("mooncake", 8998)] == [(port.name, port.number) for port in gives.ports]
    assert [("http", 8000)] == [(port.name, port.number) for port in takes.ports]
    for launch in (gives, takes):
        names = {each.name: each.value for each in launch.env}
        assert names["VLLM_MOONCAKE_BOOTSTRAP_PORT"] == "8998"
        assert not any(name.startswith(("VLLM_NIXL", "UCX")) for name in names)


@pytest.mark.parametrize(
    ("method", "too_early", "since"),
    [("MTP", "0.10.2", "0.11.0"), ("DraftModel", "0.14.1", "0.15.0"), ("NGram", "0.9.0", "0.10.0")],
)
def test_tokens_are_drafted_by_what_the_release_has(method: str, too_early: str, since: str) -> None:
    """Before 0.11 each model had a method of its own for its heads, and up to 0.14 none had a draft model."""
    model = ', "model": "acme/small"' if method == "DraftModel" else ""
    wish = spec(engine=EngineSpec(speculative_json=f'{{"method": "{method}"{model}}}'))
    assert "--speculative-config" in command(wish, plan(release=replace(RELEASE, version=since)))
    if method != "NGram":
        with pytest.raises(Invalid, match=f"{method} is not supported on VLLM {too_early}: use version 0") as refused:
            command(wish, plan(release=replace(RELEASE, version=too_early)))
        assert refused.value.reason is Reason.FeatureUnsupported


def test_both_sides_of_a_split_are_launched_alike() -> None:
    """The handshake compares configurations, and either side may be asked to pull."""
    assert command(spec(Role.Prefill)) == command(spec(Role.Decode))


@pytest.mark.parametrize(
    ("wanted", "chosen", "reason"),
    [
        (
            spec(Role.Prefill, kv=KVSpec(connector="Mooncake")),
            plan(release=replace(RELEASE, version="0.16.0")),
            Reason.EngineUnsupported,
        ),
        (
            spec(Role.Decode, kv=KVSpec(connector="Mooncake")),
            plan(shape(accelerator="cpu")),
            Reason.FeatureUnsupported,
        ),
        (
            spec(Role.Decode, kv=KVSpec(connector="Mooncake", offload_json='{"size": "1Gi"}')),
            plan(release=replace(RELEASE, version="0.32.0")),
            Reason.EngineUnsupported,
        ),
        (spec(Role.Prefill, kv=KVSpec(connector="LMCache")), plan(), Reason.FeatureUnsupported),
        (
            spec(Role.Decode, kv=KVSpec(offload_json='{"size": "1Gi", "backend": "LMCache"}')),
            plan(),
            Reason.FeatureUnsupported,
        ),
        (
            spec(Role.Decode, kv=KVSpec(offload_json='{"size": "1Gi"}')),
            plan(release=replace(RELEASE, version="0.21.0")),
            Reason.EngineUnsupported,
        ),
        (spec(kv=KVSpec(Precision.NVFP4)), plan(), Reason.FeatureUnsupported),
        (spec(engine=EngineSpec(env=(("VLLM_HOST_IP", "1"),))), plan(), Reason.ArgumentConflict),
        (spec(engine=EngineSpec(args=("-tp", "4"))), plan(), Reason.ArgumentConflict),
        (
            spec(model=ModelSpec("m", source=ModelSource(SourceKind.URI, "oss://bucket/m"))),
            plan(),
            Reason.FeatureUnsupported,
        ),
        (spec(), plan(shape(8, data_parallel=2, gpus_per_pod=4)), Reason.ShapeInvalid),
    ],
    ids=[
        "early-mooncake",
        "cpu-mooncake",
        "mooncake-offload",
        "lmcache",
        "offload-lmcache",
        "offload-early",
        "kv-nvfp4",
        "env",
        "args",
        "uri",
        "wide-dp-rank",
    ],
)
def test_what_cannot_be_launched_is_refused_with_its_reason(wanted: PoolSpec, chosen: Plan, reason: Reason) -> None:
    with pytest.raises(Invalid) as refused:
        command(wanted, chosen)
    assert refused.value.reason is reason


@pytest.mark.parametrize(
    "argument",
    [
        "--tensor-parallel-size",
        "--tensor-parallel-size=4",
        "--tensor_parallel_size=4",
        "--tensor-par",
        "-tp",
        "-tp=4",
        "-n",
        "--port",
        "--host",
        "--host=127.0.0.1",
        "--no-enable-expert-parallel",
        "--kv-transfer-config.kv_role",
        "--shutdown-timeout",
        "--config",
        "--served-model-name",
        "-q",
        "-qfp8",
        "-n2",
        "-r1",
        "-sc.method=ngram",
        "--spec-method",
        "--spec-tokens=4",
        "-dcp",
        "--decode-context-parallel-size=8",
        "-pcp=2",
        "--prefill-context",
    ],
)
def test_an_argument_of_ours_is_refused_however_it_is_spelled(argument: str) -> None:
    conflict = VLLM.argument_conflict(("--max-num-seqs", "8", argument, "4"), shape(8))
    assert conflict is not None
    assert argument in conflict.message


def test_a_refusal_names_the_field_and_the_shape() -> None:
    conflict = VLLM.argument_conflict(("-tp", "4"), shape(8))
    assert conflict is not None
    assert conflict.message == (
        "spec.engine.args may not contain -tp: use spec.shape.tensorParallel; this replica is H200 BF16 TP8"
    )


@pytest.mark.parametrize(
    "argument", ["--max-num-seqs", "--gpu-memory-utilization=0.8", "-O3", "--model-impl", "8", "-1", "-", "--hf-token"]
)
def test_other_arguments_are_the_users(argument: str) -> None:
    assert VLLM.argument_conflict((argument,), shape(8)) is None


@pytest.mark.parametrize("said", [("--host", "::"), ("--host=::",)], ids=["two", "one"])
def test_it_may_be_told_to_listen_over_ipv6_too(said: tuple[str, ...]) -> None:
    """By itself it listens on IPv4 alone, and pods may have no such address."""
    assert VLLM.argument_conflict(("--max-num-seqs", "8", *said), shape(8)) is None
    assert command(spec(engine=EngineSpec(args=said))).endswith(" ".join(said))
    conflict = VLLM.argument_conflict((*said, "--port", "1"), shape(8))
    assert conflict is not None
    assert "--port" in conflict.message


@pytest.mark.parametrize(("version", "first"), [("0.32.0", 5), ("0.18.0", 125)], ids=["drains itself", "does not"])
def test_a_pod_that_helps_the_first_one_stays_for_the_whole_drain(version: str, first: int) -> None:
    """At SIGTERM its rank ends at once, and with it all that the first pod answers, whose pod is not deleted yet."""
    two = plan(shape(8, pipeline_parallel=2, gpus_per_pod=8), replace(RELEASE, version=version))
    wanted = spec(rollout=RolloutSpec(drain_timeout_seconds=120))
    leads, helps = (VLLM.launch(LaunchRequest(wanted, two, rank, "leader")) for rank in range(2))
    assert (leads.pre_stop_seconds, helps.pre_stop_seconds) == (first, 125)
    assert leads.grace_seconds == helps.grace_seconds == 130


CACHED = Workload(1, 1000, 200, 3000, 600, prefix_hit=0.4)
NO_PREFIXES = EngineSpec(args=("--enable-prefix-caching", "--no-enable-prefix-caching"))


@pytest.mark.parametrize("role", [Role.Aggregated, Role.Prefill])
def test_the_prefix_cache_may_not_be_off_where_the_plan_counts_on_it(role: Role) -> None:
    with pytest.raises(
        Invalid, match=r"--no-enable-prefix-caching while spec\.workload\.prefixHitPercent is 40"
    ) as refused:
        command(spec(role, workload=CACHED, engine=NO_PREFIXES))
    assert refused.value.reason is Reason.ArgumentConflict


@pytest.mark.parametrize(
    "wanted",
    [
        spec(engine=NO_PREFIXES),
        spec(Role.Decode, workload=CACHED, engine=NO_PREFIXES),
        spec(workload=CACHED, engine=EngineSpec(args=tuple(reversed(NO_PREFIXES.args)))),
        spec(workload=CACHED),
    ],
    ids=["no-hits", "decode", "on-in-the-end", "unset"],
)
def test_elsewhere_the_prefix_cache_is_the_users(wanted: PoolSpec) -> None:
    assert command(wanted).endswith(" ".join(wanted.engine.args))


def test_users_arguments_come_last() -> None:
    assert command(spec(engine=EngineSpec(args=("--enforce-eager",)))).endswith("--port 8000 --enforce-eager")


def test_a_front_of_one_pool_selects_its_pods() -> None:
    said = " ".join(VLLM.front(FrontRequest("team", RouterSpec(), (("a", "1"), ("b", "2")))).command)
    assert "--service-discovery-namespace team --selector a=1 b=2" in said
    assert "--vllm-pd-disaggregation" not in said


def test_a_front_of_one_pool_leaves_a_dead_engine_alone_within_the_tries_of_one_request() -> None:
    """They last longer than that does, too, so that a request outlives a moment in which all engines are left alone.

    Pauses are those of vllm-router: 50 ms, and half as long again each time, give or take a fifth.
    """
    given = dict(pairwise(VLLM.front(FrontRequest("team", RouterSpec(), (("a", "1"),))).command))
    tries, failures = int(given["--retry-max-retries"]), int(given["--cb-failure-threshold"])
    alone_seconds = int(given["--cb-timeout-duration-secs"])
    pauses = [0.05 * 1.5**each for each in range(tries - 1)]
    assert alone_seconds < 0.8 * sum(pauses)
    assert tries > failures + math.ceil(1.2 * sum(pauses) / alone_seconds)  # it is found dead again after each time


def test_a_front_of_a_pair_selects_both_sides() -> None:
    said = " ".join(VLLM.front(FrontRequest("team", RouterSpec(), (("a", "1"),), (("b", "2"),))).command)
    assert "--vllm-pd-disaggregation --kv-connector nixl --prefill-selector a=1 --decode-selector b=2" in said
    assert "--retry" not in said  # which it would not heed


def test_loading_large_weights_may_take_longer() -> None:
    small, large = (VLLM.launch(LaunchRequest(spec(), plan(weight_bytes=size))).startup for size in (1e9, 700e9))
    assert small is not None
    assert large is not None
    assert small.failures * small.period < 620
    assert large.failures * large.period > 3000


@pytest.mark.parametrize("role", [Role.Prefill, Role.Decode])
def test_lmcache_is_refused_with_what_pairs_halves_instead(role: Role) -> None:
    with pytest.raises(Invalid, match="needs a proxy of its own, which vllm-router") as refused:
        command(spec(role, kv=KVSpec(connector="LMCache")))
    assert refused.value.reason is Reason.FeatureUnsupported
    assert "use NIXL, and spec.kvCache.offload beside it" in refused.value.message
