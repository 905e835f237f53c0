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
    return next((sentence for wrong, sentence in _claims(shape) if wrong), None)


def _claims(shape: Shape) -> tuple[tuple[bool, str], ...]:
    tensor, data = shape.tensor_parallel, shape.data_parallel
    shared = max(shape.decode_context_parallel, shape.prefill_context_parallel) > 1
    return (
        (
            min(tensor, data) > 1,
            (
                f"attention of TensorRT-LLM is whole on each GPU or cut over all, not TP {tensor} x DP {data}; "
                "allowed: TP 1 or DP 1"
            ),
        ),
        (shared, "Weft shares no contexts or prompts between GPUs of TensorRT-LLM; allowed: DCP 1 and PCP 1"),
    )
