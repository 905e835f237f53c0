"""Which shapes may use context parallelism on vLLM: a KV cache split in decode (DCP), prompts split in prefill (PCP).

Read from the releases 0.10.2 to 0.33.0; a version is the first that was seen to support something. The flag of PCP
exists since 0.12, but no attention backend for GPUs supports it before 0.27, and NIXL refuses it before 0.30.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.hardware import Precision
from weft.domain.shape import EngineName
from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.engines.model.sharing import Sharing
    from weft.engines.terms.versions import Version

SHARES_LATENT_KV: Version = (0, 10, 2)
SHARES_GROUPED_KV: Version = (0, 11, 2)
SHARES_8_BIT_KV: Version = (0, 25, 1)
HANDS_OVER_SHARED_KV: Version = (0, 29, 0)
SHARES_PROMPTS: Version = (0, 30, 0)
SHARES_PROMPTS_OF_SELECTORS: Version = (0, 33, 0)  # before, only without CUDA graphs


def decode_context_conflict(asked: Sharing) -> str | None:
    """Why a shape cannot use decode context parallelism; None if it can, does not ask for it, or is not of vLLM."""
    if asked.shape.decode_context_parallel == 1 or asked.shape.engine is not EngineName.VLLM:
        return None
    return next((sentence for wrong, sentence in _decode_claims(asked) if wrong), None)


def prefill_context_conflict(asked: Sharing) -> str | None:
    """Why a shape cannot use prefill context parallelism; None if it can, does not ask for it, or is not of vLLM."""
    if asked.shape.prefill_context_parallel == 1 or asked.shape.engine is not EngineName.VLLM:
        return None
    return next((sentence for wrong, sentence in _prefill_claims(asked) if wrong), None)


def _decode_claims(asked: Sharing) -> Iterator[tuple[bool, str]]:
    """Pairs of (whether the shape fails, the sentence that says why), for decode context parallelism."""
    shape, tensor = asked.shape, asked.shape.tensor_parallel
    yield not asked.whole, f"{asked.others}, and only whole contexts are shared; allowed: 1"
    yield asked.copies_claim()
    yield asked.vendor != "nvidia", f"DCP is planned for NVIDIA GPUs only, not for those of {asked.vendor}; allowed: 1"
    oldest = SHARES_LATENT_KV if asked.architecture.is_latent else SHARES_GROUPED_KV
    yield asked.is_before(oldest), asked.too_old("shares no such KV cache", oldest)
    is_small = asked.spec.kv.precision is Precision.FP8 and asked.is_before(SHARES_8_BIT_KV)
    yield is_small, asked.too_old("shares no KV cache in FP8", SHARES_8_BIT_KV)
    yield asked.drafts in {"EAGLE3", "DraftModel"}, f"{asked.drafts} drafts with KV heads of its own; allowed: 1"
    yield shape.prefill_context_parallel > 1, "a replica shares either prompts or KV caches; allowed: 1"
    if asked.spec.role.is_half:
        yield asked.spec.kv.connector != "NIXL", "only NIXL transfers shared KV; allowed: 1"
        yield asked.is_before(HANDS_OVER_SHARED_KV), asked.too_old("transfers no shared KV", HANDS_OVER_SHARED_KV)
        yield not asked.architecture.is_latent, "NIXL transfers shared KV only with latent attention; allowed: 1"
        yield (
            shape.decode_context_parallel != tensor,
            f"NIXL transfers KV that all of a tensor group share, or none; allowed: 1, {tensor}",
        )


def _prefill_claims(asked: Sharing) -> Iterator[tuple[bool, str]]:
    """Pairs of (whether the shape fails, the sentence that says why), for prefill context parallelism."""
    shape = asked.shape
    yield asked.spec.role is not Role.Prefill, "only the prefill half of a split shares prompts; allowed: 1"
    yield not asked.architecture.is_latent, "vLLM shares prompts of models with latent attention only; allowed: 1"
    yield asked.vendor != "nvidia", f"PCP is planned for NVIDIA GPUs only, not for those of {asked.vendor}; allowed: 1"
    yield asked.is_before(SHARES_PROMPTS), asked.too_old("shares no prompts", SHARES_PROMPTS)
    selects = any(getattr(block.mixer, "selector", None) is not None for block in asked.architecture.blocks)
    selects_too_early = selects and asked.is_before(SHARES_PROMPTS_OF_SELECTORS)
    yield selects_too_early, asked.too_old("shares no prompts of such a model", SHARES_PROMPTS_OF_SELECTORS)
    yield shape.data_parallel > 1, "data-parallel ranks share no prompts; allowed: 1"
    yield bool(asked.spec.model.adapters), "vLLM shares no prompts beside LoRA adapters; allowed: 1"
    yield asked.spec.kv.connector != "NIXL", "only NIXL transfers the KV of shared prompts; allowed: 1"
    offloads = asked.spec.kv.offload_json is not None
    yield offloads, "prompts are shared by a half that only gives KV away, without spec.kvCache.offload; allowed: 1"
    yield asked.drafts not in {"", "MTP"}, f"vLLM shares no prompts while {asked.drafts} drafts; allowed: 1"
