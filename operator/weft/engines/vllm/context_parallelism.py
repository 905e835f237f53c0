"""Which shapes may use context parallelism on vLLM: a KV cache split in decode (DCP), prompts split in prefill (PCP).

Read from the releases 0.10.2 to 0.33.0; a version is the first that was seen to support something. The flag of PCP
exists since 0.12, but no attention backend for GPUs supports it before 0.27, and NIXL refuses it before 0.30.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.hardware import Precision
from weft.domain.model import GroupedAttention, LatentAttention, kv_copies
from weft.domain.shape import EngineName
from weft.domain.workload import Role
from weft.engines.model.speculative import speculative_wish
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.model import Architecture, Mixer
    from weft.domain.shape import Shape
    from weft.domain.spec import PoolSpec
    from weft.engines.terms.versions import Version

SHARES_LATENT_KV: Version = (0, 10, 2)
SHARES_GROUPED_KV: Version = (0, 11, 2)
SHARES_8_BIT_KV: Version = (0, 25, 1)
HANDS_OVER_SHARED_KV: Version = (0, 29, 0)
SHARES_PROMPTS: Version = (0, 30, 0)
SHARES_PROMPTS_OF_SELECTORS: Version = (0, 33, 0)  # before, only without CUDA graphs


@dataclass(frozen=True, slots=True)
class Sharing:
    """A shape and what decides on its context parallelism: engine version, accelerator vendor, model and pool spec."""

    shape: Shape
    spec: PoolSpec
    architecture: Architecture
    version: str
    vendor: str

    @property
    def drafts(self) -> str:
        """The method of speculative decoding; empty if there is none."""
        wish = speculative_wish(self.spec.engine.speculative_json)
        return wish.method if wish is not None else ""

    def is_before(self, version: Version) -> bool:
        """Whether the engine is older than `version`."""
        return parse_version(self.version) < version


def shared_copies(architecture: Architecture, tensor_parallel: int) -> int:
    """How many GPUs of a tensor group could share a context: those with copies of the same KV heads; 1 if none can.

    vLLM shares neither sliding windows nor recurrent states, and keeps what a selector reads in a format of its own.
    """
    if not _keeps_all_of(architecture):
        return 1
    mixers = (block.mixer for block in architecture.blocks if block.mixer is not None)
    return min((kv_copies(mixer, tensor_parallel) for mixer in mixers), default=1)


def decode_context_conflict(asked: Sharing) -> str | None:
    """Why a shape cannot use decode context parallelism; None if it can or does not ask for it."""
    if asked.shape.decode_context_parallel == 1:
        return None
    return next((sentence for wrong, sentence in _decode_claims(asked) if wrong), None)


def prefill_context_conflict(asked: Sharing) -> str | None:
    """Why a shape cannot use prefill context parallelism; None if it can or does not ask for it."""
    if asked.shape.prefill_context_parallel == 1:
        return None
    return next((sentence for wrong, sentence in _prefill_claims(asked) if wrong), None)


def _decode_claims(asked: Sharing) -> Iterator[tuple[bool, str]]:
    """Pairs of (whether the shape fails, the sentence that says why), for decode context parallelism."""
    shape, version, tensor = asked.shape, asked.version, asked.shape.tensor_parallel
    among, copies = shape.decode_context_parallel, shared_copies(asked.architecture, tensor)
    yield shape.engine is not EngineName.VLLM, f"Weft plans DCP for vLLM, not for {shape.engine.value}; allowed: 1"
    yield not _keeps_all_of(asked.architecture), f"{_others(asked)}, and only whole contexts are shared; allowed: 1"
    allowed = ", ".join(str(size) for size in range(1, copies + 1) if copies % size == 0)
    keeps = f"TP {tensor} keeps {copies} {'copies' if copies > 1 else 'copy'} of the KV cache"
    yield copies % among != 0, f"{keeps}, and DCP {among} must divide that number; allowed: {allowed}"
    yield asked.vendor != "nvidia", f"DCP is planned for NVIDIA GPUs only, not for those of {asked.vendor}; allowed: 1"
    oldest = SHARES_LATENT_KV if asked.architecture.is_latent else SHARES_GROUPED_KV
    yield asked.is_before(oldest), _too_old(version, "shares no such KV cache", oldest)
    is_small = asked.spec.kv.precision is Precision.FP8 and asked.is_before(SHARES_8_BIT_KV)
    yield is_small, _too_old(version, "shares no KV cache in FP8", SHARES_8_BIT_KV)
    yield asked.drafts in {"EAGLE3", "DraftModel"}, f"{asked.drafts} drafts with KV heads of its own; allowed: 1"
    yield shape.prefill_context_parallel > 1, "a replica shares either prompts or KV caches; allowed: 1"
    if asked.spec.role.is_half:
        yield asked.spec.kv.connector != "NIXL", "only NIXL transfers shared KV; allowed: 1"
        yield asked.is_before(HANDS_OVER_SHARED_KV), _too_old(version, "transfers no shared KV", HANDS_OVER_SHARED_KV)
        yield not asked.architecture.is_latent, "NIXL transfers shared KV only with latent attention; allowed: 1"
        yield among != tensor, f"NIXL transfers KV that all of a tensor group share, or none; allowed: 1, {tensor}"


def _prefill_claims(asked: Sharing) -> Iterator[tuple[bool, str]]:
    """Pairs of (whether the shape fails, the sentence that says why), for prefill context parallelism."""
    shape, version = asked.shape, asked.version
    yield shape.engine is not EngineName.VLLM, f"Weft plans PCP for vLLM, not for {shape.engine.value}; allowed: 1"
    yield asked.spec.role is not Role.Prefill, "only the prefill half of a split shares prompts; allowed: 1"
    yield not asked.architecture.is_latent, "vLLM shares prompts of models with latent attention only; allowed: 1"
    yield asked.vendor != "nvidia", f"PCP is planned for NVIDIA GPUs only, not for those of {asked.vendor}; allowed: 1"
    yield asked.is_before(SHARES_PROMPTS), _too_old(version, "shares no prompts", SHARES_PROMPTS)
    selects = any(getattr(block.mixer, "selector", None) is not None for block in asked.architecture.blocks)
    selects_too_early = selects and asked.is_before(SHARES_PROMPTS_OF_SELECTORS)
    yield selects_too_early, _too_old(version, "shares no prompts of such a model", SHARES_PROMPTS_OF_SELECTORS)
    yield shape.data_parallel > 1, "data-parallel ranks share no prompts; allowed: 1"
    yield bool(asked.spec.model.adapters), "vLLM shares no prompts beside LoRA adapters; allowed: 1"
    yield asked.spec.kv.connector != "NIXL", "only NIXL transfers the KV of shared prompts; allowed: 1"
    offloads = asked.spec.kv.offload_json is not None
    yield offloads, "prompts are shared by a half that only gives KV away, without kvCache.offload; allowed: 1"
    yield asked.drafts not in {"", "MTP"}, f"vLLM shares no prompts while {asked.drafts} drafts; allowed: 1"


def _keeps_all_of(architecture: Architecture) -> bool:
    return all(_keeps_all(block.mixer) for block in architecture.blocks if block.mixer is not None)


def _keeps_all(mixer: Mixer) -> bool:
    """Whether layers of this kind keep the whole context and attend to all of it."""
    if isinstance(mixer, GroupedAttention):
        return mixer.window_tokens is None
    return isinstance(mixer, LatentAttention) and mixer.selector is None


def _others(asked: Sharing) -> str:
    return f"{asked.architecture.model_id} has windows, recurrences or a token selector"


def _too_old(version: str, lacks: str, since: Version) -> str:
    return f"version {version} {lacks}; allowed: {'.'.join(map(str, since))} or later, or 1"
