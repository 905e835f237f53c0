"""Pools without a valid plan, or whose other half of the split has none: their running replicas keep running."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.course import PoolOutcome
from weft.decide.measured.judged import figures_of, slo_met
from weft.decide.measured.learning import unwatched
from weft.decide.measured.network import network_bound
from weft.decide.replicas.vanished import again_seconds, remembered_since
from weft.decide.telling import conditions
from weft.domain.decision import PoolDecision
from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import agreeing, counted
from weft.domain.values.changed import changed
from weft.scaling import replaced_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.decide.counting.counts import Prospect
    from weft.decide.pass_state import PassState
    from weft.decide.replicas.survivors import Survivors
    from weft.domain.snapshot import PoolObservation
    from weft.domain.status import Condition


def hold(prospect: Prospect, state: PassState) -> PoolOutcome:
    """The outcome of a pool without a plan: assigned replicas are completed and stay; those that lost their slot go."""
    pool, seen = prospect.pool, state.survivors[prospect.pool.key.uid]
    observation = state.snapshot.observations.get(pool.key.uid)
    problem = prospect.problem or Explanation(Reason.HoldNotPlanned, "the other half of the split has no valid plan")
    status = replace(pool.status, assignments=tuple(replica.assignment for replica in seen.replicas))
    if pool.spec is not None:
        desired = counted(pool.status.desired_replicas, "replica")
        held = Explanation(Reason.HoldNotPlanned, f"held at {desired}: {problem.message}")
        live = replaced_values(pool.spec.workload, prospect.live or pool.spec.workload, observation)
        status = replace(status, scale=held, observed=figures_of(pool.spec, observation, live))
    checks = tuple(_conditions(prospect, problem, seen, observation))
    lost = tuple(loss.explanation for loss in seen.losses)
    decision = PoolDecision(pool.key, pool.generation, status, pool.status.desired_replicas, checks, lost)
    now = state.snapshot.now
    known = remembered_since(pool, state.snapshot.memory.get(pool.key.uid), prospect.vanished_since, now)
    remembered = unwatched(changed(known, short_since=None)) if known is not None else None
    return PoolOutcome(decision, remembered, again_seconds(prospect.vanished_since, now))


def _conditions(
    prospect: Prospect, problem: Explanation, seen: Survivors, observation: PoolObservation | None
) -> Iterator[Condition]:
    spec = prospect.pool.spec
    yield conditions.planned(prospect.planned.plan if prospect.planned is not None else problem)
    if spec is not None:
        yield from conditions.relaxed(spec)
    yield conditions.placed(Explanation(Reason.NothingToPlace, f"there is no valid plan{_who_keeps_its_place(seen)}"))
    if spec is not None:
        yield slo_met(spec.role, spec.slo, observation)
        yield network_bound(spec.role, spec.slo, observation)


def _who_keeps_its_place(seen: Survivors) -> str:
    there = len(seen.replicas)
    keep = agreeing(there, "keeps its place", "keep their places")
    return f"; {counted(there, 'replica')} {keep}" if there else ""
