"""When one engine can hand its KV cache to another: what both sides must agree on, and which sizes are joined."""

from __future__ import annotations

import pytest

from tests.render.pools import spec
from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, KVSpec, PoolSpec
from weft.domain.workload import Role
from weft.engines.kv.handover import settings_conflict
from weft.engines.sglang.handover import sglang_tensor_conflict


def prefill(args: tuple[str, ...] = (), env: tuple[tuple[str, str], ...] = (), **engine: str) -> PoolSpec:
    return spec(Role.Prefill, engine=EngineSpec(args=args, env=env, **engine))  # type: ignore[arg-type]


DECODE = spec(Role.Decode)


@pytest.mark.parametrize(
    ("ours", "field"),
    [
        (spec(Role.Prefill, kv=KVSpec(Precision.FP8)), "spec.kvCache.precision is FP8 in prefill and BF16 in decode"),
        (prefill(speculative_json='{"method":"MTP","tokens":1}'), "engine.speculative"),
        (prefill(("--attention-backend", "FLASHINFER")), "spec.engine.args --attention-backend is FLASHINFER in"),
        (prefill(("--attention_backend=FLASHINFER",)), "spec.engine.args --attention-backend"),
        (prefill(("--disable-hybrid-kv-cache-manager",)), "--disable-hybrid-kv-cache-manager is true in prefill"),
        (prefill(("--no-disable-hybrid-kv-cache-manager",)), "--disable-hybrid-kv-cache-manager is false in prefill"),
        (prefill(env=(("VLLM_ATTENTION_BACKEND", "FLASHINFER"),)), "spec.engine.env VLLM_ATTENTION_BACKEND"),
        (prefill(env=(("UCX_TCP_TX_SEG_SIZE", "512k"),)), "spec.engine.env UCX_TCP_TX_SEG_SIZE is 512k in prefill"),
        (prefill(env=(("UCX_TCP_RX_SEG_SIZE", "512k"),)), "spec.engine.env UCX_TCP_RX_SEG_SIZE is 512k in prefill"),
    ],
    ids=["kv-precision", "speculative", "backend", "backend-joined", "switch", "switch-off", "variable", "tx", "rx"],
)
def test_what_the_handshake_compares_must_be_the_same_on_both_sides(ours: PoolSpec, field: str) -> None:
    conflict = settings_conflict(ours, DECODE)
    assert conflict is not None
    assert conflict.reason is Reason.PairIncompatible
    assert field in conflict.message
    assert "decode" in conflict.message


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--attention-config.backend", "FLASHINFER"), "--attention-backend is FLASHINFER in prefill"),
        (('--attention-config={"backend":"FLASHINFER"}',), "--attention-backend is FLASHINFER in prefill"),
        (("-ac.backend=FLASHINFER",), "--attention-backend is FLASHINFER in prefill"),
        (("-ac", '{"flash_attn_version": 2}'), "--attention-config.flash_attn_version is 2 in prefill"),
        (("--attention-back=FLASHINFER",), "--attention-backend is FLASHINFER in prefill"),
        (("--hf-overrides.num_hidden_layers=4",), "--hf-overrides.num_hidden_layers is 4 in prefill"),
        (('--hf_overrides={"rope":{"theta":1}}',), "--hf-overrides.rope.theta is 1 in prefill"),
        (("--hf-overrides", "{no JSON"), "--hf-overrides is {no JSON in prefill"),
        (("--block-s", "32"), "--block-size is 32 in prefill"),
        (("--no-disable-hybrid",), "--disable-hybrid-kv-cache-manager is false in prefill"),
        (("--disable-hybrid",), "--disable-hybrid-kv-cache-manager is true in prefill"),
    ],
)
def test_what_the_handshake_compares_is_found_in_every_spelling(args: tuple[str, ...], told: str) -> None:
    conflict = settings_conflict(prefill(args), DECODE)
    assert conflict is not None
    assert f"spec.engine.args {told} and unset in decode" in conflict.message


def test_of_sizes_of_pieces_it_is_told_what_would_come_of_them() -> None:
    """No handshake compares them."""
    conflict = settings_conflict(prefill(env=(("UCX_TCP_TX_SEG_SIZE", "512k"),)), DECODE)
    assert conflict is not None
    assert conflict.message.endswith("same on both sides one may send larger pieces over TCP than the other takes")


@pytest.mark.parametrize("wire", ["RDMA", "EFA"])
def test_sizes_of_pieces_matter_to_no_other_wire(wire: str) -> None:
    kv = KVSpec(transport=wire)
    ours = spec(Role.Prefill, kv=kv, engine=EngineSpec(env=(("UCX_TCP_RX_SEG_SIZE", "512k"),)))
    assert settings_conflict(ours, spec(Role.Decode, kv=kv)) is None


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (spec(Role.Prefill, kv=KVSpec(Precision.BF16)), DECODE),
        (prefill(("--block-size", "32")), spec(Role.Decode, engine=EngineSpec(args=("--block_size=32",)))),
        (
            prefill(("--attention-backend", "FLASHINFER", "--hf-overrides", '{"a": {"b": 1}}')),
            spec(Role.Decode, engine=EngineSpec(args=("-ac.backend=FLASHINFER", "--hf-overrides.a.b", "1"))),
        ),
        (prefill(("--max-num-seqs", "8"), (("A", "b"),)), DECODE),
    ],
    ids=["named-default", "spelling", "apart", "of-one-side"],
)
def test_what_comes_to_the_same_is_no_conflict(ours: PoolSpec, theirs: PoolSpec) -> None:
    assert settings_conflict(ours, theirs) is None


