"""How far predictions are off: factors around a prediction between which near four of five measurements lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.model import Architecture

_WIDER_WHEN_NEVER_MEASURED = 1.5  # as an exponent: a factor of 1.3 becomes 1.48


@dataclass(frozen=True, slots=True)
class Spread:
    """From a prediction divided by `*_below` to the prediction times the other: 1.3 is 30 % above it at most."""

    ttft: float
    tpot: float
    output_rate: float
    ttft_below: float
    tpot_below: float
    output_rate_below: float


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Spreads by kind of model (`dense`, `experts`), those of an engine as `VLLM dense` where enough rows tell.

    `seen` are of architectures that were measured in a combination of (generation, engine, precision), `unseen` of
    those that were not. `measured` are the combinations, each with the ids of the architectures.
    """

    seen: dict[str, Spread]
    unseen: dict[str, Spread]
    measured: dict[tuple[str, ...], frozenset[str]]

    def spread(self, architecture: Architecture, combination: tuple[str, ...]) -> Spread:
        """The spread of a model in a combination: the narrowest where this very model was measured in it."""
        known = self.measured.get(combination)
        if known is None:
            return wider(self.when(architecture, combination, seen=False))
        return self.when(architecture, combination, seen=architecture.model_id in known)

    def when(self, architecture: Architecture, combination: tuple[str, ...], *, seen: bool) -> Spread:
        """The spread of a measured combination, with or without measurements of this very model."""
        spreads = self.seen if seen else self.unseen
        kind = "dense" if architecture.experts is None else "experts"
        return spreads.get(f"{combination[1]} {kind}") or spreads[kind]


def wider(known: Spread) -> Spread:
    """Where nobody measured the combination."""
    power = _WIDER_WHEN_NEVER_MEASURED
    return Spread(
        ttft=known.ttft**power,
        tpot=known.tpot**power,
        output_rate=known.output_rate**power,
        ttft_below=known.ttft_below**power,
        tpot_below=known.tpot_below**power,
        output_rate_below=known.output_rate_below**power,
    )
