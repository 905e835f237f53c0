"""How far predictions are off: factors around a prediction between which near four of five measurements lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.catalog.limits import numbers
from weft.catalog.performance import MONTH

if TYPE_CHECKING:
    from weft.domain.model import Architecture

_WIDER_WHEN_NEVER_MEASURED = 1.5  # as an exponent: a factor of 1.3 becomes 1.48
CROWDED = 6.0  # times what a lone user waits for a first token: beyond it prompts wait for each other above all
# Spreads are those of closed loops, and no coefficient is fitted to what comes of all requests at once: of 184 such
# rows on NVIDIA they hold 42 %, and squared 78 %; of 116 that no fit has seen (TensorRT-LLM's overview) 59 and 84 %.
OFFLINE = 2.0  # as an exponent


@dataclass(frozen=True, slots=True)
class Spread:
    """From a prediction divided by `*_below` to the prediction times the other: 1.3 is 30 % above it at most.

    `crowded_ttft` is that of first tokens that take `CROWDED` times as long as a lone user's, which closed loops of
    hundreds of users show and what is planned for a target does not.
    """

    ttft: float
    tpot: float
    output_rate: float
    ttft_below: float
    tpot_below: float
    output_rate_below: float
    crowded_ttft: float
    crowded_ttft_below: float


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest release of an engine that was measured, and the month (`YYYY-MM`) of its newest measurement.

    `named` are measured releases that have a name in place of a number.
    """

    version: str
    month: str
    named: frozenset[str] = frozenset()

    def is_before(self, release: str) -> bool:
        """Whether a version, or a month of measurement, is newer. Else it is a recent build, unless rows name it."""
        if MONTH.match(release):
            return release > self.month
        version, known = numbers(release), numbers(self.version)
        if version is None or known is None:
            return release not in self.named
        return version > known


@dataclass(frozen=True, slots=True)
class Faster:
    """How far releases that no row is of may run ahead of predictions: divisors of latencies, a factor of the rate."""

    ttft: float
    tpot: float
    output_rate: float


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Spreads by kind of model (`dense`, `experts`), those of an engine as `VLLM dense` where enough rows tell.

    `seen` are of architectures that were measured in a combination of (generation, engine, precision), `unseen` of
    those that were not. `measured` are the combinations, each with the ids of the architectures. `newest` are by
    engine: releases after them may be `faster`.
    """

    seen: dict[str, Spread]
    unseen: dict[str, Spread]
    measured: dict[tuple[str, ...], frozenset[str]]
    faster: Faster
    newest: dict[str, Newest]

    def spread(
        self, architecture: Architecture, combination: tuple[str, ...], release: str, power: float = 1.0
    ) -> Spread:
        """The spread of a model in a combination: the narrowest where this very model was measured in it.

        Its fast ends reach further for a release (a version or a month) of the engine that is newer than all rows.
        `power` is an exponent of what is known, for measurements of another kind.
        """
        found = wider(self.of_measured_releases(architecture, combination), power)
        newest = self.newest.get(combination[1])
        return reaching(found, self.faster) if newest is None or newest.is_before(release) else found

    def of_measured_releases(self, architecture: Architecture, combination: tuple[str, ...]) -> Spread:
        """The spread of a release that is not newer than what was measured of its engine."""
        known = self.measured.get(combination)
        if known is None:
            return wider(self.when(architecture, combination, seen=False), _WIDER_WHEN_NEVER_MEASURED)
        return self.when(architecture, combination, seen=architecture.model_id in known)

    def when(self, architecture: Architecture, combination: tuple[str, ...], *, seen: bool) -> Spread:
        """The spread of a measured combination, with or without measurements of this very model."""
        spreads = self.seen if seen else self.unseen
        kind = "dense" if architecture.experts is None else "experts"
        return spreads.get(f"{combination[1]} {kind}") or spreads[kind]


def wider(known: Spread, power: float) -> Spread:
    """Every factor to a power: 1.5 makes 1.48 of 1.3."""
    return Spread(**{name: getattr(known, name) ** power for name in Spread.__slots__})


def reaching(known: Spread, faster: Faster) -> Spread:
    """At least as far towards fast: how slow something may be at most is left as it is."""
    return replace(
        known,
        ttft_below=max(known.ttft_below, faster.ttft),
        crowded_ttft_below=max(known.crowded_ttft_below, faster.ttft),
        tpot_below=max(known.tpot_below, faster.tpot),
        output_rate=max(known.output_rate, faster.output_rate),
    )
