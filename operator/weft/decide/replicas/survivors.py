"""Which replicas stay: judge every assignment by its pods, and keep its promise on the fabric."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from weft.decide.replicas.health import (
    NODE_LOST_SECONDS,
    SCHEDULING_SECONDS,
    AssignedReplica,
    Loss,
    Surroundings,
    loss_of,
    released_at,
)
from weft.decide.replicas.promises import domain_name, held_by, keep_promise
from weft.decide.replicas.silence import Judging, given_up
from weft.decide.replicas.standing import Standing, standing_of
from weft.domain.crews import crews_of
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.made_often import made_often
from weft.engines import adapter_for, engine_in
from weft.render import domain_owner_of, replica_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.ending import ReadFailure
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.queueing import AdmissionRecord, Queueing
    from weft.domain.reports import Reports
    from weft.domain.shape import EngineRelease
    from weft.domain.snapshot import PoolObservation, PoolRecord, ResourceKey, Snapshot
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
        pods = [(replica.assignment, (*replica.unscheduled, *replica.ahead)) for replica in self.replicas]
        began = [released_at(pod) for each, held in pods if held and each in staying for pod in held]
        waits = [max(1.0, since + SCHEDULING_SECONDS - now) for since in began]
        if start_timeout_seconds is not None:
            on_nodes = [pod for replica in self.replicas if replica.assignment in staying for pod in replica.preparing]
            waits += [max(1.0, released_at(pod) + start_timeout_seconds - now) for pod in on_nodes]
        waits += [each.since + SCHEDULING_SECONDS - now for each, _ in self.waiting if each in staying]
        return min((wait for wait in waits if wait > 0), default=None)


@dataclass(frozen=True, slots=True)
class Roll:
    """Pods of replicas, the state of nodes and of queues, looked up many times in one pass.

    `silent` are nodes that do not answer, and `away_since` tells since when they have not, or have been gone. One that
    registers again is not ready at first, and gone until it is, as long as it may be.
    """

    now: float
    nodes: Mapping[str, NodeRecord]
    silent: frozenset[str]
    away_since: Mapping[str, float]
    pods: Mapping[str, tuple[PodRecord, ...]]  # by pool UID, in the order of the snapshot
    queueing: Queueing | None
    domains: Mapping[str, str | None] | None  # ComputeDomains that stay, with owner's UID; None: nobody can tell
    observations: Mapping[str, PoolObservation]  # by pool UID
    pools: tuple[PoolRecord, ...]  # everyone's
    standings: dict[str, Standing] = field(default_factory=dict, compare=False)  # of those asked for in this pass

    @classmethod
    def of(cls, snapshot: Snapshot) -> Roll:
        """Index a snapshot once."""
        nodes = {node.name: node for node in snapshot.nodes}
        silent = {name for name, node in nodes.items() if not node.ready}
        away, memories = dict.fromkeys(silent, snapshot.now), snapshot.memory.values()
        for name, since in (entry for memory in memories for entry in memory.nodes_away):
            if name in silent or name not in nodes:
                away[name] = min(away.get(name, snapshot.now), since)
        for name in silent & {name for memory in memories for name in memory.nodes_gone}:
            if snapshot.now - away[name] < NODE_LOST_SECONDS:
                silent.remove(name)
                del nodes[name]
        return cls(
            now=snapshot.now,
            nodes=nodes,
            silent=frozenset(silent),
            away_since=away,
            pods=crews_of(snapshot.pods),
            queueing=snapshot.queueing,
            domains=_domains(snapshot.reports),
            observations=snapshot.observations,
            pools=snapshot.pools,
        )

    def standing(self, pool: PoolRecord) -> Standing:
        """A pool's assignments with their pods."""
        uid, found = pool.key.uid, self.standings.get(pool.key.uid)
        if found is None:
            found = self.standings[uid] = standing_of(uid, pool.status.assignments, self.pods.get(uid, ()))
        return found

    def replicas(self, pool: PoolRecord) -> tuple[AssignedReplica, ...]:
        """Every assignment of a pool with its pods, by replica id."""
        found = self.standing(pool)
        if not found.depends and self.silent.isdisjoint(found.nodes):
            return found.replicas
        return tuple(self._surrounded(pool, each) for each in found.replicas)

    def are_sound(self, pool: PoolRecord) -> bool:
        """Whether all replicas of a pool run as they should, on nodes that exist and answer."""
        found = self.standing(pool)
        return found.sound and self.silent.isdisjoint(found.nodes) and self.nodes.keys() >= found.nodes

    def is_sound(self, pool: PoolRecord, replica: AssignedReplica) -> bool:
        """Whether one replica runs as it should, on nodes that exist and answer, while others may start or leave."""
        names = frozenset(replica.nodes)
        are_there = self.silent.isdisjoint(names) and self.nodes.keys() >= names
        return replica.assignment.replica in self.standing(pool).firm and are_there

    def are_reached(self, pools: Iterable[PoolRecord]) -> bool:
        """Whether no node with replicas of these pools is silent."""
        return all(self.silent.isdisjoint(self.standing(pool).nodes) for pool in pools)

    def _surrounded(self, pool: PoolRecord, replica: AssignedReplica) -> AssignedReplica:
        """The replica with what its scheduler wrote, whether its nodes answer, and what became of its ComputeDomain.

        Complete from the first time on that all its pods and its ComputeDomain are there. Pods of a split are made once
        the one that they share is there, whose next of that name is of no use to them.
        """
        assignment, missing = replica.assignment, self._missing_domain(pool, replica.assignment)
        claims = assignment.complete or bool(replica.pods and assignment.shared_domain)
        lost = missing if claims and self.domains is not None else None
        if replica.whole and missing is None and not assignment.complete:
            assignment = replace(assignment, complete=True)
        found = AssignedReplica(
            assignment, replica.pods, admission=self._admission(pool.key, assignment), lost_domain=lost
        )
        return replace(found, reachable=self.silent.isdisjoint(found.nodes))

    def _missing_domain(self, pool: PoolRecord, assignment: Assignment) -> str | None:
        """The ComputeDomain that a replica should have and has not."""
        if assignment.compute_domain is None:
            return None
        name, owner = domain_name(pool.key, assignment), domain_owner_of(pool, assignment)
        return None if self.domains is not None and self.domains.get(name) == owner else name

    def _admission(self, pool: ResourceKey, assignment: Assignment) -> AdmissionRecord | None:
        if assignment.handover is None or self.queueing is None:
            return None
        return self.queueing.admission(pool.namespace, replica_name(pool, assignment.replica))

    def pods_of(self, pool: PoolRecord) -> tuple[PodRecord, ...]:
        """Every pod of a pool, of whatever replica, in order of both."""
        return self.standing(pool).pods

    def strays(self, pool: PoolRecord, staying: Survivors) -> tuple[PodRecord, ...]:
        """Pods of a pool that still exist although no replica that stays has them any more."""
        if staying.standing is not None and not staying.standing.strays:
            return ()
        ids = {each.assignment.replica for each in staying.replicas}
        return tuple(pod for pod in self.pods_of(pool) if pod.identity is not None and pod.identity.replica not in ids)

    def with_nodes_away(self, memory: ScaleMemory, pool_uid: str, assignments: Iterable[Assignment]) -> ScaleMemory:
        """The memory of a pool, with the nodes that carry its replicas and are silent or gone."""
        before = self.standings.get(pool_uid)
        are_there = not self.silent and (before is None or self.nodes.keys() >= before.nodes)
        if are_there and not memory.nodes_away:  # what is new to it is on nodes that are there
            return memory
        used = standing_of(pool_uid, tuple(assignments), self.pods.get(pool_uid, ())).nodes
        gone = tuple(sorted(used - self.nodes.keys()))
        away = tuple(sorted((name, self.away_since.get(name, self.now)) for name in (*gone, *used & self.silent)))
        is_known = (away, gone) == (memory.nodes_away, memory.nodes_gone)
        return memory if is_known else replace(memory, nodes_away=away, nodes_gone=gone)

    def stranded(self, pool: PoolRecord, staying: Iterable[AssignedReplica]) -> tuple[Stranded, ...]:
        """Replicas of a pool that stay though one of their nodes is gone."""
        if self.nodes.keys() >= self.standing(pool).nodes:
            return ()
        gone = ((each, [name for name in each.nodes if name not in self.nodes]) for each in staying if each.released)
        found = [(each.assignment.replica, nodes[0]) for each, nodes in gone if nodes]
        return tuple(Stranded(replica, node, node not in self.away_since) for replica, node in found)


