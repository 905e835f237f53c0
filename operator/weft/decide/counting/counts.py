"""How many replicas each pool shall have: plans and observations turned into questions for scaling."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide.measured.network import network_bound
from weft.decide.plans.planning import Planned, plan_pool
from weft.decide.replicas.vanished import vanished_under
from weft.domain.reasons import Explanation
from weft.domain.status import TRUE
from weft.domain.stumbling import stumbled
from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often
from weft.scaling import (
    RatioGuard,
    ScaleAnswer,
    ScaleRequest,
    holds,
    lengths_after,
    live_workload,
    scale_pool,
    scale_split,
    targets_in_words,
    without_costs,
)
from weft.shaping import FEW_HITS, Unpaired

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.decide.counting.budgets import Share
    from weft.decide.order import Unit
    from weft.decide.plans.facts import Facts
    from weft.decide.plans.pair import Pair
    from weft.decide.replicas.roll import Roll
    from weft.decide.replicas.vanished import Vanished
    from weft.domain.calibration import ProvenLoad
    from weft.domain.capacity import Capacity
    from weft.domain.pool_memory import LengthSample, ScaleMemory
    from weft.domain.snapshot import PoolObservation, PoolRecord, Snapshot, SplitRecord
    from weft.domain.workload import Workload

PAIR = 2


@made_often
@dataclass(frozen=True, slots=True)
class Prospect:
    """A pool with its plan or its problem, the live workload in force, and the measured lengths that it follows.

    `vanished_since` is since when the GPUs under its replicas are out of sight, if its shape would change because of
    that.
    """

    pool: PoolRecord
    planned: Planned | None
    problem: Explanation | None
    live: Workload | None
    lengths: tuple[LengthSample, ...] = ()
    vanished_since: float | None = None


def prospects(
    snapshot: Snapshot, units: Sequence[Unit], facts: Facts, roll: Roll, pairs: Mapping[str, Pair | Unpaired]
) -> dict[str, Prospect]:
    """Plan every pool; the halves of a split run what was chosen for both, and nobody leaves a shape for moments."""
    found: dict[str, Prospect] = {}
    for unit in units:
        for pool in unit:
            try:
                prospect = _prospect(pool, unit, snapshot, facts, pairs.get(pool.split_uid or ""))
                planned, before = prospect.planned, pool.status.plan
                if planned is not None and before is not None and planned.plan is not before:
                    memory = snapshot.memory.get(pool.key.uid)
                    prospect = _unless(vanished_under(planned, before.shape, roll, facts.fabric, memory), prospect)
                found[pool.key.uid] = prospect
            except Exception as error:
                raise stumbled(error, pool) from error
    return found


def _unless(vanished: Vanished | None, prospect: Prospect) -> Prospect:
    """The prospect, without its plan while the GPUs under its replicas are out of sight."""
    if vanished is None:
        return prospect
    planned = prospect.planned if vanished.why is None else None
    return changed(prospect, planned=planned, problem=vanished.why, vanished_since=vanished.since)


def _prospect(pool: PoolRecord, unit: Unit, snapshot: Snapshot, facts: Facts, pair: Pair | Unpaired | None) -> Prospect:
    live, lengths = _live(pool, unit, snapshot)
    if isinstance(pair, Unpaired):
        concerns = pool.spec is None or pair.role in {None, pool.spec.role}
        return Prospect(pool, None, pair.why if concerns else None, live, lengths)
    if pair is not None and pool.spec is not None:
        answer = plan_pool(pool, facts, live, pair.plan(pool.spec.role), managed=pair.managed)
    else:
        managed = pool.spec is not None and pool.spec.router.is_of_weft
        answer = plan_pool(pool, facts, live, managed=managed)
    if isinstance(answer, Explanation):
        return Prospect(pool, None, answer, live, lengths)
    seen = snapshot.observations.get(pool.key.uid)
    if answer.managed and seen is not None and (seen.prefix_hit or 0.0) > FEW_HITS:  # `live` moves by larger steps
        answer = answer.sharing_no_queue()
    return Prospect(pool, answer, None, live, lengths)


def _live(pool: PoolRecord, unit: Unit, snapshot: Snapshot) -> tuple[Workload | None, tuple[LengthSample, ...]]:
    """The workload in force and what it follows; where the declared one was edited, all is measured again beside it."""
    if pool.spec is None:
        return None, ()
    declared, memory = pool.spec.workload, snapshot.memory.get(pool.key.uid)
    in_force: Workload | None = None
    lengths: tuple[LengthSample, ...] = ()
    if memory is not None and memory.declared == declared:
        in_force, lengths = memory.workload, memory.lengths
    seen = _traffic(unit, snapshot)
    lengths = lengths_after(lengths, seen, snapshot.now, memory.loads if memory is not None else ())
    return live_workload(declared, seen, in_force, lengths), lengths


def _traffic(unit: Unit, snapshot: Snapshot) -> PoolObservation | None:
    """A pool's own observation; in a pair both halves know ISL from prefill and OSL from decode."""
    seen = [snapshot.observations.get(pool.key.uid) for pool in unit]
    first, last = seen[0], seen[-1]
    if len(unit) < PAIR or first is None or last is None:
        return first
    return replace(first, output_tokens=last.output_tokens, output_tokens_p95=last.output_tokens_p95)


