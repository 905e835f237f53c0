"""Whether measured latencies meet their targets, in the condition SLOMet; and which of both a half of a split has.

A prefill replica has none after the first token.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.status import FALSE, TRUE, UNKNOWN, Condition
from weft.domain.texts.figures import seconds
from weft.domain.values.changed import changed
from weft.domain.workload import Role
from weft.scaling import is_resolved, live_figures, read_percentile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.snapshot import PoolObservation
    from weft.domain.spec import PoolSpec
    from weft.domain.status import Observed
    from weft.domain.workload import Slo

_TPOT = "tpot"


def targets_of(role: Role, slo: Slo) -> Slo:
    """The targets that a replica of this role can miss: all, but for prefill only those of TTFT."""
    return replace(slo, tpot=()) if role is Role.Prefill and slo.tpot else slo


def seen_of(role: Role, seen: PoolObservation | None) -> PoolObservation | None:
    """The measurements that mean something: of prefill none of TPOT, as engines count 0 s where one token is all."""
    if seen is None or role is not Role.Prefill:
        return seen
    return changed(
        seen,
        tpot=(),
        tpot_buckets=(),
        tpot_mean=None,
        unresolved=tuple(each for each in seen.unresolved if each[0] != _TPOT),
        caveats=tuple(each for each in seen.caveats if each.figure != _TPOT),
    )


def figures_of(spec: PoolSpec, observation: PoolObservation | None, live: tuple[str, ...]) -> Observed | None:
    """The live figures that a status shows, of what a replica of this role has; `live` names what replaces the spec."""
    return live_figures(seen_of(spec.role, observation), targets_of(spec.role, spec.slo), live)


def slo_met(role: Role, wished: Slo, observation: PoolObservation | None) -> Condition:
    """Whether every percentile that a replica of this role can miss is within its target, as far as it is measured."""
    slo, observation = targets_of(role, wished), seen_of(role, observation)
    if not slo.ttft and not slo.tpot:
        return Condition("SLOMet", UNKNOWN, Explanation(Reason.NoSLO, "spec.slo sets no target"))
    if observation is None or observation.answered <= 0:
        return Condition("SLOMet", UNKNOWN, Explanation(Reason.MetricsMissing, "no replica reports metrics"))
    measured = list(_measured(slo, observation))
    above = [f"{name} is above {seconds(target)}" for name, target, reached in measured if reached > target]
    caveats = _in_doubt(slo, observation)
    if above:
        return Condition("SLOMet", FALSE, Explanation(Reason.AboveSLO, "; ".join((*above, *caveats))))
    if not measured:
        return Condition("SLOMet", UNKNOWN, _unmeasured(observation, caveats))
    names = ", ".join(name for name, _, _ in measured)
    return Condition("SLOMet", TRUE, Explanation(Reason.WithinSLO, "; ".join((f"{names} within target", *caveats))))


def _in_doubt(slo: Slo, observation: PoolObservation) -> tuple[str, ...]:
    """What to know about latencies with targets; about coarse ones only where a target lies in the uncertain range."""
    if not observation.caveats:
        return ()
    found: set[str] = set()
    for kind, targets in (("ttft", slo.ttft), ("tpot", slo.tpot)):
        blurred = [target for percentile, target in targets if (kind, percentile) in observation.unresolved]
        for caveat in observation.caveats:
            if caveat.figure == kind and targets and (caveat.blurred is None or any(map(caveat.blurs, blurred))):
                found.add(caveat.says)
    return tuple(sorted(found))


def _unmeasured(observation: PoolObservation, caveats: tuple[str, ...]) -> Explanation:
    """Why there are no latencies: the engine lacks the metrics, they cannot be measured, or there was no traffic."""
    if observation.missing:
        names = ", ".join(observation.missing)
        return Explanation(Reason.MetricsMissing, f"the engine's metrics lack {names}")
    if caveats and observation.requests_per_second:
        return Explanation(Reason.MetricsMissing, "; ".join(caveats))
    return Explanation(Reason.NoTraffic, "no request was measured lately")


def _measured(slo: Slo, observation: PoolObservation) -> Iterator[tuple[str, float, float]]:
    """(`p95 TTFT`, target, measured) for every target that was measured.

    It says where the mean decides, since the target lies inside the first bucket; where it lies is no live number.
    """
    kinds = (
        ("TTFT", slo.ttft, observation.ttft, observation.ttft_buckets),
        ("TPOT", slo.tpot, observation.tpot, observation.tpot_buckets),
    )
    for word, targets, values, buckets in kinds:
        for percentile, target in targets:
            seconds = read_percentile(values, percentile)
            if seconds is not None:
                by_mean = (word.lower(), percentile) in observation.unresolved and not is_resolved(buckets, target)
                yield f"p{percentile} {word}{' (by its mean)' if by_mean else ''}", target, seconds
