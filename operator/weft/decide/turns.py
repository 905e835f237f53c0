"""The turns of a pass: how many replicas the pools of each unit shall have, with all that is known of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide.counting.budgets import pays_for_no_successor, unpaid_of_declared
from weft.decide.counting.counts import count
from weft.decide.counting.frozen import as_it_stays
from weft.decide.counting.worth import stays_for_want_of_budget
from weft.decide.course import Turn
from weft.decide.measured.learning import Fleet, watch
from weft.decide.places.handover import handed_over
from weft.decide.replicas.survivors import strays
from weft.domain.crews import NO_ROUTERS, routers_of_split
from weft.domain.reasons import Explanation
from weft.domain.spec import SchedulerName
from weft.domain.stumbling import stumbled
from weft.domain.values.changed import changed
from weft.engines.kv.host_memory import pod_needs
from weft.placement import lacking_besides_gpus
from weft.scaling import replaced_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.decide.counting.budgets import Share
    from weft.decide.counting.counts import Prospect
    from weft.decide.order import Unit
    from weft.decide.pass_state import PassState
    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.health import AssignedReplica
    from weft.domain.crews import SplitRouters
    from weft.domain.pool_memory import ScaleMemory
    from weft.scaling import ScaleAnswer


@dataclass(frozen=True, slots=True)
class _Paid:
    """What a unit gets: `is_short` where budgets pay less than it wants; the others as in `Turn`."""

    is_short: bool
    barred: bool
    frozen: bool


def all_turns(units: Iterable[Unit], state: PassState) -> list[list[Turn]]:
    """Turns of every unit; all of their pools have a plan."""
    found: list[list[Turn]] = []
    for unit in units:
        try:
            found.append(turns_of(unit, state))
        except Exception as error:
            raise stumbled(error, *unit) from error
    return found


def turns_of(unit: Unit, state: PassState) -> list[Turn]:
    """Turns of one pool, or of a pair whose halves are both planned."""
    known = [state.prospects[pool.key.uid] for pool in unit]
    plans = [prospect.planned for prospect in known if prospect.planned is not None]
    paid = _Paid(
        is_short=bool(state.shares) and any(pool.key.uid in state.shares for pool in unit),
        barred=pays_for_no_successor(plans, state.survivors, state.roll, state.rest, state.claims)
        or _nothing_can_take_them(plans, state),
        frozen=any(_stays(planned, state) for planned in plans if planned.spec.scaling.max_gpus is not None),
    )
    answers = _answers(unit, known, paid, state)
    parts = zip(plans, known, answers, strict=True)
    return [_turn(planned, prospect, answer, paid, state) for planned, prospect, answer in parts]


def _nothing_can_take_them(plans: Sequence[Planned], state: PassState) -> bool:
    """Whether one of the pools has replicas, and every node lacks more than GPUs for one of its new revision.

    Or it is for another scheduler to take, which has no such queue.
    """
    for planned in plans:
        seen, revision = state.survivors[planned.pool.key.uid], planned.revision
        if not seen.replicas or (seen.standing is not None and seen.standing.revisions <= {revision}):
            continue
        if planned.spec.placement.scheduler is not SchedulerName.Default and _no_queue_takes(planned, state):
            return True
        if any(each.assignment.revision == revision for each in seen.replicas):
            continue
        needs = pod_needs(planned.spec, planned.plan)
        if lacking_besides_gpus(planned.plan.shape, planned.spec.placement, state.free, needs).ever:
            return True
    return False


def _no_queue_takes(planned: Planned, state: PassState) -> bool:
    """Whether a pool has replicas of an earlier revision, and none of the planned one can be handed over."""
    replicas = state.survivors[planned.pool.key.uid].replicas
    if not any(each.assignment.revision != planned.revision for each in replicas):
        return False
    return isinstance(handed_over(planned, state.free.fabric, state.snapshot.queueing), Explanation)


def _stays(planned: Planned, state: PassState) -> bool:
    seen = state.survivors[planned.pool.key.uid]
    return stays_for_want_of_budget(planned, (each.assignment for each in seen.replicas))


def _answers(unit: Unit, known: Sequence[Prospect], paid: _Paid, state: PassState) -> tuple[ScaleAnswer, ...]:
    """Counts within what quotas pay for; where they pay for all of it, those that were counted without them."""
    counted = None if paid.is_short else state.counted.get(unit[0].key.uid)
    shares = _and_what_stays(unit, state) if paid.barred else state.shares
    answers = counted or count(known, state.split_of(unit), state.snapshot, shares)
    plans = [prospect.planned for prospect in known if prospect.planned is not None]
    unpaid = unpaid_of_declared(plans, answers, state.rest)
    return count(known, state.split_of(unit), state.snapshot, {**unpaid, **shares}) if unpaid else answers


def _and_what_stays(unit: Unit, state: PassState) -> Mapping[str, Share]:
    """What quotas pay for; of a unit whose new revision they pay none of, as many as there are, since those stay."""
    uids = [pool.key.uid for pool in unit if pool.key.uid in state.shares]
    kept = {uid: max(len(state.survivors[uid].replicas), state.shares[uid].replicas) for uid in uids}
    return {**state.shares, **{uid: replace(state.shares[uid], replicas=most) for uid, most in kept.items()}}


def _turn(planned: Planned, prospect: Prospect, scaled: ScaleAnswer, paid: _Paid, state: PassState) -> Turn:
    pool, uid, snapshot = planned.pool, planned.pool.key.uid, state.snapshot
    seen, observation = state.survivors[uid], snapshot.observations.get(uid)
    answer = as_it_stays(scaled, planned, seen.replicas, snapshot.memory.get(uid)) if paid.frozen else scaled
    declared, known = planned.spec.workload, answer.memory.calibration
    rests = seen.standing is not None and seen.standing.revisions <= {planned.revision}
    return Turn(
        planned,
        seen,
        answer,
        observation,
        left=strays(pool, seen, state.roll),
        memory=_with_its_plan(answer.memory, planned, prospect, state),
        live=replaced_values(declared, prospect.live or declared, observation),
        asked=handed_over(planned, state.free.fabric, snapshot.queueing),
        taught=known.news if known is not None else None,
        share=state.shares.get(uid) if paid.is_short else None,
        barred=paid.barred,
        frozen=paid.frozen,
        routers=NO_ROUTERS if rests else _routers(planned, seen.replicas, state),
    )


def _routers(planned: Planned, replicas: Sequence[AssignedReplica], state: PassState) -> SplitRouters:
    """The routers of its split, for a half with replicas of several pairs."""
    pool, pair = planned.pool, planned.spec.pair
    if pool.split_uid is None or not [each for each in replicas if each.pods and each.pods[0].pair != pair]:
        return NO_ROUTERS
    return routers_of_split(pool.split_uid, pool.key.namespace, state.snapshot.pods)


def _with_its_plan(memory: ScaleMemory, planned: Planned, prospect: Prospect, state: PassState) -> ScaleMemory:
    """What to remember of a pool that was counted and goes on with this plan."""
    uid, declared, snapshot = planned.pool.key.uid, planned.spec.workload, state.snapshot
    seen = state.survivors[uid]
    fleet = Fleet(planned.spec, planned.plan, planned.revision, seen.replicas, planned.subject, seen.standing)
    gives_room = bool(snapshot.quotas) and state.replaces(planned)
    return changed(
        memory,
        gave_up_room=snapshot.now if gives_room else memory.gave_up_room,
        workload=prospect.live or declared,
        declared=declared,
        lengths=prospect.lengths,
        calibration=watch(fleet, planned.pool, snapshot.observations.get(uid), memory, snapshot.now),
        vanished_since=None,
    )
