"""The load at which replicas were seen to meet their targets: no prediction counts on them for less.

Where a target is close to what an idle replica does, a prediction that is a tenth too long is a factor in the rate, and
may leave nothing of it. What replicas did is known meanwhile. So measurements at about one load are collected until
they are enough to tell a target that is met from chance: from then on that load is proven, for as many replicas, the
lengths and the targets that it was seen with. It counts until the same load is seen to miss a target, and then a tenth
less of it does, until that is.

Fewer replicas share a queue less well: each of fewer counts for less by the square root, and one alone for what is
predicted. Longer requests count for less by as much as they are longer, and far longer ones for what is predicted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

from weft.domain.calibration import ProvenLoad
from weft.domain.pool_memory import LoadEvidence
from weft.domain.workload import Role
from weft.scaling.calibrating.tails import NEARLY_ALL, shares_below

if TYPE_CHECKING:
    from weft.domain.calibration import CalibrationSubject
    from weft.domain.capacity import Capacity
    from weft.domain.pool_memory import CalibrationMemory
    from weft.domain.snapshot import Buckets, PoolObservation
    from weft.domain.workload import Slo, Workload

Targets = tuple[tuple[int, float], ...]

LOOK_SECONDS = 60.0  # the shortest time that rates and histograms of one look cover
LATE_REQUESTS = 10.0  # as many are late where a target is just met: fewer requests prove nothing
MOST_OF_ENOUGH = 3.0  # times as many as are enough: what is older counts ever less
SAME_LOAD = 1.25  # a load that differs by less is the same
SAME_RATE = 1.05  # a proven rate stays until another one differs by more
LESS_AFTER_A_MISS = 0.9
_NORMAL = NormalDist()
MOST_LONGER = 1.25  # times the lengths that a load was proven with


@dataclass(frozen=True, slots=True)
class Tried:
    """What a measurement is of: so many replicas, the workload in force, and the targets, in seconds and as `words`.

    The seconds are as the engines' own histograms count them.
    """

    replicas: int
    workload: Workload
    ttft: Targets
    tpot: Targets
    words: str

    @property
    def parts(self) -> tuple[float, ...]:
        """The share of requests that has to be in time by each target."""
        return tuple([percentile / 100.0 for percentile, _ in (*self.ttft, *self.tpot)])

    @property
    def enough(self) -> float:
        """Requests that it takes to tell a target that is met from chance."""
        return max((LATE_REQUESTS / (1.0 - part) for part in self.parts), default=0.0)


def with_evidence(memory: CalibrationMemory, seen: PoolObservation, tried: Tried) -> CalibrationMemory:
    """The memory with one measurement added, and what that proves or refutes.

    Nothing is concluded where some target is not measured, or not resolved by the buckets.
    """
    if memory.proven is not None and memory.proven.targets != tried.words:
        memory = replace(memory, evidence=None, proven=None)
    rate, shares = seen.requests_per_second, _shares_in_time(seen, tried)
    if not shares or not rate or tried.replicas <= 0 or min(_prompt(tried.workload), tried.workload.output_tokens) <= 0:
        return replace(memory, evidence=None)
    workload = tried.workload
    load = (tried.replicas, rate / tried.replicas, rate * LOOK_SECONDS)
    latest = LoadEvidence(*load, shares, _prompt(workload), workload.output_tokens)
    evidence = _together(memory.evidence, latest, tried.enough)
    memory = replace(memory, evidence=evidence)
    return memory if evidence.requests < tried.enough else _judged(memory, evidence, tried)


def targets_in_words(role: Role, slo: Slo) -> str:
    """The targets that count in a role, such as `TTFT p95 1.5 s`; empty without any."""
    known = (
        ("TTFT", slo.ttft if role is not Role.Decode else ()),
        ("TPOT", slo.tpot if role is not Role.Prefill else ()),
    )
    return ", ".join(f"{name} p{percentile} {seconds:g} s" for name, each in known for percentile, seconds in each)


def holds(
    proven: ProvenLoad | None, subject: CalibrationSubject, targets: str, workload: Workload
) -> ProvenLoad | None:
    """What is proven of this subject within these targets, with requests of these lengths; None where nothing is."""
    if proven is None or (proven.subject, proven.targets) != (subject.words, targets):
        return None
    return at_these_lengths(proven, workload)


def at_these_lengths(proven: ProvenLoad, workload: Workload) -> ProvenLoad | None:
    """The load with requests of other lengths; None where they are far longer."""
    longer = max(_prompt(workload) / proven.input_tokens, workload.output_tokens / proven.output_tokens, 1.0)
    return None if longer > MOST_LONGER else replace(proven, rate=proven.rate / longer)


def rate_of_each(proven: ProvenLoad, replicas: int) -> float:
    """Requests a second that each of so many replicas is proven to serve; 0 for none."""
    if replicas >= proven.replicas:
        return proven.rate
    return proven.rate * math.sqrt(replicas / proven.replicas) if replicas > 1 else 0.0


def at_least_as_proven(capacity: Capacity, proven: ProvenLoad | None) -> Capacity:
    """The capacity where no number of replicas counts for less than is proven."""
    if proven is None or capacity.alone <= 0.0 or capacity.each(proven.replicas) >= proven.rate:
        return capacity
    return capacity.at_least(tuple([rate_of_each(proven, count) for count in range(1, proven.replicas + 1)]))


def _prompt(workload: Workload) -> float:
    """Mean tokens of a prompt that are computed."""
    return workload.input_tokens * (1.0 - workload.prefix_hit)


def _shares_in_time(seen: PoolObservation, tried: Tried) -> tuple[float, ...]:
    """The share of requests within each target; empty where one is not known."""
    shares: list[float] = []
    for each, buckets in ((tried.ttft, seen.ttft_buckets), (tried.tpot, seen.tpot_buckets)):
        for _, seconds in each:
            share = _share_within(buckets, seconds, certain=tried.workload.rare_prompts is not None)
            if share is None:
                return ()
            shares.append(share)
    return tuple(shares)


def _share_within(buckets: Buckets, seconds: float, *, certain: bool) -> float | None:
    """The share of latencies of at most so many seconds: log-normal between the edges around them.

    Of a few far longer prompts a bucket may hold all: if only what is `certain` counts, all in this one are late.
    """
    edges = [(0.0, 0.0), *shares_below(buckets)]
    beyond = next((place for place, (bound, _) in enumerate(edges) if bound >= seconds), len(edges))
    if len(edges) == 1 or beyond <= 1:
        return None
    if beyond == len(edges):
        return edges[-1][1]
    (lower, below), (upper, reached) = edges[beyond - 1], edges[beyond]
    if seconds == upper:
        return reached
    if certain or below >= NEARLY_ALL:
        return below
    low, high = (_NORMAL.inv_cdf(min(NEARLY_ALL, max(1.0 - NEARLY_ALL, share))) for share in (below, reached))
    part = math.log(seconds / lower) / math.log(upper / lower)
    return max(below, _NORMAL.cdf(low + (high - low) * part))


def _together(before: LoadEvidence | None, latest: LoadEvidence, enough: float) -> LoadEvidence:
    """Both measurements as one, if they are of one load, so many replicas and the same requests; else the latest."""
    if before is None or not _is_the_same(before, latest):
        return latest
    kept = min(before.requests, MOST_OF_ENOUGH * enough)
    total = kept + latest.requests
    part = latest.requests / total
    shares = [old + (new - old) * part for old, new in zip(before.shares, latest.shares, strict=True)]
    return replace(latest, rate=before.rate + (latest.rate - before.rate) * part, requests=total, shares=tuple(shares))


def _is_the_same(before: LoadEvidence, latest: LoadEvidence) -> bool:
    one, other = ((each.replicas, len(each.shares), each.input_tokens, each.output_tokens) for each in (before, latest))
    return one == other and 1.0 / SAME_LOAD <= latest.rate / before.rate <= SAME_LOAD


def _judged(memory: CalibrationMemory, evidence: LoadEvidence, tried: Tried) -> CalibrationMemory:
    """The memory with a load proven, or refuted; as it is while chance explains what was seen."""
    by_chance = [math.sqrt(part * (1.0 - part) / evidence.requests) for part in tried.parts]
    above = [share - part for share, part in zip(evidence.shares, tried.parts, strict=True)]
    known = None if memory.proven is None else at_these_lengths(memory.proven, tried.workload)
    counted = 0.0 if known is None else rate_of_each(known, evidence.replicas)
    if all(more >= error for more, error in zip(above, by_chance, strict=True)):
        if evidence.rate <= counted * SAME_RATE:
            return memory
        seen = (_rounded(evidence.rate), evidence.replicas, evidence.input_tokens, evidence.output_tokens)
        return replace(memory, proven=ProvenLoad(memory.subject.words, tried.words, *seen))
    is_late = any(more < -error for more, error in zip(above, by_chance, strict=True))
    if memory.proven is None or not is_late or evidence.rate > counted * SAME_RATE:
        return memory
    less = memory.proven.rate * LESS_AFTER_A_MISS * min(1.0, evidence.rate / counted)
    return replace(memory, evidence=None, proven=replace(memory.proven, rate=_rounded(less)))


def _rounded(rate: float) -> float:
    return float(f"{rate:.3g}")
