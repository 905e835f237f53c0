"""Which precisions an engine makes of a checkpoint while it loads it."""

from __future__ import annotations

from weft.domain.hardware import Precision
from weft.domain.shape import EngineName

QUANTIZED_ONLINE = {(Precision.BF16, Precision.FP8): "fp8"}  # (checkpoint, wanted): --quantization of vLLM and SGLang
_LOADS_AS_STORED = frozenset({EngineName.TensorRTLLM})
FLOATS = (Precision.FP32, Precision.BF16)


def precision_conflict(stored: Precision, wanted: Precision, engine: EngineName) -> str | None:
    """Why an engine cannot turn a checkpoint into another precision while loading, or None."""
    same = wanted is stored or (wanted in FLOATS and stored in FLOATS)
    if same or ((stored, wanted) in QUANTIZED_ONLINE and engine not in _LOADS_AS_STORED):
        return None
    return (
        f"engines cannot turn a {stored.value} checkpoint into {wanted.value} while loading: "
        f"name a checkpoint that is stored as {wanted.value}"
    )
