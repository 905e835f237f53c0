"""Between which tensor group sizes vLLM transfers KV, over NIXL or Mooncake.

Read from `_validate_remote_agent_handshake` of the NixlConnector in the packages 0.14.1, 0.17.0, 0.18.0 to 0.24.0,
0.26.0, 0.28.0, 0.32.0 and 0.33.0. What that refuses ends no request: decode computes each of its prompts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.kv.handover import division_conflict
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.engines.terms.versions import Version

JOINS_A_LARGER_PREFILL: Version = (0, 14, 0)  # pull request 27274
JOINS_SIZES_OVER_MOONCAKE: Version = (0, 19, 0)
COUNTS_COPIES: Version = (0, 20, 0)  # before, a head for each GPU of prefill was taken for a copied one
JOINS_COPIES_IN_DECODE: Version = (0, 24, 0)  # pull request 45879


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
    return _copied_heads_conflict(version, architecture, prefill, decode)


def _over_mooncake(version: str, prefill: int, decode: int) -> str | None:
    if parse_version(version) >= JOINS_SIZES_OVER_MOONCAKE:
        return None
    return (
        f"version {version} moves no KV over Mooncake from TP {prefill} of prefill to TP {decode} of decode; "
        "allowed: 0.19.0 or later, or the same on both sides"
    )


def _copied_heads_conflict(version: str, architecture: Architecture, prefill: int, decode: int) -> str | None:
    """Why unequal groups do not go together of which one copies KV heads; latent KV and states are no such heads.

    Where layers have different numbers of heads, the fewest count: those are the first to be copied.
    """
    if architecture.is_latent or architecture.keeps_states:
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
