"""The precision in which a checkpoint's weights are stored, from `quantization_config` and `torch_dtype`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.hardware import Precision

if TYPE_CHECKING:
    from weft.catalog.fields import Fields

_DTYPES = {"bfloat16": Precision.BF16, "float16": Precision.BF16, "float32": Precision.FP32}
_METHODS = {"fp8": Precision.FP8, "fbgemm_fp8": Precision.FP8, "mxfp4": Precision.MXFP4}
# By `quant_algo`; W4A16 has 16-bit activations, and the same weights.
_MODELOPT = {
    "FP8": Precision.FP8,
    "FP8_PER_CHANNEL_PER_TOKEN": Precision.FP8,
    "FP8_PB_WO": Precision.FP8,
    "NVFP4": Precision.NVFP4,
    "W4A16_NVFP4": Precision.NVFP4,
}
# By the type of the weights.
_QUARK = {"fp8_e4m3": Precision.FP8, "fp4": Precision.MXFP4, "int8": Precision.INT8, "int4": Precision.INT4}
_BY_LAYER = "MIXED_PRECISION"
_SIDES = 2  # outputs and inputs of a block
_PACKED = {4: Precision.INT4, 8: Precision.INT8}
# AutoRound, by how `data_type` begins (as in fp8_e4m3), and by bits.
_AUTO_ROUND = {
    "int": _PACKED,
    "mx_fp": {4: Precision.MXFP4},
    "nv_fp": {4: Precision.NVFP4},
    "fp": {8: Precision.FP8},
}
# By format, type and bits of the weights. INT4 has a scale per group of 32 or more.
_COMPRESSED = {
    ("float-quantized", "float", 8): Precision.FP8,
    ("naive-quantized", "float", 8): Precision.FP8,
    ("nvfp4-pack-quantized", "float", 4): Precision.NVFP4,
    ("mxfp4-pack-quantized", "float", 4): Precision.MXFP4,
    ("int-quantized", "int", 8): Precision.INT8,
    ("naive-quantized", "int", 8): Precision.INT8,
    ("pack-quantized", "int", 8): Precision.INT8,
    ("pack-quantized", "int", 4): Precision.INT4,
}


def checkpoint_precision(outer: Fields, inner: Fields) -> Precision:
    """Precision of the published weights; raises `Invalid` naming the method if it is not understood.

    `outer` is the whole config, `inner` its language model if that is nested. 16-bit floats count as one precision.
    Where `hf_quant_config.json` was merged into it, that tells.
    """
    quantized = _quantization(outer, inner)
    if quantized is not None:
        return _quantized(quantized)
    beside = outer.inner("quantization")
    if beside is not None and beside.raw("quant_algo") is not None:  # of ModelOpt's hf_quant_config.json
        return _modelopt(beside)
    named = [fields.text(name) for fields in (inner, outer) for name in ("torch_dtype", "dtype")]
    stated = next((text for text in named if text), None)
    if stated is None:
        outer.refuse(f"torch_dtype (or dtype) is missing: one of {', '.join(_DTYPES)} is needed")
    if stated not in _DTYPES:
        outer.refuse(f"torch_dtype {stated!r:.60} is not understood; understood are {', '.join(_DTYPES)}")
    return _DTYPES[stated]


def _quantization(outer: Fields, inner: Fields) -> Fields | None:
    return outer.inner("quantization_config") or inner.inner("quantization_config")


def weight_block(outer: Fields, inner: Fields) -> int | None:
    """Inputs per scale, if the published weights are 8-bit floats scaled in blocks; else None."""
    quantized = _quantization(outer, inner)
    sides = quantized.items("weight_block_size") if quantized is not None else None
    if quantized is None or sides is None:
        return None
    if len(sides) != _SIDES or not all(isinstance(side, int) and side > 0 for side in sides):
        quantized.refuse(f"quantization_config.weight_block_size must be two whole numbers above 0, not {sides!r:.60}")
    return int(sides[1])


def _quantized(fields: Fields) -> Precision:
    method = fields.text("quant_method")
    if method is None:
        fields.refuse("quantization_config.quant_method is missing")
    precision = _stored(fields, method)
    if precision is None:
        fields.refuse(f"quantization_config with quant_method {method!r:.60} is not understood as it stands")
    return precision


def _stored(fields: Fields, method: str) -> Precision | None:
    if method == "modelopt":
        return _modelopt(fields)
    if method == "compressed-tensors":
        return _compressed(fields)
    if method == "quark":
        return _quark(fields)
    if method == "auto-round":
        return _auto_round(fields)
    if method in {"gptq", "awq"}:
        return _PACKED.get(fields.size("bits"))
    # A `quant_algo` beside another method than its own means that some layers are stored in another way.
    return _METHODS.get(method) if fields.raw("quant_algo") is None else None


def _modelopt(fields: Fields) -> Precision:
    algorithm = fields.text("quant_algo") or ""
    if algorithm == _BY_LAYER:
        return _of_most_weights(fields)
    if algorithm not in _MODELOPT:
        fields.refuse(f"quantization_config.quant_algo {algorithm!r:.60} is not understood")
    return _MODELOPT[algorithm]


def _quark(fields: Fields) -> Precision | None:
    """AMD's tool; layers that are stored in another way, as attention may be, are few against those that are not."""
    everywhere = fields.inner("global_quant_config")
    weights = everywhere.inner("weight") if everywhere is not None else None
    return _QUARK.get(weights.text("dtype") or "") if weights is not None else None


def _auto_round(fields: Fields) -> Precision | None:
    """Intel's tool, which packs whole numbers unless `data_type` says that they are floats of one kind or another."""
    kind, bits = fields.text("data_type") or "int", fields.size("bits")
    return next((by_bits.get(bits) for name, by_bits in _AUTO_ROUND.items() if kind.startswith(name)), None)


def _of_most_weights(fields: Fields) -> Precision:
    """The algorithm of most weights in a table of layers: of routed experts, else of feed-forward blocks."""
    table = fields.inner("quantized_layers")
    if table is None:
        fields.refuse(f"quantization_config.quantized_layers is missing, which quant_algo {_BY_LAYER} needs")
    experts = [name for name in table.values if "experts" in name and "shared" not in name]
    named = experts or [name for name in table.values if ".mlp." in name]
    found = {_algorithm(table, name) for name in named}
    if len(found) != 1 or not found <= set(_MODELOPT):
        mixed = ", ".join(sorted(found)) or "nothing"
        fields.refuse(f"quantized_layers stores feed-forward blocks as {mixed:.60}; one known algorithm is understood")
    return _MODELOPT[found.pop()]


def _algorithm(table: Fields, name: str) -> str:
    layer = table.inner(name)
    return (layer.text("quant_algo") if layer is not None else None) or "unknown"


def _compressed(fields: Fields) -> Precision | None:
    """The precision of a compressed checkpoint; None unless all groups store weights alike."""
    groups = fields.inner("config_groups")
    stored_as = fields.text("format")
    found = {_group(groups, name, stored_as) for name in groups.values} if groups is not None else set()
    return found.pop() if len(found) == 1 else None


def _group(groups: Fields, name: str, stored_as: str | None) -> Precision | None:
    """The precision of one group, which may state a format of its own."""
    group = groups.inner(name)
    weights = group.inner("weights") if group is not None else None
    if group is None or weights is None:
        return None
    packing = group.text("format") or stored_as or ""
    return _COMPRESSED.get((packing, weights.text("type") or "", weights.size("num_bits")))
