"""Which shapes `trtllm-serve` supports, as Weft starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.shape import EngineName

if TYPE_CHECKING:
    from weft.domain.shape import Shape


def tensorrt_llm_shape_conflict(shape: Shape) -> str | None:
    """Why `trtllm-serve` cannot run this shape; None if it can, and for other engines."""
    if shape.engine is not EngineName.TensorRTLLM:
        return None
    tensor, data = shape.tensor_parallel, shape.data_parallel
    if min(tensor, data) > 1:
        return (
            f"attention of TensorRT-LLM is whole on each GPU or cut over all, not TP {tensor} x DP {data}; "
            "allowed: TP 1 or DP 1"
        )
    return tensorrt_llm_decode_context_conflict(shape) or tensorrt_llm_prefill_context_conflict(shape)


def tensorrt_llm_decode_context_conflict(shape: Shape) -> str | None:
    """Why its GPUs share no context; None if they are not asked to, and for other engines.

    Its integration tests of Helix have UCX, blocks of 32 tokens and no overlapped steps, too (main branch, 2026).
    """
    if shape.engine is not EngineName.TensorRTLLM or shape.decode_context_parallel == 1:
        return None
    return (
        "TensorRT-LLM shares contexts by Helix alone (--cp_size from 1.3 on, decode halves on Blackwell), tested only "
        "without chunked prompts and prefix reuse in both halves, which plans count on; allowed: 1"
    )


def tensorrt_llm_prefill_context_conflict(shape: Shape) -> str | None:
    """Why its GPUs share no prompts; None if they are not asked to, and for other engines."""
    if shape.engine is not EngineName.TensorRTLLM or shape.prefill_context_parallel == 1:
        return None
    return "Weft shares no prompts between GPUs of TensorRT-LLM; allowed: 1"
