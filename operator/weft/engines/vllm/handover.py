"""Between which tensor group sizes vLLM transfers KV, over NIXL or Mooncake, and states over NIXL.

Read from the NixlConnector in packages of 0.14.1, 0.17 to 0.28, 0.32 and 0.33. What its
`_validate_remote_agent_handshake` refuses ends no request: decode computes each of its prompts again. States in another
layout than DS end the engine at its start, as do kinds of them that `derive_mamba_conv_split` does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.model import LinearAttention
from weft.engines.kv.handover import division_conflict
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from weft.domain.model import Architecture, Mixer
    from weft.engines.terms.versions import Version

JOINS_A_LARGER_PREFILL: Version = (0, 14, 0)  # pull request 27274
JOINS_SIZES_OVER_MOONCAKE: Version = (0, 19, 0)
COUNTS_COPIES: Version = (0, 20, 0)  # before, a head for each GPU of prefill was taken for a copied one
JOINS_COPIES_IN_DECODE: Version = (0, 24, 0)  # pull request 45879
MOVES_STATES: Version = (0, 22, 0)  # before, hybrid memory is off beside a connector, without which there are no states
MOVES_STATES_OF_MAMBA_1: Version = (0, 25, 0)  # Jamba
MOVES_STATES_BESIDE_LATENT_KV: Version = (0, 27, 0)  # Kimi Linear
DRAFTS_BESIDE_DS: Version = (0, 24, 0)  # pull request 45473
_NO_CONVOLUTION = 1  # tokens that its convolution sees


def vllm_tensor_conflict(
    version: str, connector: str, architecture: Architecture, prefill: int, decode: int
) -> str | None:
    """Why KV cannot be transferred between tensor groups of these sizes on this version; None if it can."""
    apart = division_conflict(prefill, decode)
    if prefill == decode or apart is not None:
        return apart
    if connector == "Mooncake":
        return _over_mooncake(version, prefill, decode)
    if prefill > decode and parse_version(version) < JOINS_A_LARGER_PREFILL:
        return (
            f"version {version} moves no KV from TP {prefill} of prefill to the smaller TP {decode} of decode; "
            "allowed: 0.14.0 or later, or no larger TP in prefill"
        )
    if architecture.keeps_states:
        return _unequal_states(architecture, prefill, decode)
    return _copied_heads_conflict(version, architecture, prefill, decode)


def vllm_states_conflict(version: str, architecture: Architecture, *, drafts: bool) -> str | None:
    """Why NIXL transfers no states of this model on this version, where tokens are drafted or not; None if it can."""
    if not architecture.keeps_states:
        return None
    release, of_model = parse_version(version), f"the states that {architecture.model_id} keeps beside its KV"
    since = _moves_states_since(architecture)
    if release < since:
        return f"version {version} does not move {of_model}; allowed: {'.'.join(map(str, since))} or later"
    if any(_is_lightning(block.mixer) for block in architecture.blocks):
        return f"NIXL does not move {of_model}, which are those of lightning attention; use an InferencePool"
    if drafts and release < DRAFTS_BESIDE_DS:
        return (
            f"version {version} drafts no tokens beside {of_model} in the layout that NIXL needs; "
            "allowed: 0.24.0 or later, or no spec.engine.speculative"
        )
    return None


def _moves_states_since(architecture: Architecture) -> Version:
    if architecture.is_latent:
        return MOVES_STATES_BESIDE_LATENT_KV
    recurrences = (block.mixer for block in architecture.blocks if isinstance(block.mixer, LinearAttention))
    return MOVES_STATES_OF_MAMBA_1 if any(each.value_dim == 1 for each in recurrences) else MOVES_STATES


def _is_lightning(mixer: Mixer | None) -> bool:
    return isinstance(mixer, LinearAttention) and mixer.convolution == _NO_CONVOLUTION


def _unequal_states(architecture: Architecture, prefill: int, decode: int) -> str | None:
    """Why unequal groups do not go together: vLLM makes blocks of attention as large as one state.

    Copied KV stays as large while states get smaller, so that blocks hold fewer tokens. NIXL refuses that where
    prefixes are cached.
    """
    if not architecture.is_latent and max(prefill, decode) <= min(architecture.kv_heads):
        return None
    fewer = "" if architecture.is_latent else f", or TP up to {min(architecture.kv_heads)} in both"
    return (
        f"NIXL does not move the states that {architecture.model_id} keeps beside its KV from TP {prefill} of prefill "
        f"to TP {decode} of decode, of which the larger copies KV; allowed: the same TP in both{fewer}"
    )


def _over_mooncake(version: str, prefill: int, decode: int) -> str | None:
    if parse_version(version) >= JOINS_SIZES_OVER_MOONCAKE:
        return None
    return (
        f"version {version} moves no KV over Mooncake from TP {prefill} of prefill to TP {decode} of decode; "
        "allowed: 0.19.0 or later, or the same on both sides"
    )


def _copied_heads_conflict(version: str, architecture: Architecture, prefill: int, decode: int) -> str | None:
    """Why unequal groups do not go together of which one copies KV heads; latent KV is no such heads.

    Where layers have different numbers of heads, the fewest count: those are the first to be copied.
    """
    if architecture.is_latent:
        return None
    release, heads = parse_version(version), min(architecture.kv_heads)
    counts = release >= COUNTS_COPIES
    most, passed, fewer = (heads, "more than", "up to") if counts else (heads - 1, "no fewer than", "below")
    sizes, copied = f"TP {prefill} of prefill", f"the {heads} KV heads of {architecture.model_id}"
    if prefill > decode and prefill > most:
        return (
            f"version {version} moves no KV from {sizes}, {passed} {copied}, to the smaller TP {decode} of decode; "
            f"allowed: TP {fewer} {heads} in prefill, or no larger TP in prefill than in decode"
        )
    if prefill <= most and decode > heads and release < JOINS_COPIES_IN_DECODE:
        return (
            f"version {version} moves no KV from {sizes} to TP {decode} of decode, more than {copied}; "
            f"allowed: 0.24.0 or later, TP up to {heads} in decode, or the same on both sides"
        )
    return None