def count(
    known: Sequence[Prospect], split: SplitRecord | None, snapshot: Snapshot, shares: Mapping[str, Share]
) -> tuple[ScaleAnswer, ...]:
    """Counts of one pool, or of both halves of a split together, within their shares of budgets (by UID)."""
    requests = [
        _request(prospect.planned, prospect.live, snapshot, shares.get(prospect.pool.key.uid))
        for prospect in known
        if prospect.planned is not None
    ]
    if len(requests) == PAIR:
        requests = _told_of_the_network(requests, known)
        spec = split.spec if split is not None else None
        guard = RatioGuard(spec.ratio_min, spec.ratio_max) if spec is not None else RatioGuard()
        return scale_split(requests[0], requests[1], guard)
    return tuple(scale_pool(request) for request in requests)


def _told_of_the_network(requests: list[ScaleRequest], known: Sequence[Prospect]) -> list[ScaleRequest]:
    """The questions, told where KV transfers are what requests of the split wait for; either half may measure that."""
    slos = [each.planned.spec.slo for each in known if each.planned is not None]
    told = [network_bound(each.role, slo, each.observation) for each, slo in zip(requests, slos, strict=True)]
    if all(each.status != TRUE for each in told):
        return requests
    return [replace(each, network_bound=True) for each in requests]


def _request(planned: Planned, live: Workload | None, snapshot: Snapshot, share: Share | None) -> ScaleRequest:
    pool, shape = planned.pool, planned.plan.shape
    current, memory = pool.status.desired_replicas, snapshot.memory.get(pool.key.uid)
    if planned.plan is not pool.status.plan:
        current, memory = _in_its_replicas(planned, current, memory)
    return ScaleRequest(
        spec=planned.spec.scaling,
        role=planned.spec.role,
        current=current,
        capacity=planned.capacity,
        declared_rate=planned.spec.workload.requests_per_second,
        gpus=shape.gpus,
        pods=shape.pods,
        now=snapshot.now,
        observation=snapshot.observations.get(pool.key.uid),
        memory=_of_these_lengths(memory, planned.spec.workload),
        previous=pool.status.scale,
        ceiling=share.ceiling(shape) if share is not None else None,
        kept=pool.status.forecast,
        past=snapshot.pasts.get(pool.key.uid),
        declared_capacity=planned.declared.alone,
        start_up=planned.start_up,
        calibration=pool.status.calibration,
        proven=None if pool.status.proven is None else _proven(pool.status.proven, planned, live),
    )


def _proven(known: ProvenLoad, planned: Planned, live: Workload | None) -> ProvenLoad | None:
    """The load at which replicas of this plan met the present targets, with requests as they come."""
    spec = planned.spec
    return holds(known, planned.subject, targets_in_words(spec.role, spec.slo), live or spec.workload)


def _in_its_replicas(planned: Planned, current: int, memory: ScaleMemory | None) -> tuple[int, ScaleMemory | None]:
    """The count and the last window converted by capacity into replicas of the new shape.

    The same number would be far too many, or too few. Before anything was measured it is as many as are declared. Not
    where `maxStep` says by how many a count may change.
    """
    earlier = planned.earlier
    if earlier is None or earlier[0].shape == planned.plan.shape or planned.spec.scaling.max_step is not None:
        return current, memory
    now, before = planned.declared, earlier[1]
    if min(now.alone, before.alone) <= 0:
        return current, memory
    if current > 0 and planned.pool.status.forecast is None and (memory is None or not memory.loads):
        rate, shape = planned.spec.workload.requests_per_second, planned.plan.shape
        return planned.spec.scaling.running(rate, now, shape.gpus, shape.pods), memory
    if memory is not None:
        wanted, with_chance = (_instead_of(samples, before, now) for samples in (memory.wanted, memory.with_chance))
        memory = changed(memory, wanted=wanted, with_chance=with_chance)
    return now.instead_of(current, before), memory


def _instead_of(
    samples: tuple[tuple[float, int], ...], before: Capacity, now: Capacity
) -> tuple[tuple[float, int], ...]:
    """The counts in replicas of another capacity that serve what these would have served."""
    return tuple([(at, now.instead_of(count, before)) for at, count in samples])


def _of_these_lengths(memory: ScaleMemory | None, declared: Workload) -> ScaleMemory | None:
    """The memory without learnt margins, where the token lengths that work is counted in were edited."""
    if memory is None or memory.forecast is None or memory.declared is None or memory.declared is declared:
        return memory
    return memory if memory.declared == declared else changed(memory, forecast=without_costs(memory.forecast))
