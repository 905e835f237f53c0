"""When one engine can transfer its KV cache to another: what the handshake compares, and which sizes never go together.

vLLM hashes its version, the model, the attention backend, the KV cache dtype and the speculative configuration, and
refuses a peer with another hash. Sizes are checked later. SGLang compares the dtype and page size of the KV cache, and
refuses single requests. Both halves always run the same release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.hardware import Precision
from weft.domain.reasons import Explanation, Reason
from weft.engines.kv.libfabric import over_efa
from weft.engines.kv.nvlink import over_nvlink
from weft.engines.kv.pages import page_size
from weft.engines.options.spellings import values_given

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.shape import Shape
    from weft.domain.spec import PoolSpec

# User arguments that the handshake compares, directly or through what they decide.
_ARGUMENTS = (
    *("--attention-backend", "--attention-config", "--block-size", "--hf-overrides"),
    *("--disable-hybrid-kv-cache-manager", "--page-size", "--json-model-override-args", "--dsv4-attn-backend"),
)
_SHORT = {"-ac": "--attention-config"}
_SAME = {"--attention-config.backend": "--attention-backend"}
_VARIABLES = (
    *("VLLM_ATTENTION_BACKEND", "VLLM_KV_CACHE_LAYOUT", "VLLM_MLA_DISABLE", "SGLANG_DSV4_KV_LAYOUT"),
    "SGLANG_DISAGGREGATION_NIXL_BACKEND",
)
_PIECES = ("UCX_TCP_TX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE")  # no handshake compares them (docs/adr/0075)


def wire_of(spec: PoolSpec) -> str:
    """The transport that carries KV; `Auto` is RDMA if pods have RDMA devices, else TCP."""
    if spec.kv.transport != "Auto":
        return spec.kv.transport
    return "RDMA" if spec.engine.devices else "TCP"


def settings_conflict(prefill: PoolSpec, decode: PoolSpec) -> Explanation | None:
    """The first setting in which two halves differ although the handshake or the transport needs it equal, or None.

    Either half is predicted and rendered from its own spec, which names no wire of the other (`wire_of`).
    """
    if (found := _first_unlike(dict(_compared(prefill)), dict(_compared(decode)))) is not None:
        return _unlike(found, "they refuse each other's KV cache")
    if wire_of(prefill) != wire_of(decode):
        return _two_wires(prefill, decode)
    if not (may_send_pieces(prefill) and may_send_pieces(decode)):
        return None
    if (found := _first_unlike(dict(_pieces(prefill)), dict(_pieces(decode)))) is not None:
        return _unlike(found, "one may send larger pieces over TCP than the other takes")
    return None


def may_send_pieces(spec: PoolSpec) -> bool:
    """Whether UCX may send KV over TCP, in segments."""
    return spec.kv.transport != "RDMA" and not over_efa(spec)


def _two_wires(prefill: PoolSpec, decode: PoolSpec) -> Explanation:
    """Why halves with two wires are refused: each is sized by its own, and at best the slower carries all KV."""
    return Explanation(
        Reason.PairIncompatible,
        f"spec.kvTransfer.transport {_by_devices(prefill)} means {wire_of(prefill)} in prefill, and "
        f"{_by_devices(decode)} means {wire_of(decode)} in decode: name RDMA devices in spec.engine.resources.rdma of "
        "both halves or of none, or set transport TCP in both",
    )


def _by_devices(spec: PoolSpec) -> str:
    if spec.kv.transport != "Auto":
        return spec.kv.transport
    return "Auto with RDMA devices" if spec.engine.devices else "Auto without RDMA devices"


def _first_unlike(prefill: dict[str, str], decode: dict[str, str]) -> str | None:
    for field in {**prefill, **decode}:
        ours, theirs = prefill.get(field), decode.get(field)
        if (ours or "") != (theirs or ""):
            return f"{field} is {ours or 'unset'} in prefill and {theirs or 'unset'} in decode"
    return None


def _unlike(found: str, so_that: str) -> Explanation:
    return Explanation(Reason.PairIncompatible, f"{found}: without the same on both sides {so_that}")


def division_conflict(prefill: int, decode: int) -> str | None:
    """Why no engine transfers KV between tensor groups of these sizes, of which one divides the other; None if so."""
    if max(prefill, decode) % min(prefill, decode):
        return f"TP {prefill} of prefill and TP {decode} of decode do not divide each other"
    return None


def context_conflict(prefill: Shape, decode: Shape) -> str | None:
    """Why KV cannot go from prompt-sharing (PCP) groups, each with the whole KV, to GPUs that share a context (DCP)."""
    groups, among = prefill.prefill_context_parallel, decode.decode_context_parallel
    if groups == 1 or among == 1:
        return None
    return f"NIXL moves no KV from PCP {groups} of prefill to DCP {among} of decode; allowed: one of the two"


def _compared(spec: PoolSpec) -> Iterator[tuple[str, str]]:
    yield "spec.kvTransfer.connector", spec.kv.connector
    yield "spec.kvTransfer.transport", spec.kv.transport if over_efa(spec) or over_nvlink(spec) else ""
    yield "spec.kvCache.precision", (spec.kv.precision or Precision.BF16).value
    yield "spec.engine.speculative", spec.engine.speculative_json or ""
    for option, value in values_given(spec.engine.args, _ARGUMENTS, _SHORT).items():
        yield f"spec.engine.args {_SAME.get(option, option)}", value
    # Once --attention-backend and --page-size are the same, these two alone make a difference
    yield "--page-size by spec.engine.args --decode- and --prefill-attention-backend", page_size(spec.engine.args)
    variables = dict(spec.engine.env)
    for name in _VARIABLES:
        yield f"spec.engine.env {name}", variables.get(name, "")


def _pieces(spec: PoolSpec) -> Iterator[tuple[str, str]]:
    variables = dict(spec.engine.env)
    for name in _PIECES:
        yield f"spec.engine.env {name}", variables.get(name, "")
