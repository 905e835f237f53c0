"""How far predictions are off: factors around a prediction between which four of five measurements lie."""

from __future__ import annotations

from dataclasses import dataclass

_WIDER_WHEN_NEVER_MEASURED = 1.5  # as an exponent: a factor of 1.3 becomes 1.48


@dataclass(frozen=True, slots=True)
class Spread:
    """A factor of 1.3: from the prediction divided by 1.3 to the prediction times 1.3."""

    ttft: float
    tpot: float
    output_rate: float


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Spreads of dense models and of those with experts, and the measured (generation, engine, precision)."""

    dense: Spread
    experts: Spread
    measured: frozenset[tuple[str, ...]]

    def spread(self, *, has_experts: bool, is_measured: bool) -> Spread:
        """The spread of a model in a combination."""
        known = self.experts if has_experts else self.dense
        if is_measured:
            return known
        wider = _WIDER_WHEN_NEVER_MEASURED
        return Spread(known.ttft**wider, known.tpot**wider, known.output_rate**wider)
