"""Arguments and variables of SGLang that Weft decides, and the field to use instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.engines.options.given import given, said
from weft.engines.options.owned import BY_SHAPE, BY_WEFT, SEEN_DEVICES, OwnedFlags, env_conflict, without_every_address
from weft.engines.options.prefixes import prefix_conflict
from weft.engines.sglang.arguments import API_KEY, OWN_ADDRESS

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.domain.spec import PoolSpec

_TENSOR = f"{BY_SHAPE}.tensorParallel"
_STAGES = f"{BY_SHAPE}.pipelineParallel"
_EXPERTS = f"{BY_SHAPE}.expertParallel"
_RANKS = f"{BY_SHAPE}.dataParallel"
_SHARED_CONTEXT = f"{BY_SHAPE}.decodeContextParallel"
_SHARED_PROMPTS = f"{BY_SHAPE}.prefillContextParallel"
_PLAIN = "probes and metrics speak plain HTTP inside the cluster"
_SPECULATIVE = "use spec.engine.speculative"
_TRANSFER = "use spec.kvTransfer"
_OFFLOAD = "use spec.kvCache.offload"
_OTHER_HALF = (
    *("--disaggregation-decode-tp", "--disaggregation-decode-dp", "--disaggregation-prefill-pp"),
    "--enable-pd-role-switch",
)
_TIER = "--radix-cache-backend"  # of FlexKV it is the same as --enable-flexkv (sglang 0.5.17 and later)
_ADAPTERS = "use spec.model.adapters"

# What earlier releases call --enable-prefill-cp
_PROMPTS_SHARED_BEFORE = (
    *("--enable-prefill-context-parallel", "--enable-nsa-prefill-context-parallel"),
    "--enable-dsa-prefill-context-parallel",
)
# argparse takes an unambiguous prefix, so `--tp` is `--tp-size`: too short for the general prefix rule.
_OWNED = {
    **dict.fromkeys(("--tp-size", "--tensor-parallel-size", "--tp"), _TENSOR),
    **dict.fromkeys(("--pp-size", "--pipeline-parallel-size", "--pp"), _STAGES),
    **dict.fromkeys(("--ep-size", "--expert-parallel-size", "--ep", "--enable-ep-moe"), _EXPERTS),
    **dict.fromkeys(("--dp-size", "--data-parallel-size", "--dp"), _RANKS),
    **dict.fromkeys(("--attn-dp-size", "--attention-data-parallel-size", "--enable-dp-attention"), _RANKS),
    **dict.fromkeys(("--dcp-size", "--decode-context-parallel-size"), _SHARED_CONTEXT),
    **dict.fromkeys(("--attn-cp-size", "--attention-context-parallel-size", "--enable-prefill-cp"), _SHARED_PROMPTS),
    **dict.fromkeys(_PROMPTS_SHARED_BEFORE, _SHARED_PROMPTS),
    **dict.fromkeys(("--moe-dp-size", "--moe-data-parallel-size", "--dwdp-size", "--max-ep-size"), BY_SHAPE),
    **dict.fromkeys(("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr"), BY_WEFT),
    # uvicorn binds no socket of both families: 0.54, told `::`, refuses connections to 127.0.0.1
    "--host": "it listens on every IPv4 address; allowed: --host ::, with which it listens on every IPv6 address alone",
    **dict.fromkeys(("--port", "--grpc-mode", "--smg-grpc-mode", "--base-gpu-id", "--gpu-id-step"), BY_WEFT),
    "--use-ray": "use spec.engine.distributed",
    **dict.fromkeys(("--ssl-keyfile", "--ssl-certfile"), _PLAIN),
    "--config": "list its arguments in spec.engine.args, where they can be checked",
    "--enable-metrics": "Weft sets it: scaling needs the engine's metrics",
    **dict.fromkeys(("--model-path", "--model"), "use spec.model.id or spec.model.source"),
    "--revision": "use spec.model.source.huggingFace.revision",
    "--served-model-name": "use spec.model.servedNames",
    "--context-length": "use spec.model.maxModelLen",
    **dict.fromkeys(("--dtype", "--quantization"), "use spec.model.precision"),
    **dict.fromkeys(("--enable-lora", "--lora-paths"), _ADAPTERS),
    "--kv-cache-dtype": "use spec.kvCache.precision",
    **dict.fromkeys(("--enable-hierarchical-cache", "--enable-hicache", "--hicache-size"), _OFFLOAD),
    **dict.fromkeys(("--hicache-ratio", "--enable-lmcache", "--enable-flexkv", "--flexkv-config-file"), _OFFLOAD),
    "--disaggregation-mode": "use a PDSplit",
    **dict.fromkeys(("--disaggregation-transfer-backend", "--disaggregation-bootstrap-port"), _TRANSFER),
    **dict.fromkeys(_OTHER_HALF, BY_WEFT),
    **dict.fromkeys(("--speculative-algorithm", "--speculative-num-steps", "--speculative-eagle-topk"), _SPECULATIVE),
    **dict.fromkeys(("--speculative-draft-model-path", "--speculative-draft-model"), _SPECULATIVE),
    "--speculative-num-draft-tokens": _SPECULATIVE,
    "--api-key": "use spec.router.apiKeySecretRef",
}

OWNED_ENV = frozenset({OWN_ADDRESS, API_KEY, "HOST_IP", *SEEN_DEVICES})

_FLAGS = OwnedFlags(_OWNED, {})


def sglang_argument_conflict(args: tuple[str, ...], shape: Shape) -> Explanation | None:
    """Why the first argument that sets what Weft decides is refused, however it is spelled; None if there is none."""
    return _FLAGS.conflict(without_every_address(args), shape) or _tier_of_another(args)


def _tier_of_another(args: tuple[str, ...]) -> Explanation | None:
    """Why the tier of FlexKV may not be chosen by its name, either; other backends may be the image's own."""
    if said(args, _TIER, len("--radix-")) != "flexkv":
        return None
    return Explanation(Reason.ArgumentConflict, f"spec.engine.args may not contain {_TIER} flexkv: {_OFFLOAD}")


def sglang_env_conflict(names: tuple[str, ...]) -> Explanation | None:
    """Why the first variable that Weft sets itself is refused; None if there is none."""
    return env_conflict(names, OWNED_ENV)


def sglang_prefix_conflict(spec: PoolSpec) -> Explanation | None:
    """Why the prefix cache may not be off, as the plan assumes hits, or None."""
    off = given(spec.engine.args, "--disable-radix-cache") == "true"
    return prefix_conflict(spec, "--disable-radix-cache" if off else None)
