"""How close an engine comes to an accelerator's data sheet: the coefficients of the performance model's formulas.

Few of them are measured for each combination of accelerator, engine and precision. So a coefficient is a base value
times a factor per property (the GPU generation, the engine, both with the precision, ...): a combination that was
never measured inherits the base and the factors of the properties that it shares with measured ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Coefficients of one (accelerator, engine, precision), explained in `engines.yaml` and `efficiency.yaml`.

    `weights`, `kv`, `matmul`, `prefill`, `prefill_experts`, `attention`, `collective_bandwidth`, `exchange_bandwidth`
    and that of prompts are fractions of peak; `memory_fraction` is the part of device memory that the engine may use
    (of what weights leave, if `fraction_of_free`); `reserve_bytes` of it never holds weights or KV. Of the rest KV gets
    no more than `kv_bytes` on each device, nor more tokens of a data-parallel rank than `kv_tokens`. `expert_skew`
    is the deviation of the loads of single experts, as a part of their mean. A prompt's step of more than
    `graph_tokens`, or `graph_sequences` times the tokens that all `sequences` decode in a step, takes
    `host_layer_seconds` a layer at least.
    """

    weights: float
    kv: float
    matmul: float
    prefill: float
    prefill_experts: float
    attention: float
    layer_seconds: float
    moe_layer_seconds: float
    step_seconds: float
    sequence_seconds: float
    request_seconds: float
    prefill_layer_seconds: float
    prefill_moe_layer_seconds: float
    host_layer_seconds: float
    at_once: float
    equal_at_once: float
    collective_seconds: float
    collective_bandwidth: float
    two_shot_seconds: float
    expert_skew: float
    exchange_seconds: float
    exchange_bandwidth: float
    prompt_exchange_bandwidth: float
    reserve_bytes: float
    memory_fraction: float
    fraction_of_free: bool
    batched_tokens: float
    sequences: float
    graph_tokens: float
    graph_sequences: float
    kv_bytes: float = math.inf
    kv_tokens: float = math.inf

    def at_tensor_rate(self, rate: float) -> Efficiency:
        """The coefficients on a part whose multiprocessors do `rate` of the tensor arithmetic of the measured ones.

        What keeps a kernel from its peak there (loads, scales, epilogues) takes as long here, and the arithmetic
        1 / `rate` times as long: see ADR 0111.
        """
        if rate == 1.0:
            return self
        return replace(
            self,
            matmul=_nearer(self.matmul, rate),
            prefill=_nearer(self.prefill, rate),
            prefill_experts=_nearer(self.prefill_experts, rate),
            attention=_nearer(self.attention, rate),
        )


def _nearer(fraction: float, rate: float) -> float:
    """The fraction of peak FLOP/s at a rate, from that at rate 1."""
    beside = 1.0 / fraction - 1.0  # time that is not arithmetic, in times of the arithmetic
    return 1.0 / (1.0 + rate * beside)


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A base value and factors: {property: {its value: factor}}."""

    base: float
    factors: dict[str, dict[str, float]]

    def at(self, properties: dict[str, str]) -> float:
        """The value for a combination; a property that was never measured has factor 1."""
        value = self.base
        for name, known in self.factors.items():
            value *= known.get(properties[name], 1.0)
        return value


def properties(generation: str, engine: str, precision: str, *, early: bool) -> dict[str, str]:
    """The properties that factors may depend on. `early` releases precede the engine's present architecture."""
    return {
        "generation": generation,
        "engine": engine,
        "generation and precision": f"{generation} {precision}",
        "engine and precision": f"{engine} {precision}",
        "generation and engine": f"{generation} {engine}",
        "release": f"{engine} {'early' if early else 'present'}",
    }
