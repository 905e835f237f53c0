"""Between which tensor group sizes SGLang transfers KV, over NIXL or Mooncake.

Read from `srt/disaggregation` in 0.5.3.post3, 0.5.10.post1, 0.5.12.post1 and 0.5.23. It compares the sizes of groups
that compute attention together, which are Weft's TP. Latent KV is the same on each GPU; for grouped attention, heads
are split and joined, at a speed that SGLang does not promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.model import GroupedAttention, LatentAttention
from weft.engines.kv.handover import division_conflict
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.engines.terms.versions import Version

JOINS_COPIED_HEADS: Version = (0, 5, 12)  # NIXL; before, it counts every copy of a head as a distinct head


def sglang_tensor_conflict(version: str, architecture: Architecture, prefill: int, decode: int) -> str | None:
    """Why KV cannot be transferred between tensor groups of these sizes on this version; None if it can."""
    apart = division_conflict(prefill, decode)
    if prefill == decode or apart is not None:
        return apart
    sizes = f"TP {prefill} of prefill and TP {decode} of decode"
    mixers = [block.mixer for block in architecture.blocks if block.mixer is not None]
    if all(isinstance(mixer, LatentAttention) for mixer in mixers):
        return None
    if not all(isinstance(mixer, GroupedAttention) and mixer.window_tokens is None for mixer in mixers):
        return (
            f"{architecture.model_id} keeps windows or states beside its KV, which SGLang hands over between groups of "
            f"one size, not from {sizes}; allowed: the same TP in both"
        )
    if max(prefill, decode) > min(architecture.kv_heads) and parse_version(version) < JOINS_COPIED_HEADS:
        return (
            f"version {version} moves no KV between {sizes}, of which the larger copies heads; allowed: 0.5.12 or "
            "later, or the same TP in both"
        )
    return None
