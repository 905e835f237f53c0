"""How close an engine comes to an accelerator's data sheet: coefficients that formulas take and never hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Coefficients of one (accelerator, engine, precision), explained in `engines.yaml`.

    `compute`, `memory`, `attention`, `collective_bandwidth` and `exchange_bandwidth` are fractions of peak;
    `memory_fraction` is the part of device memory that the engine may use; `reserve_bytes` of it never holds weights or
    KV.
    """

    compute: float
    memory: float
    attention: float
    layer_seconds: float
    moe_layer_seconds: float
    step_seconds: float
    sequence_seconds: float
    request_seconds: float
    collective_seconds: float
    collective_bandwidth: float
    exchange_seconds: float
    exchange_bandwidth: float
    reserve_bytes: float
    memory_fraction: float
    batched_tokens: int
    sequences: int
