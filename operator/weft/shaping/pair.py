"""The shapes of both halves of a split, chosen together, so that they can always transfer KV to each other.

A pair uses one generation of GPUs, and TP sizes between which the connector can transfer. Within a generation
each half in turn is chosen freely and the other beside it; the cheapest pair that meets the SLO wins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Explanation, Reason
from weft.shaping.candidates import wished_engines
from weft.shaping.choice import answer
from weft.shaping.ranking import CHANGE_SAVES_AT_LEAST
from weft.shaping.refusals import OF_THE_ENGINE
from weft.shaping.request import Partner

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.catalog import Catalog
    from weft.domain.shape import EngineName, Plan
    from weft.domain.workload import Role
    from weft.shaping.choice import ShapeChoice
    from weft.shaping.request import ShapeRequest


@dataclass(frozen=True, slots=True)
class _Pair:
    """One way to run both halves."""

    prefill: ShapeChoice
    decode: ShapeChoice

    @property
    def rank(self) -> tuple[int, float, float, float, str]:
        """Sort key, smaller is better: halves that miss the SLO, the worst miss, the rate served, cost, names."""
        halves = (self.prefill, self.decode)
        missing = sum(not half.scored.meets_slo for half in halves)
        names = f"{self.prefill.plan.shape} {self.decode.plan.shape}"
        return missing, round(self.overshoot, 2), -round(self.served, 6), self.cost, names

    @property
    def overshoot(self) -> float:
        """The worst missed target of either half, as predicted over target; 1 where all are met."""
        missing = (half.scored for half in (self.prefill, self.decode) if not half.scored.meets_slo)
        return max((scored.overshoot for scored in missing), default=1.0)

    @property
    def served(self) -> float:
        """The fraction of the rate that the weaker half serves."""
        return min(self.prefill.scored.served, self.decode.scored.served)

    @property
    def serves_all(self) -> bool:
        """Whether both halves serve the whole rate."""
        return self.prefill.scored.serves_all and self.decode.scored.serves_all

    @property
    def cost(self) -> float:
        """Cost of all replicas of both halves."""
        return self.prefill.scored.cost + self.decode.scored.cost


@dataclass(frozen=True, slots=True)
class Unpaired:
    """Why two halves cannot be planned; `role` is the half concerned, None for both."""

    why: Explanation
    role: Role | None = None


def choose_pair(prefill: ShapeRequest, decode: ShapeRequest, catalog: Catalog) -> tuple[Plan, Plan] | Unpaired:
    """The plans of both halves, or why there are none. The same requests have the same answer."""
    ours, theirs = _generations(prefill, catalog), _generations(decode, catalog)
    common = sorted(ours & theirs)
    if not common:
        return _nothing_in_common(ours, theirs)
    engines = _engines(prefill, decode, catalog)
    tried = {
        generation: _of_all_engines(_tried(prefill, decode, Partner(generation, engine), catalog) for engine in engines)
        for generation in common
    }
    found = [pair for pairs, _ in tried.values() for pair in pairs]
    if not found:
        return _why_none({generation: problem for generation, (_, problem) in tried.items() if problem is not None})
    best = min(found, key=lambda pair: pair.rank)
    running = next((pair for pair in found if _runs(pair, prefill, decode)), None)
    chosen = running if running is not None and _stays(best, running) else best
    return chosen.prefill.plan, chosen.decode.plan


def _generations(request: ShapeRequest, catalog: Catalog) -> set[str]:
    names = {supply.accelerator for supply in request.supplies}
    return {catalog.accelerator(name).generation for name in names if request.spec.placement.allows(name)}


def _nothing_in_common(prefill: set[str], decode: set[str]) -> Unpaired:
    message = (
        f"prefill may use {_listed(prefill)} GPUs and decode {_listed(decode)} ones: engines on GPUs of different "
        "generations refuse each other's KV cache, so allow both halves one generation in spec.placement.accelerators"
    )
    return Unpaired(Explanation(Reason.PairIncompatible, message))


def _engines(prefill: ShapeRequest, decode: ShapeRequest, catalog: Catalog) -> tuple[EngineName, ...]:
    """Engines that both halves may run."""
    theirs = wished_engines(decode, catalog)
    return tuple(engine for engine in wished_engines(prefill, catalog) if engine in theirs)


def _of_all_engines(tried: Iterable[tuple[list[_Pair], Unpaired | None]]) -> tuple[list[_Pair], Unpaired | None]:
    """The pairs of all engines, and the first problem of any."""
    outcomes = list(tried)
    problem = next((problem for _, problem in outcomes if problem is not None), None)
    return [pair for pairs, _ in outcomes for pair in pairs], problem


def _tried(
    prefill: ShapeRequest, decode: ShapeRequest, terms: Partner, catalog: Catalog
) -> tuple[list[_Pair], Unpaired | None]:
    """The pairs on these terms, each half in turn chosen freely and the other beside it, and the first problem."""
    pairs: list[_Pair] = []
    problem: Unpaired | None = None
    for first, second in ((decode, prefill), (prefill, decode)):
        free = _beside(first, terms, catalog)
        if isinstance(free, Unpaired):
            problem = problem or free
            continue
        bound = _beside(second, replace(terms, shape=free.plan.shape), catalog)
        if isinstance(bound, Unpaired):
            problem = problem or bound
            continue
        pairs.append(_Pair(bound, free) if first is decode else _Pair(free, bound))
    return pairs, problem


def _beside(request: ShapeRequest, partner: Partner, catalog: Catalog) -> ShapeChoice | Unpaired:
    try:
        return answer(replace(request, partner=partner), catalog)
    except (Invalid, Blocked) as error:
        return Unpaired(Explanation(error.reason, error.message), request.spec.role)


def _why_none(problems: dict[str, Unpaired]) -> Unpaired:
    """One explanation for all generations tried, without those that the engine does not serve if there are others."""
    served = {name: each for name, each in problems.items() if each.why.reason not in OF_THE_ENGINE}
    told: dict[str, list[str]] = {}
    for generation, problem in (served or problems).items():
        told.setdefault(problem.why.message, []).append(generation)
    first = next(iter((served or problems).values()))
    if len(told) == 1:
        return first
    sentence = "; ".join(f"on {' and '.join(names)} GPUs {message}" for message, names in told.items())
    return Unpaired(Explanation(first.why.reason, sentence), first.role)


def _runs(pair: _Pair, prefill: ShapeRequest, decode: ShapeRequest) -> bool:
    running = (half.incumbent.shape if half.incumbent else None for half in (prefill, decode))
    return tuple(running) == (pair.prefill.plan.shape, pair.decode.plan.shape)


def _stays(best: _Pair, running: _Pair) -> bool:
    """Whether the running pair stays: unless the best one is at least 15 % better in the first criterion that differs.

    If the requests `stay`, only a pair that newly meets the SLO, or newly serves the whole rate, replaces it.
    """
    missing, overshoot, unserved, cost, _ = best.rank
    stays = running.prefill.scored.case.request.stays
    left = 0.0 if stays else 1.0 - CHANGE_SAVES_AT_LEAST
    if running.rank[0] != missing:
        return False
    if running.rank[1] != overshoot:
        return running.overshoot * left < best.overshoot
    if running.rank[2] != unserved:
        return best.served * left < running.served and not (stays and best.serves_all)
    return running.cost * left < cost


def _listed(names: set[str]) -> str:
    return " or ".join(sorted(names))
