"""Which precisions an engine can make of a checkpoint while loading, and the flags of vLLM and SGLang for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName

if TYPE_CHECKING:
    from weft.engines.terms.launch import LaunchRequest

QUANTIZED_ONLINE = {(Precision.BF16, Precision.FP8): "fp8"}  # (checkpoint, wanted): --quantization of vLLM and SGLang
_LOADS_AS_STORED = frozenset({EngineName.TensorRTLLM})
FLOATS = (Precision.FP32, Precision.BF16)
_CAST = {Precision.FP32: "float32", Precision.BF16: "bfloat16"}


def precision_flags(request: LaunchRequest) -> tuple[str, ...]:
    """Flags for the wanted precision; empty if the checkpoint has it already or is unknown; FP32 is always named.

    Raises `Invalid` (PrecisionUnsupported) if another checkpoint is needed.
    """
    wanted, stored = request.plan.shape.precision, request.checkpoint
    if wanted is Precision.FP32:
        return ("--dtype", _CAST[wanted])
    if stored is None or wanted is stored:
        return ()
    if wanted in FLOATS and stored in FLOATS:
        return ("--dtype", _CAST[wanted])
    conflict = precision_conflict(stored, wanted, request.plan.shape.engine)
    if conflict is not None:
        raise Invalid(Reason.PrecisionUnsupported, conflict)
    return ("--quantization", QUANTIZED_ONLINE[stored, wanted])


def precision_conflict(stored: Precision, wanted: Precision, engine: EngineName) -> str | None:
    """Why an engine cannot turn a checkpoint into another precision while loading, or None."""
    same = wanted is stored or (wanted in FLOATS and stored in FLOATS)
    if same or ((stored, wanted) in QUANTIZED_ONLINE and engine not in _LOADS_AS_STORED):
        return None
    return (
        f"engines cannot turn a {stored.value} checkpoint into {wanted.value} while loading: "
        f"name a checkpoint that is stored as {wanted.value}"
    )
