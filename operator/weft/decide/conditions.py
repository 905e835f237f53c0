"""The conditions that deciding owns: Planned, Placed, SLOMet and NetworkBound, and two that are there only while True.

Messages carry no live numbers, so that a steady state writes nothing; the numbers are in `status.observed` and on
`/metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.figures import seconds
from weft.domain.reasons import Explanation, Reason
from weft.domain.relaxations import relaxations_refused
from weft.domain.status import Condition
from weft.domain.workload import Role
from weft.engines import adapter_for
from weft.scaling import is_resolved, kv_in_use, read_percentile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.decision import CapacityRequest
    from weft.domain.shape import EngineRelease, Plan
    from weft.domain.snapshot import PoolObservation
    from weft.domain.spec import PoolSpec
    from weft.domain.workload import Slo

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
# Below these an engine has room, so latency that grows all the same has another reason.
UNSATURATED_KV = 0.8
# KV transfer dominates when it makes up this part of what TTFT exceeds its target by, or of all of TTFT on average.
DOMINANT = 0.5


def planned(plan: Plan | Explanation) -> Condition:
    """Whether there is a valid plan."""
    if isinstance(plan, Explanation):
        return Condition("Planned", FALSE, plan)
    return Condition("Planned", TRUE, plan.verdict)


def arguments_unknown(args: tuple[str, ...], release: EngineRelease) -> tuple[Condition, ...]:
    """That the engine may not start with the user's arguments; no condition where its release knows all of them."""
    unknown = adapter_for(release.name).unknown_arguments(args, release.version) if args else ()
    if not unknown:
        return ()
    message = f"{release.name.value} {release.version} does not know spec.engine.args {'; '.join(unknown)}"
    return (Condition("ArgumentsUnknown", TRUE, Explanation(Reason.ArgumentUnknown, message)),)


def relaxed(spec: PoolSpec) -> tuple[Condition, ...]:
    """What engine pods may do beyond `restricted`; no condition where that is nothing."""
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
    message = f"{request.groups} x {request.domain_gpus} {request.accelerator} GPUs free {on}"
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


def network_bound(role: Role, slo: Slo, observation: PoolObservation | None) -> Condition:
    """Whether KV transfer is what makes TTFT miss its target while the engines have room."""
    if role is Role.Aggregated:
        return _MOVES_NOTHING
    if observation is None or observation.answered <= 0 or observation.transfer_seconds is None:
        missing = Explanation(Reason.MetricsMissing, "no replica reports the time of its KV transfers")
        return Condition("NetworkBound", UNKNOWN, missing)
    excess = max((seconds - target for _, target, seconds in _measured(slo, observation, ttft_only=True)), default=0.0)
    busy = kv_in_use(observation) >= UNSATURATED_KV
    if busy or excess <= 0 or not _transfer_dominates(observation, excess):
        return _not_bound("KV transfer is not what TTFT waits for")
    message = "KV transfer makes up most of what TTFT is above its target, while the engines have room"
    return Condition("NetworkBound", TRUE, Explanation(Reason.TransferDominates, message))


def _transfer_dominates(observation: PoolObservation, excess: float) -> bool:
    """Whether transfers make up most of what TTFT is above its target, or of TTFT, or keep others out of the memory.

    A percentile of a queue that grows is far above its mean, which is what is known of transfers.
    """
    fills_memory = (observation.waiting_for_kv or 0.0) > (observation.running or 0.0)
    if fills_memory and (observation.kv_usage or 0.0) >= UNSATURATED_KV:  # and yet not by those who run
        return True
    late = excess if observation.ttft_mean is None else min(excess, observation.ttft_mean)
    return (observation.transfer_seconds or 0.0) >= DOMINANT * late


def _in_doubt(slo: Slo, observation: PoolObservation) -> tuple[str, ...]:
    """What to know of the latencies that have targets: of blurred ones only where a target is in the blur."""
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
    """Why there are no latencies: the engine does not show them, they cannot be, or nobody asked."""
    if observation.missing:
        names = ", ".join(observation.missing)
        return Explanation(Reason.MetricsMissing, f"the engine's metrics lack {names}")
    if caveats and observation.requests_per_second:
        return Explanation(Reason.MetricsMissing, "; ".join(caveats))
    return Explanation(Reason.NoTraffic, "no request was measured lately")


def _not_bound(message: str) -> Condition:
    return Condition("NetworkBound", FALSE, Explanation(Reason.NotNetworkBound, message))


_MOVES_NOTHING = _not_bound("an aggregated replica moves no KV to others")


def _measured(slo: Slo, observation: PoolObservation, *, ttft_only: bool = False) -> Iterator[tuple[str, float, float]]:
    """(`p95 TTFT`, target, measured) for every target that was measured.

    It says where the mean decides, since the target lies inside the first bucket; where it lies is no live number.
    """
    kinds = [
        ("TTFT", slo.ttft, observation.ttft, observation.ttft_buckets),
        ("TPOT", slo.tpot, observation.tpot, observation.tpot_buckets),
    ]
    for word, targets, values, buckets in kinds[: 1 if ttft_only else 2]:
        for percentile, target in targets:
            seconds = read_percentile(values, percentile)
            if seconds is not None:
                by_mean = (word.lower(), percentile) in observation.unresolved and not is_resolved(buckets, target)
                yield f"p{percentile} {word}{' (by its mean)' if by_mean else ''}", target, seconds
