"""How far predictions are off: factors around a prediction that contain about four of five measurements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.catalog.limits import numbers
from weft.catalog.performance import MONTH

if TYPE_CHECKING:
    from weft.domain.model import Architecture

_WIDER_WHEN_NEVER_MEASURED = 1.5  # as an exponent: a factor of 1.3 becomes 1.48
CROWDED = 6.0  # times a lone user's TTFT: beyond it prompts mostly wait for each other
# Spreads are those of closed loops, and no coefficient is fitted to requests that arrive all at once: of 184 such
# rows on NVIDIA they contain 42 %, and squared 78 %; of 116 that no fit has seen (TensorRT-LLM's overview) 59 and 84 %.
OFFLINE = 2.0  # as an exponent


@dataclass(frozen=True, slots=True)
class Spread:
    """From the prediction divided by `*_below` to the prediction times the other factor: 1.3 is at most 30 % above it.

    `crowded_ttft` applies to TTFTs of at least `CROWDED` times a lone user's, which closed loops of hundreds of users
    show and plans for an SLO do not.
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
    """The newest measured release of an engine, and the month (`YYYY-MM`) of its newest measurement.

    `named` are measured releases that have a name in place of a number.
    """

    version: str
    month: str
    named: frozenset[str] = frozenset()

    def is_before(self, release: str) -> bool:
        """Whether `release` (a version or a month) is newer; one that cannot be parsed is, unless rows name it."""
        if MONTH.match(release):
            return release > self.month
        version, known = numbers(release), numbers(self.version)
        if version is None or known is None:
            return release not in self.named
        return version > known


@dataclass(frozen=True, slots=True)
class Faster:
    """How much faster than predicted unmeasured releases may be: divisors of latencies, a factor of the rate."""

    ttft: float
    tpot: float
    output_rate: float


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Spreads by kind of model (`dense`, `experts`), or by engine as `VLLM dense` if enough rows tell.

    `seen` is for architectures measured in a combination of (generation, engine, precision), `unseen` for others.
    `measured` has the ids of the architectures by combination. `newest` is by engine: later releases may be
    `faster`.
    """

    seen: dict[str, Spread]
    unseen: dict[str, Spread]
    measured: dict[tuple[str, ...], frozenset[str]]
    faster: Faster
    newest: dict[str, Newest]

    def spread(
        self, architecture: Architecture, combination: tuple[str, ...], release: str, power: float = 1.0
    ) -> Spread:
        """The spread of a model in a combination: the narrowest if this very model was measured in it.

        Its fast ends reach further for a release (a version or a month) of the engine that is newer than all rows.
        `power` is an exponent of what is known, for measurements of another kind.
        """
        found = wider(self.of_measured_releases(architecture, combination), power)
        newest = self.newest.get(combination[1])
        return reaching(found, self.faster) if newest is None or newest.is_before(release) else found

    def of_measured_releases(self, architecture: Architecture, combination: tuple[str, ...]) -> Spread:
        """The spread for a release that is not newer than what was measured of its engine."""
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
    """Every factor to the power `power`: 1.5 makes 1.48 of 1.3."""
    return Spread(**{name: getattr(known, name) ** power for name in Spread.__slots__})


def reaching(known: Spread, faster: Faster) -> Spread:
    """The spread extended towards faster results; how slow they may be stays."""
    return replace(
        known,
        ttft_below=max(known.ttft_below, faster.ttft),
        crowded_ttft_below=max(known.crowded_ttft_below, faster.ttft),
        tpot_below=max(known.tpot_below, faster.tpot),
        output_rate=max(known.output_rate, faster.output_rate),
    )
