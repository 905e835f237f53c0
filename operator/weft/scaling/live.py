"""Measured traffic in place of declared traffic, where there is enough of it."""

from __future__ import annotations

from dataclasses import replace
from math import floor, log, log10
from typing import TYPE_CHECKING

from weft.domain.status import Observed
from weft.scaling.attainment import attainment
from weft.scaling.reading import is_sane, what_is_missing

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation
    from weft.domain.workload import Slo, Workload

ENOUGH_REQUESTS_PER_SECOND = 0.1
# A token mean in force stays until the measured one is this factor away; then it is taken over, rounded.
NOTABLE_FACTOR = 1.2
NOTABLE_HIT = 0.1


def live_workload(declared: Workload, observation: PoolObservation | None, in_force: Workload | None) -> Workload:
    """The declared workload with token means and prefix hits as measured.

    `in_force` is the answer of the pass before: values move only when they have moved notably, and stay when traffic
    stops. The 95th percentiles keep their distance from the means.
    """
    base = in_force or declared
    if observation is None or not has_enough_traffic(observation):
        return base
    inputs = _moved(base.input_tokens, observation.input_tokens)
    outputs = _moved(base.output_tokens, observation.output_tokens)
    hit = base.prefix_hit
    if is_sane(observation.prefix_hit) and abs(min(observation.prefix_hit, 1.0) - hit) >= NOTABLE_HIT:
        hit = round(min(observation.prefix_hit, 0.95), 1)
    if (inputs, outputs, hit) == (base.input_tokens, base.output_tokens, base.prefix_hit):
        return base
    return replace(
        base,
        input_tokens=inputs,
        output_tokens=outputs,
        input_tokens_p95=base.input_tokens_p95 * (inputs / base.input_tokens if base.input_tokens else 1.0),
        output_tokens_p95=base.output_tokens_p95 * (outputs / base.output_tokens if base.output_tokens else 1.0),
        prefix_hit=hit,
    )


def has_enough_traffic(observation: PoolObservation) -> bool:
    """Whether means over the last window say something."""
    rate = observation.requests_per_second
    return what_is_missing(observation) is None and rate is not None and rate >= ENOUGH_REQUESTS_PER_SECOND


def replaced_values(declared: Workload, in_force: Workload, observation: PoolObservation | None) -> tuple[str, ...]:
    """Names of the workload values that decisions take from metrics: a rate that counts, and what differs in force."""
    names = (
        ("requestsPerSecond", what_is_missing(observation) is None),
        ("inputTokens", in_force.input_tokens != declared.input_tokens),
        ("outputTokens", in_force.output_tokens != declared.output_tokens),
        ("prefixHitPercent", in_force.prefix_hit != declared.prefix_hit),
    )
    return tuple(name for name, replaced in names if replaced)


def live_figures(observation: PoolObservation | None, slo: Slo, live: tuple[str, ...]) -> Observed | None:
    """What the status shows of an observation, and the `live` names beside it; None where there is neither."""
    if observation is None or observation.answered <= 0:
        told = tuple(caveat.says for caveat in observation.caveats) if observation is not None else ()
        return Observed(live=live, caveats=told) if live or told else None
    return Observed(
        requests_per_second=_sane(observation.requests_per_second),
        input_tokens=_sane(observation.input_tokens),
        output_tokens=_sane(observation.output_tokens),
        prefix_hit=_sane(observation.prefix_hit),
        ttft=_wanted(observation.ttft, slo.ttft),
        tpot=_wanted(observation.tpot, slo.tpot),
        attainment=attainment(slo, observation),
        live=live,
        caveats=tuple(caveat.says for caveat in observation.caveats),
    )


def _moved(in_force: float, measured: float | None) -> float:
    if not is_sane(measured) or measured <= 0:
        return in_force
    if in_force > 0 and abs(log(measured / in_force)) < log(NOTABLE_FACTOR):
        return in_force
    return _rounded(measured)


def _rounded(tokens: float) -> float:
    """Two digits at most 5 % off, in steps of 1, 2 or 5: pools with about the same traffic ask for one prediction."""
    decade = 10.0 ** floor(log10(tokens))
    step = decade / 10.0 * (1.0 if tokens < 2.0 * decade else 2.0 if tokens < 5.0 * decade else 5.0)
    return float(f"{round(tokens / step) * step:.2g}")


def _sane(value: float | None) -> float | None:
    return value if is_sane(value) else None


def _wanted(
    measured: tuple[tuple[int, float], ...], targets: tuple[tuple[int, float], ...]
) -> tuple[tuple[int, float], ...]:
    """Measured percentiles that are numbers; those with a target where there are targets."""
    percentiles = {percentile for percentile, _ in targets} or {50, 95}
    return tuple((at, seconds) for at, seconds in measured if at in percentiles and is_sane(seconds))
