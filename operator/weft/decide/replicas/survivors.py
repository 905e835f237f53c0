"""Which replicas stay: judge every assignment by its pods, and keep its promise on the fabric."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from weft.decide.replicas.hanging import tried_first
from weft.decide.replicas.health import (
    SCHEDULING_SECONDS,
    UNRESPONSIVE_SECONDS,
    AssignedReplica,
    Loss,
    Surroundings,
    loss_of,
    released_at,
    scheduled_within,
)
from weft.decide.replicas.promises import held_by, keep_promise
from weft.decide.replicas.silence import Judging, given_up
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.made_often import made_often
from weft.engines import adapter_for, engine_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.ending import ReadFailure
    from weft.decide.replicas.roll import Roll
    from weft.decide.replicas.standing import Standing
    from weft.domain.cluster import PodRecord
    from weft.domain.shape import EngineRelease
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import Assignment
    from weft.placement import FreeMap

_ANSWERS, _NUMBER = attrgetter("reachable"), attrgetter("assignment.replica")


@dataclass(frozen=True, slots=True)
class Stranded:
    """A replica that serves, and the first of its nodes that is gone; `is_news` where nobody knew of that before."""

    replica: int
    node: str
    is_news: bool


@made_often
@dataclass(frozen=True, slots=True)
class Survivors:
    """Replicas of a pool that stay, and what happened to the others.

    `waiting` are assignments whose GPUs the pool's own leaving pods still hold, with the node where they do.
    `stranded` serve though one of their nodes is gone. `standing` is told where all of them are sound.
    """

    replicas: tuple[AssignedReplica, ...]
    losses: tuple[Loss, ...] = ()
    waiting: tuple[tuple[Assignment, str], ...] = ()
    standing: Standing | None = None
    stranded: tuple[Stranded, ...] = ()

    def waits_for_a_node(self, replica: AssignedReplica) -> bool:
        """Whether a replica serves though one of its nodes is gone."""
        return bool(self.stranded) and any(each.replica == replica.assignment.replica for each in self.stranded)

    def wake_after_seconds(
        self, staying: Collection[Assignment], now: float, start_timeout_seconds: float | None
    ) -> float | None:
        """When the next replica that stays would have waited too long: released, for a predecessor, or on its node."""
        if self.standing is not None:
            return None
        held = [(each.assignment, pod, scheduled_within(pod)) for each in self.replicas for pod in each.unscheduled]
        held += [(each.assignment, pod, SCHEDULING_SECONDS) for each in self.replicas for pod in each.ahead]
        waits = [max(1.0, released_at(pod) + within - now) for each, pod, within in held if each in staying]
        if start_timeout_seconds is not None:
            on_nodes = [pod for replica in self.replicas if replica.assignment in staying for pod in replica.preparing]
            waits += [max(1.0, released_at(pod) + start_timeout_seconds - now) for pod in on_nodes]
        hanging = [(each.assignment, pod.unready) for each in self.replicas for pod in each.pods if pod.unready]
        waits += [since + UNRESPONSIVE_SECONDS - now for each, since in hanging if each in staying]
        waits += [each.since + SCHEDULING_SECONDS - now for each, _ in self.waiting if each in staying]
        return min((wait for wait in waits if wait > 0), default=None)


def survivors(pool: PoolRecord, planned: Planned | None, roll: Roll, free: FreeMap) -> Survivors:
    """Judge the replicas of one pool and reserve what the remaining ones were promised.

    Without a valid plan nothing can be replaced, so nothing that may have run is given up either. Of a sound replica
    there is nothing to judge, and no promise is left to keep. Those on silent nodes come last: which room there is for
    their successors is known once promises to the others are kept.
    """
    standing, replicas = roll.standing(pool), roll.replicas(pool)
    parts = planned is not None and _has_parts(standing, planned)
    if not parts and roll.are_sound(pool):
        return Survivors(replicas, standing=standing)
    around = _surroundings(pool, planned, roll)
    kept: list[AssignedReplica] = []
    losses: list[Loss] = []
    for replica in sorted(replicas, key=_ANSWERS, reverse=True):
        loss = _part(replica, planned) if parts and planned is not None else None
        if loss is None and not roll.is_sound(pool, replica):
            if planned is not None:
                judging = Judging(planned, replicas, roll.pools, roll.machines.silent, free)
                loss = tried_first(replica, loss_of(replica, around), judging, around)
                loss = given_up(replica, loss, len(losses), judging)
            loss = loss or _promise_lost(pool, planned, replica, free)
        if loss is None:
            kept.append(replica)
        else:
            losses.append(loss)
            for hold in held_by(pool, replica.pods, free.fabric):
                free.vacate(hold)
    kept.sort(key=_NUMBER)
    stranded = _stranded(pool, kept, roll) if planned is not None else ()
    return Survivors(tuple(kept), tuple(sorted(losses, key=_NUMBER)), stranded=stranded)


def strays(pool: PoolRecord, staying: Survivors, roll: Roll) -> tuple[PodRecord, ...]:
    """Pods of a pool that still exist although no replica that stays has them any more."""
    if staying.standing is not None and not staying.standing.strays:
        return ()
    ids = {each.assignment.replica for each in staying.replicas}
    return tuple(pod for pod in roll.pods_of(pool) if pod.identity is not None and pod.identity.replica not in ids)


def _stranded(pool: PoolRecord, staying: Iterable[AssignedReplica], roll: Roll) -> tuple[Stranded, ...]:
    """Replicas of a pool that stay though one of their nodes is gone."""
    machines = roll.machines
    if machines.nodes.keys() >= roll.standing(pool).nodes:
        return ()
    gone = ((each, machines.gone(each.nodes)) for each in staying if each.released)
    found = [(each.assignment.replica, nodes[0]) for each, nodes in gone if nodes]
    return tuple(Stranded(replica, node, node not in machines.away_since) for replica, node in found)


def _surroundings(pool: PoolRecord, planned: Planned | None, roll: Roll) -> Surroundings:
    """What claims about replicas of this pool look at; without a valid plan, starts take no time and have no limit."""
    reader, seen, machines = _reader_of(pool.status.engine), roll.observations.get(pool.key.uid), roll.machines
    if planned is None:
        return Surroundings(roll.heard, machines.nodes, machines.away_since, reader, 0, seen)
    start, limit = (pool.status.start_up or planned.start_up).in_use, planned.spec.rollout.start_timeout_seconds
    return Surroundings(roll.heard, machines.nodes, machines.away_since, reader, start, seen, limit)


def _has_parts(standing: Standing, planned: Planned) -> bool:
    """Whether any replica is a part of one; looked at where not all have the planned revision and number of pods."""
    as_planned = standing.widths <= {(planned.revision, planned.plan.shape.pods)}
    return not as_planned and any(_is_a_part(each, planned) for each in standing.replicas)


def _is_a_part(replica: AssignedReplica, planned: Planned) -> bool:
    """Whether it was read back from its pods while others of them were gone: its revision tells how many it has."""
    mine = replica.assignment
    return mine.revision == planned.revision and mine.pods != planned.plan.shape.pods


def _part(replica: AssignedReplica, planned: Planned) -> Loss | None:
    if not _is_a_part(replica, planned):
        return None
    mine = replica.assignment
    told = f"replica {mine.replica}: it has {mine.pods} of {planned.plan.shape.pods} pods; it is placed anew"
    return Loss(mine, Explanation(Reason.PodDeleted, told), counts=False)


def _promise_lost(pool: PoolRecord, planned: Planned | None, replica: AssignedReplica, free: FreeMap) -> Loss | None:
    current = planned is not None and replica.assignment.revision == planned.revision
    lost = keep_promise(pool, replica, planned.plan.shape if planned is not None and current else None, free)
    return None if lost is None else Loss(replica.assignment, lost, counts=False)


def _reader_of(planned: EngineRelease | None) -> ReadFailure:
    """How the engine of each pod says why it ended; nothing is read before an engine was planned."""
    if planned is None:
        return lambda pod, text: None  # noqa: ARG005 - a reader's arguments
    return lambda pod, text: adapter_for(engine_in(pod, planned.name)).failure(text)