def _domains(reports: Reports) -> Mapping[str, str | None] | None:
    if not reports.knows_compute_domains:
        return None
    return {str(each): each.owner_uid for each in reports.compute_domains if not each.terminating}


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
                judging = Judging(planned, replicas, roll.pools, roll.silent, free)
                loss = given_up(replica, loss_of(replica, around), len(losses), judging)
            loss = loss or _promise_lost(pool, planned, replica, free)
        if loss is None:
            kept.append(replica)
        else:
            losses.append(loss)
            for hold in held_by(pool, replica.pods, free.fabric):
                free.vacate(hold)
    kept.sort(key=_NUMBER)
    stranded = roll.stranded(pool, kept) if planned is not None else ()
    return Survivors(tuple(kept), tuple(sorted(losses, key=_NUMBER)), stranded=stranded)


def _surroundings(pool: PoolRecord, planned: Planned | None, roll: Roll) -> Surroundings:
    """What claims about replicas of this pool look at; without a valid plan, starts take no time and have no limit."""
    reader, seen = _reader_of(pool.status.engine), roll.observations.get(pool.key.uid)
    if planned is None:
        return Surroundings(roll.now, roll.nodes, roll.away_since, reader, 0, seen)
    start, limit = (pool.status.start_up or planned.start_up).in_use, planned.spec.rollout.start_timeout_seconds
    return Surroundings(roll.now, roll.nodes, roll.away_since, reader, start, seen, limit)


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
