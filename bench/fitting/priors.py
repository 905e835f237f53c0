"""What is fitted: few coefficients, each a base value and factors, pulled towards one where we believe in them little.

A coefficient's logarithm is its base plus one term per property. Terms are pulled towards zero (ridge, that is normal
priors with these deviations), so that a term only leaves it where many rows ask for it, and what nobody measured
inherits the base.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Prior:
    """Expected base value and its deviation (in the logarithm), and the deviation of the factors of each property.

    `assumed` are factors that are not fitted, for want of rows, but known from elsewhere. Values in `without`
    get no factor.
    """

    base: float
    deviation: float
    factors: dict[str, float] = field(default_factory=dict)
    assumed: dict[str, dict[str, float]] = field(default_factory=dict)
    without: tuple[str, ...] = ()


_SLIGHT, _SOME, _FAIR, _MUCH, _FREE = 0.03, 0.1, 0.2, 0.35, 0.7

# The best dense matmul measured, as a part of the data sheet (stas00/ml-engineering): H100 80 %, MI300X 51, MI355X 68.
_MATMULS = {"generation": {"CDNA3": 0.64, "CDNA4": 0.85}}
# No row is in BF16. Alone, matmuls in it come nearer to the data sheet than those in FP8, which rows have: 79 % (the
# mean of H100 and H200) beside 59 on Hopper, 67 beside 53 on Blackwell (medians of aiconfigurator 0.12.0's kernel
# tables, n and k of 4096 or more, m of 4096).
_DENSE = {**_MATMULS, "generation and precision": {"Hopper BF16": 1.34, "Blackwell BF16": 1.26}}
# The most of HBM bandwidth that was measured: 81 % on MI300X (Ambati et al. 2025), 90 % on NVIDIA.
_READS = {"generation": {"CDNA3": 0.9}}

# Base values: medians of kernel tables (`performance.md` names them): what GEMMs, attention and collectives reach
# alone.
PRIORS: dict[str, Prior] = {
    "weights": Prior(0.75, 0.3, {"generation and precision": _SLIGHT, "engine and precision": _SLIGHT}, _READS),
    "kv": Prior(0.6, 0.3, {"generation": _SLIGHT, "engine": _SLIGHT}, _READS),
    "matmul": Prior(0.5, 0.3, {"generation and precision": _SLIGHT, "engine": _SLIGHT}, _DENSE),
    "prefill": Prior(
        0.6, 0.2, {"generation and precision": _SLIGHT, "engine": _SLIGHT, "generation and engine": _SLIGHT}, _DENSE
    ),
    "prefill_experts": Prior(
        0.3, 0.3, {"generation and precision": _SLIGHT, "engine": _SLIGHT, "generation and engine": _FAIR}, _MATMULS
    ),
    "collective_us": Prior(8.0, 0.5, {"generation and engine": _SLIGHT}),
    "layer_us": Prior(45.0, 0.5, {"engine": _SLIGHT, "generation": _SLIGHT, "release": _SLIGHT}),
    "moe_layer_us": Prior(40.0, 0.5, {"engine": _SLIGHT, "generation and engine": _FAIR, "release": _SLIGHT}),
    "step_us": Prior(300.0, 0.5),
    "sequence_us": Prior(15.0, 0.5, {"engine": _SLIGHT}),
    # Servers are alike: HTTP, a tokeniser and a scheduler in Python. The base is that of present releases. A faster GPU
    # does not make SGLang's server slower, though the fit to its few rows would have it so.
    "request_ms": Prior(
        20.0,
        0.7,
        {"engine": _SOME, "generation and engine": _MUCH, "release": _FREE},
        without=(
            *("Blackwell SGLang", "Hopper SGLang"),
            *("SGLang present", "TensorRTLLM present", "VLLM present"),
        ),
    ),
    "prefill_layer_us": Prior(50.0, 1.0, {"engine": _SLIGHT}),
    # What differs is how kernels of a prompt with experts are launched, which graphs hold in few engines.
    "prefill_moe_layer_us": Prior(100.0, 1.0, {"engine": 1.0, "generation and engine": _FREE}),
    "at_once": Prior(0.07, 0.5, {"engine": _SOME}),
    "equal_at_once": Prior(0.7, 0.3),
}
