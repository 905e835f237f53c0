"""Which precisions an engine makes of a checkpoint while it loads it."""

from __future__ import annotations

from weft.domain.hardware import Precision

QUANTIZED_ONLINE = {(Precision.BF16, Precision.FP8): "fp8"}  # (checkpoint, wanted): --quantization of vLLM and SGLang
FLOATS = (Precision.FP32, Precision.BF16)


def precision_conflict(stored: Precision, wanted: Precision) -> str | None:
    """Why a checkpoint cannot be turned into another precision while loading, or None."""
    same = wanted is stored or (wanted in FLOATS and stored in FLOATS)
    if same or (stored, wanted) in QUANTIZED_ONLINE:
        return None
    return (
        f"engines cannot turn a {stored.value} checkpoint into {wanted.value} while loading: "
        f"name a checkpoint that is stored as {wanted.value}"
    )