def test_both_halves_speak_the_same() -> None:
    conflict = settings_conflict(spec(Role.Prefill, kv=KVSpec(connector="Mooncake")), DECODE)
    assert conflict is not None
    assert conflict.message.startswith("spec.kvTransfer.connector is Mooncake in prefill and NIXL in decode")


NICS = EngineSpec(resources=(("rdma/ib", "1"),))


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        (
            spec(Role.Prefill, engine=NICS),
            DECODE,
            "Auto with RDMA devices means RDMA in prefill, and Auto without RDMA devices means TCP in decode: ",
        ),
        (
            spec(Role.Prefill),
            spec(Role.Decode, engine=NICS),
            "Auto without RDMA devices means TCP in prefill, and Auto with RDMA devices means RDMA in decode: ",
        ),
        (
            spec(Role.Prefill, engine=NICS, kv=KVSpec(transport="TCP")),
            spec(Role.Decode, engine=NICS),
            "TCP means TCP in prefill, and Auto with RDMA devices means RDMA in decode: ",
        ),
    ],
    ids=["of-prefill", "of-decode", "named"],
)
def test_one_wire_reaches_from_half_to_half(ours: PoolSpec, theirs: PoolSpec, told: str) -> None:
    """UCX falls back to TCP without a word where one half has no device, at a thirtieth of the rate of RDMA."""
    conflict = settings_conflict(ours, theirs)
    assert conflict is not None
    assert conflict.reason is Reason.PairIncompatible
    assert told in conflict.message
    assert conflict.message.endswith("resources.rdma of both halves or of none, or set transport TCP in both")


@pytest.mark.parametrize("transport", ["Auto", "RDMA", "TCP"])
def test_devices_in_both_halves_are_no_conflict(transport: str) -> None:
    kv = KVSpec(transport=transport)
    assert settings_conflict(*(spec(role, engine=NICS, kv=kv) for role in (Role.Prefill, Role.Decode))) is None


def test_devices_that_named_tcp_leaves_alone_may_be_in_one_half() -> None:
    kv = KVSpec(transport="TCP")
    assert settings_conflict(spec(Role.Prefill, engine=NICS, kv=kv), spec(Role.Decode, kv=kv)) is None


def test_sglang_compares_the_pages_of_the_cache() -> None:
    ours = spec(Role.Prefill, engine=EngineSpec(EngineName.SGLang, args=("--page-size", "64")))
    conflict = settings_conflict(ours, DECODE)
    assert conflict is not None
    assert "spec.engine.args --page-size is 64 in prefill and unset in decode" in conflict.message


def sglang(role: Role, *args: str) -> PoolSpec:
    return spec(role, engine=EngineSpec(EngineName.SGLang, args=args))


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        ((), ("--decode-attention-backend", "trtllm_mla"), "is unset in prefill and 64 in decode"),
        ((), ("--decode-attention=cutlass_mla",), "is unset in prefill and 128 in decode"),
        (("--prefill-attention-backend", "trtllm_mha"), (), "is 64 in prefill and unset in decode"),
        (("--prefill_attention_backend=fa4",), (), "is 128 in prefill and unset in decode"),
        (("--page-size", "32"), ("--page-size", "32", "--decode-attention-backend", "flashmla"), "is 32 in prefill"),
    ],
)
def test_a_backend_of_one_phase_sets_the_pages_of_its_half(
    ours: tuple[str, ...], theirs: tuple[str, ...], told: str
) -> None:
    conflict = settings_conflict(sglang(Role.Prefill, *ours), sglang(Role.Decode, *theirs))
    assert conflict is not None
    assert conflict.reason is Reason.PairIncompatible
    assert f"--page-size by spec.engine.args --decode- and --prefill-attention-backend {told}" in conflict.message


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ((), ("--decode-attention-backend", "flashinfer")),
        (("--prefill-attention-backend", "flashmla"), ()),
        (("--page-size", "64"), ("--page-size", "64", "--decode-attention-backend", "trtllm_mla")),
        (("--prefill-attention-backend", "trtllm_mha"), ("--decode-attention-backend", "flashmla")),
    ],
    ids=["default", "of-decode-alone", "taken", "same-size"],
)
def test_backends_that_leave_the_pages_the_same_may_differ(ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    """Halves compute different phases, so that each may have the fastest backend for its own."""
    assert settings_conflict(sglang(Role.Prefill, *ours), sglang(Role.Decode, *theirs)) is None


@pytest.mark.parametrize(
    ("model", "version", "prefill_size", "decode_size", "why"),
    [
        ("Llama-3.3-70B-Instruct", "0.5.3.post3", 4, 4, None),
        ("Llama-3.3-70B-Instruct", "0.5.3.post3", 8, 2, None),
        ("Llama-3.3-70B-Instruct", "0.5.23", 2, 16, None),
        ("Llama-3.3-70B-Instruct", "0.5.10.post1", 2, 16, "the larger copies heads; allowed: 0.5.12 or later"),
        ("Llama-3.3-70B-Instruct", "0.5.23", 6, 4, "do not divide each other"),
        ("DeepSeek-V3", "0.5.3.post3", 16, 2, None),
        ("gpt-oss-120b", "0.5.23", 4, 4, None),
        ("gpt-oss-120b", "0.5.23", 8, 4, "keeps windows or states"),
    ],
)
def test_sglang_cuts_and_joins_heads_and_nothing_else(
    model: str, version: str, prefill_size: int, decode_size: int, why: str | None
) -> None:
    """Latent KV is whole on each GPU, so that any sizes go together that divide each other."""
    architecture = load().architecture(model)
    assert architecture is not None
    said = sglang_tensor_conflict(version, architecture, prefill_size, decode_size)
    assert (said is None) is (why is None)
    assert why is None or (said is not None and why in said)
