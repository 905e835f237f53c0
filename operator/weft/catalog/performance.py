"""What is known of an engine's speed: the precisions it serves, its limits, and how its coefficients are composed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog.efficiency import Efficiency, properties
from weft.catalog.limits import numbers
from weft.domain.texts.units import GIB

if TYPE_CHECKING:
    from weft.catalog.efficiency import Coefficient
    from weft.domain.hardware import Precision
    from weft.domain.shape import EngineName

_MICRO, _MILLI = 1e-6, 1e-3
_SHARPNESS = 12.0
MONTH = re.compile(r"^20\d\d-\d\d$")


@dataclass(frozen=True, slots=True)
class CapturedGraphs:
    """`tokens` of the largest step that releases from version `since` on, or measured after month `until`, capture."""

    tokens: float
    since: str
    until: str


@dataclass(frozen=True, slots=True)
class EnginePerformance:
    """One engine. `serves` lists precisions by GPU generation; `engines.yaml` explains `constants` and `assumed`.

    Releases below version `early_before`, or measured in a month up to `early_until`, have factors of their own.
    `graphs` are those of GPU generations that have others than `constants` say, from some release on, and
    `graphs_of_families` tokens of the largest step with a graph of families of models that have others on every GPU.
    """

    serves: dict[str, tuple[Precision, ...]]
    early_before: str
    early_until: str
    constants: dict[str, float]
    assumed: dict[str, dict[str, float]]
    graphs: dict[str, CapturedGraphs]
    graphs_of_families: dict[str, float]
    memory_fraction: float
    fraction_of_free: bool

    def is_early(self, release: str | None) -> bool:
        """Whether a version, or a month of measurement, is early. What cannot be parsed counts as the present."""
        return _precedes(release, self.early_before, self.early_until)

    def efficiency(
        self,
        coefficients: dict[str, Coefficient],
        generation: str,
        engine: EngineName,
        precision: Precision,
        release: str | None,
    ) -> Efficiency:
        """The fitted coefficients, those assumed for this generation, and the engine's constants."""
        about = properties(generation, engine.value, precision.value, early=self.is_early(release))
        values = {name: coefficient.at(about) for name, coefficient in coefficients.items()}
        return self.resolved(values | self.constants_of(generation, release) | self.assumed.get(generation, {}))

    def constants_of(self, generation: str, release: str | None) -> dict[str, float]:
        """What is not fitted. Of early releases, launches by the host are in what their rows say of a request."""
        found, graphs = dict(self.constants), self.graphs.get(generation)
        if graphs is not None and not _precedes(release, graphs.since, graphs.until):
            found["graph_tokens"] = graphs.tokens
        if self.is_early(release):
            found["host_layer_us"] = 0.0
        return found

    def resolved(self, values: dict[str, float]) -> Efficiency:
        """Values by the names of the YAML files, in their units, as an `Efficiency`; no fraction is above 1."""
        return Efficiency(
            weights=_fraction(values["weights"]),
            kv=_fraction(values["kv"]),
            matmul=_fraction(values["matmul"]),
            prefill=_fraction(values["prefill"]),
            prefill_experts=_fraction(values["prefill_experts"]),
            attention=values["attention"],
            layer_seconds=values["layer_us"] * _MICRO,
            moe_layer_seconds=values["moe_layer_us"] * _MICRO,
            step_seconds=values["step_us"] * _MICRO,
            sequence_seconds=values["sequence_us"] * _MICRO,
            request_seconds=values["request_ms"] * _MILLI,
            prefill_layer_seconds=values["prefill_layer_us"] * _MICRO,
            prefill_moe_layer_seconds=values["prefill_moe_layer_us"] * _MICRO,
            host_layer_seconds=values["host_layer_us"] * _MICRO,
            at_once=values["at_once"],
            equal_at_once=values["equal_at_once"],
            collective_seconds=values["collective_us"] * _MICRO,
            collective_bandwidth=values["collective_bandwidth"],
            two_shot_seconds=values["two_shot_us"] * _MICRO,
            expert_skew=values["expert_skew"],
            exchange_seconds=values["exchange_us"] * _MICRO,
            exchange_bandwidth=values["exchange_bandwidth"],
            prompt_exchange_bandwidth=values["exchange_bandwidth"],
            reserve_bytes=values["reserve_gib"] * GIB,
            memory_fraction=self.memory_fraction,
            fraction_of_free=self.fraction_of_free,
            batched_tokens=values["batched_tokens"],
            sequences=values["sequences"],
            graph_tokens=values["graph_tokens"],
            graph_sequences=values["graph_sequences"],
        )


def _precedes(release: str | None, version: str, month: str) -> bool:
    """Whether a version is below another, or a month of measurement not after another. The present precedes nothing."""
    if release is None:
        return False
    if MONTH.match(release):
        return release <= month
    found, limit = numbers(release), numbers(version)
    return found is not None and limit is not None and found < limit


def _fraction(value: float) -> float:
    """The fraction, smoothly limited to 1, by arithmetic alone (to work on many rows at once)."""
    limited: float = value / (1.0 + value**_SHARPNESS) ** (1.0 / _SHARPNESS)
    return limited
