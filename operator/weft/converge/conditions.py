"""Ready, and the abnormal-true pair Reconciling and Stalled that kstatus, Argo CD and Flux read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.status import Condition
from weft.domain.texts.figures import agreeing, counted
from weft.render import replicas_spared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.converge.census import Census
    from weft.domain.snapshot import PoolRecord

# Only an edit recovers from these; every other reason waits for the world to change.
NEEDS_AN_EDIT = frozenset(
    {
        Reason.SpecInvalid,
        Reason.ModelUnknown,
        Reason.ArchitectureUnsupported,
        Reason.ContextExceeded,
        Reason.ModelDoesNotFit,
        Reason.ShapeInvalid,
        Reason.EngineUnsupported,
        Reason.ArgumentConflict,
        Reason.FeatureUnsupported,
        Reason.PrecisionUnsupported,
    }
)
# Reasons of replicas that are assigned and still wait in a queue, not for their engine to start.
QUEUES = frozenset({Reason.WaitingForQuota})


def pool_conditions(
    pool: PoolRecord, census: Census, refused: Explanation | None, trouble: Explanation | None
) -> tuple[Condition, ...]:
    """Conditions of a pool. `refused` is why it cannot be rendered, `trouble` what keeps requests from its replicas."""
    stalled = stall(pool.conditions, pool.problem or refused)
    ready = _why_not_ready(pool, census, stalled, trouble)
    found = [Condition("Ready", "False", ready) if ready else _serving(_who_serves(census))]
    if stalled is not None:
        return (*found, Condition("Stalled", "True", stalled))
    moving = _what_moves(pool, census)
    return (*found, Condition("Reconciling", "True", moving)) if moving is not None else tuple(found)


def stall(conditions: Sequence[Condition], problem: Explanation | None) -> Explanation | None:
    """Why the resource is stalled, which only an edit ends: a problem of the spec, or a plan that was refused."""
    planned = said_false(conditions, "Planned")
    refused = planned if planned is not None and planned.reason in NEEDS_AN_EDIT else None
    return refused if problem is None or problem.reason is Reason.ModelConfigMissing else problem


def said_false(conditions: Sequence[Condition], kind: str) -> Explanation | None:
    """The explanation of a condition that is False, else None."""
    return next((c.explanation for c in conditions if c.kind == kind and c.status == "False"), None)


def _who_serves(census: Census) -> str:
    if census.ready > census.desired:  # in a rollout, or until those that are too many have left
        serve = agreeing(census.ready, "serves", "serve")
        return f"{counted(census.ready, 'replica')} {serve}, {census.desired} wanted"
    return f"{census.ready} of {census.desired} replicas serve"


def _serving(message: str) -> Condition:
    return Condition("Ready", "True", Explanation(Reason.Serving, message))


def _why_not_ready(
    pool: PoolRecord, census: Census, stalled: Explanation | None, trouble: Explanation | None
) -> Explanation | None:
    """None when enough replicas answer and can be reached; else the most telling reason."""
    if suffices(pool, census, census.ready):
        return trouble
    failed = _last_failure(pool)
    planned, unplaced = said_false(pool.conditions, "Planned"), _why_unplaced(pool, census)
    return stalled or _queues(pool) or failed or planned or unplaced or _starting(census)


def _last_failure(pool: PoolRecord) -> Explanation | None:
    """Why a replica failed last, if that was one of the current revision; else None."""
    failure = pool.status.failure
    return failure.explanation if failure is not None and failure.revision == pool.status.revision else None


def suffices(pool: PoolRecord, census: Census, ready: int) -> bool:
    """Whether as many `ready` replicas make the pool, or this half of a split, ready, `maxUnavailable` fewer too."""
    return ready >= max(1, _least_serving(pool, census) - replicas_spared(pool))


def _least_serving(pool: PoolRecord, census: Census) -> int:
    """Replicas that should serve; in Auto mode growing beyond `minReplicas` makes nothing unready."""
    if pool.spec is None or pool.spec.scaling.mode is ScalingMode.External:
        return census.desired
    return min(census.desired, pool.spec.scaling.min_replicas)


def _queues(pool: PoolRecord) -> Explanation | None:
    """What a replica waits for in its scheduler's queue, even if another one failed before; None where none does."""
    said = said_false(pool.conditions, "Placed")
    return said if said is not None and said.reason in QUEUES else None


def _why_unplaced(pool: PoolRecord, census: Census) -> Explanation | None:
    if census.assigned >= census.desired > 0:
        return None
    said = said_false(pool.conditions, "Placed")
    return said or Explanation(Reason.NoReplicaReady, f"{census.assigned} of {census.desired} replicas have a place")


def _starting(census: Census) -> Explanation:
    waiting = census.waiting or "the others start or load the model"
    return Explanation(Reason.ReplicasStarting, f"{_counted(census)}; {waiting}")


def _counted(census: Census) -> str:
    return f"{census.ready} of {census.desired} replicas are ready"


def _outdated(census: Census) -> str:
    return f"{census.outdated} of {census.assigned} replicas are of an earlier revision"


def _leaving(census: Census) -> str:
    if census.leaving == 1:
        return f"1 replica is leaving{', and finishes its requests' if census.finishing else ''}"
    finish = agreeing(census.finishing, "finishes its requests", "finish their requests")
    finishing = f"; {census.finishing} of them {finish}" if census.finishing else ""
    return f"{census.leaving} replicas are leaving{finishing}"


def _what_moves(pool: PoolRecord, census: Census) -> Explanation | None:
    """What is under way towards the decided state, or what keeps the pool from it; None once it is reached."""
    waiting = f"; {census.waiting}" if census.waiting else ""
    queues, failed = _queues(pool), _last_failure(pool)
    if failed is not None:  # so that a rollout that gets nowhere says why, while the earlier replicas serve
        waiting += f"; the last one failed: {failed.reason.value}: {failed.message}"
    claims = (
        (census.undecided and not census.paused, Reason.RollingOut, "the new spec is not decided yet"),
        (census.outdated > 0 and not census.paused, Reason.RollingOut, f"{_outdated(census)}{waiting}"),
        (census.outdated > 0, Reason.Paused, f"{_outdated(census)}, and spec.rollout.paused keeps them: unset it"),
        (queues is not None, Reason.WaitingForQuota, queues.message if queues is not None else ""),
        (census.ready < census.desired, Reason.Scaling, f"{_counted(census)}{waiting}"),
        (census.leaving > 0, Reason.Draining, _leaving(census)),
    )
    return next((Explanation(reason, message) for holds, reason, message in claims if holds), census.awaited)
