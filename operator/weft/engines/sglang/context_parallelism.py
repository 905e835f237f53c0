"""Which shapes may share contexts on SGLang: those that a user pins, with its one backend that can and is the default.

Read from the packages 0.5.15 to 0.5.23. `--dcp-size` is there from 0.5.15 on. Of the attention backends for latent
attention that SGLang chooses itself on NVIDIA GPUs, `trtllm_mla` (Blackwell) reads a cut KV cache from 0.5.19 on; `fa3`
(Hopper) in no release up to 0.5.23. It refuses drafting beside it. `--enable-prefill-cp` is another thing than what
Weft plans as PCP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.shape import EngineName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.shape import Shape
    from weft.engines.model.sharing import Sharing
    from weft.engines.terms.versions import Version

SHARES_CONTEXTS: Version = (0, 5, 19)
BACKEND = "trtllm_mla"
_RUNS_ON = "Blackwell"


def sglang_decode_context_conflict(asked: Sharing) -> str | None:
    """Why SGLang cannot use decode context parallelism here; None if it can, is not asked to, or for other engines."""
    if asked.shape.decode_context_parallel == 1 or asked.shape.engine is not EngineName.SGLang:
        return None
    return next((sentence for wrong, sentence in _decode_claims(asked) if wrong), None)


def sglang_prefill_context_conflict(shape: Shape) -> str | None:
    """Why SGLang shares no prompts as Weft plans it; None if it is not asked to, or for other engines."""
    if shape.prefill_context_parallel == 1 or shape.engine is not EngineName.SGLang:
        return None
    return (
        "SGLang's --enable-prefill-cp (0.5.15 or later) cuts the weights over the GPUs that share prompts, and PCP is "
        "planned with the weights in each group; allowed: 1"
    )


def _decode_claims(asked: Sharing) -> Iterator[tuple[bool, str]]:
    """Pairs of (whether the shape fails, the sentence that says why)."""
    pinned, shape = asked.spec.shape.decode_context_parallel is not None, asked.shape
    yield not pinned, "Weft plans DCP on SGLang only where spec.shape.decodeContextParallel names it; allowed: 1"
    latent = asked.architecture.is_latent and asked.whole
    yield not latent, "SGLang shares contexts of latent attention without a token selector only; allowed: 1"
    yield asked.copies_claim()
    where = f"SGLang's attention backend on {asked.generation} GPUs shares no contexts"
    yield asked.generation != _RUNS_ON, f"{where}, that on {_RUNS_ON} does; allowed: 1"
    yield asked.is_before(SHARES_CONTEXTS), asked.too_old("shares no contexts", SHARES_CONTEXTS)
    yield asked.spec.role.is_half, "contexts are shared on SGLang in Aggregated pools only; allowed: 1"
    yield shape.data_parallel > 1, "attention-DP ranks share no contexts; allowed: 1"
    yield shape.pipeline_parallel > 1, "pipeline stages share no contexts on SGLang; allowed: 1"
    yield bool(asked.drafts), f"SGLang's {BACKEND} shares no contexts while {asked.drafts} drafts; allowed: 1"
