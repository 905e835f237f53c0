"""How the weights of a checkpoint are stored, from `quantization_config` and `torch_dtype`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.hardware import Precision

if TYPE_CHECKING:
    from weft.catalog.fields import Fields

_DTYPES = {"bfloat16": Precision.BF16, "float16": Precision.BF16, "float32": Precision.FP32}
_METHODS = {"fp8": Precision.FP8, "fbgemm_fp8": Precision.FP8, "mxfp4": Precision.MXFP4}
_MODELOPT = {"FP8": Precision.FP8, "NVFP4": Precision.NVFP4}
_PACKED = {4: Precision.INT4, 8: Precision.INT8}
_COMPRESSED = {
    ("float", 8): Precision.FP8,
    ("float", 4): Precision.NVFP4,
    ("int", 8): Precision.INT8,
    ("int", 4): Precision.INT4,
}


def checkpoint_precision(outer: Fields, inner: Fields) -> Precision:
    """Precision of the published weights; raises `Invalid` naming the method that is not understood.

    `outer` is the whole config, `inner` its language model where that is nested. 16-bit floats are one precision here.
    """
    quantized = outer.inner("quantization_config") or inner.inner("quantization_config")
    if quantized is not None:
        return _quantized(quantized)
    named = [fields.text(name) for fields in (inner, outer) for name in ("torch_dtype", "dtype")]
    stated = next((text for text in named if text), None)
    if stated is None:
        outer.refuse("torch_dtype (or dtype) is missing")
    if stated not in _DTYPES:
        outer.refuse(f"torch_dtype {stated!r:.60} is not understood")
    return _DTYPES[stated]


def _quantized(fields: Fields) -> Precision:
    method = fields.text("quant_method")
    if method is None:
        fields.refuse("quantization_config.quant_method is missing")
    if method in _METHODS:
        return _METHODS[method]
    precision: Precision | None = None
    if method in {"gptq", "awq"}:
        precision = _PACKED.get(fields.size("bits"))
    elif method == "modelopt":
        precision = _MODELOPT.get(fields.text("quant_algo") or "")
    elif method == "compressed-tensors":
        precision = _compressed(fields)
    if precision is None:
        fields.refuse(f"quantization_config with quant_method {method!r:.60} is not understood as it stands")
    return precision


def _compressed(fields: Fields) -> Precision | None:
    """All groups must store weights alike."""
    groups = fields.inner("config_groups")
    found = {_group(groups, name) for name in groups.values} if groups is not None else set()
    return found.pop() if len(found) == 1 else None


def _group(groups: Fields, name: str) -> Precision | None:
    group = groups.inner(name)
    weights = group.inner("weights") if group is not None else None
    if weights is None:
        return None
    return _COMPRESSED.get((weights.text("type") or "", weights.size("num_bits")))
