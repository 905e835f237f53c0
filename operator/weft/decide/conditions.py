"""The conditions that deciding owns, and some that are there only while True; two have modules of their own.

Messages carry no live numbers, so that a steady state writes nothing; the numbers are in `status.observed` and on
`/metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.figures import agreeing, seconds
from weft.domain.reasons import Explanation, Reason
from weft.domain.relaxations import relaxations_refused
from weft.domain.status import Condition
from weft.engines import adapter_for
from weft.scaling import is_resolved, read_percentile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.decision import CapacityRequest
    from weft.domain.shape import EngineRelease, Plan
    from weft.domain.snapshot import PoolObservation
    from weft.domain.spec import PoolSpec
    from weft.domain.workload import Slo

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


def planned(plan: Plan | Explanation) -> Condition:
    """Whether there is a valid plan."""
    if isinstance(plan, Explanation):
        return Condition("Planned", FALSE, plan)
    return Condition("Planned", TRUE, plan.verdict)


def arguments_unknown(args: tuple[str, ...], release: EngineRelease) -> tuple[Condition, ...]:
    """The condition that the engine may not start with the user's arguments; none where it knows all of them."""
    unknown = adapter_for(release.name).unknown_arguments(args, release.version) if args else ()
    if not unknown:
        return ()
    message = f"{release.name.value} {release.version} does not know spec.engine.args {'; '.join(unknown)}"
    return (Condition("ArgumentsUnknown", TRUE, Explanation(Reason.ArgumentUnknown, message)),)


def relaxed(spec: PoolSpec) -> tuple[Condition, ...]:
    """What engine pods may do beyond the `restricted` Pod Security Standard; no condition where that is nothing."""
    if not spec.pod.relaxations or relaxations_refused(spec) is not None:
        return ()
    message = f"the administrator allows spec.pod.relaxations {', '.join(spec.pod.relaxations)}"
    return (Condition("Relaxed", TRUE, Explanation(Reason.RelaxationAllowed, message)),)


def placed(explanation: Explanation) -> Condition:
    """Whether every replica has nodes."""
    status = {Reason.AllPlaced: TRUE, Reason.NothingToPlace: UNKNOWN}.get(explanation.reason, FALSE)
    return Condition("Placed", status, explanation)


def capacity_requested(request: CapacityRequest | None) -> tuple[Condition, ...]:
    """What would have to be added; no condition while nothing is missing."""
    if request is None:
        return ()
    on = (
        "on one node"
        if request.nodes == 1
        else f"in one NVLink domain, {request.gpus_per_node} on each of {request.nodes} nodes"
    )
    noun = agreeing(request.groups * request.domain_gpus, "GPU", "GPUs")
    message = f"{request.groups} x {request.domain_gpus} {request.accelerator} {noun} free {on}"
    return (Condition("CapacityRequested", TRUE, Explanation(Reason.NoSlot, message)),)


def slo_met(slo: Slo, observation: PoolObservation | None) -> Condition:
    """Whether every measured percentile with a target is within it."""
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
