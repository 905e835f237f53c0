"""The roll of a pass: replicas of all pools as their pods, their scheduler and their ComputeDomains tell."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weft.decide.replicas.health import AssignedReplica
from weft.decide.replicas.machines import Machines
from weft.decide.replicas.promises import domain_name
from weft.decide.replicas.standing import Standing, standing_of
from weft.domain.crews import crews_of
from weft.render import domain_owner_of, replica_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.cluster import PodRecord
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.queueing import AdmissionRecord, Queueing
    from weft.domain.reports import Reports
    from weft.domain.snapshot import PoolObservation, PoolRecord, ResourceKey, Snapshot
    from weft.domain.status import Assignment


@dataclass(frozen=True, slots=True)
class Roll:
    """Pods of replicas, their machines and queues, looked up many times in one pass."""

    now: float
    heard: float  # until when its pods and machines are known to be true
    machines: Machines
    pods: Mapping[str, tuple[PodRecord, ...]]  # by pool UID, in the order of the snapshot
    queueing: Queueing | None
    domains: Mapping[str, str | None] | None  # ComputeDomains that stay, with owner's UID; None: nobody can tell
    observations: Mapping[str, PoolObservation]  # by pool UID
    pools: tuple[PoolRecord, ...]  # everyone's
    standings: dict[str, Standing] = field(default_factory=dict, compare=False)  # of those asked for in this pass

    @classmethod
    def of(cls, snapshot: Snapshot) -> Roll:
        """Index a snapshot once."""
        return cls(
            now=snapshot.now,
            heard=snapshot.heard,
            machines=Machines.of(snapshot),
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
        if not found.depends and self.machines.silent.isdisjoint(found.nodes):
            return found.replicas
        return tuple(self._surrounded(pool, each) for each in found.replicas)

    def are_sound(self, pool: PoolRecord) -> bool:
        """Whether all replicas of a pool run as they should, on nodes that exist and answer."""
        found = self.standing(pool)
        return found.sound and self.machines.carry(found.nodes)

    def is_sound(self, pool: PoolRecord, replica: AssignedReplica) -> bool:
        """Whether one replica runs as it should, on nodes that exist and answer, while others may start or leave."""
        return replica.assignment.replica in self.standing(pool).firm and self.machines.carry(frozenset(replica.nodes))

    def are_reached(self, pools: Iterable[PoolRecord]) -> bool:
        """Whether no node with replicas of these pools is silent."""
        return all(self.machines.silent.isdisjoint(self.standing(pool).nodes) for pool in pools)

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
        return replace(found, reachable=self.machines.silent.isdisjoint(found.nodes))

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

    def with_nodes_away(self, memory: ScaleMemory, pool_uid: str, assignments: Iterable[Assignment]) -> ScaleMemory:
        """The memory of a pool, with the nodes that carry its replicas and are silent or gone."""
        machines, before = self.machines, self.standings.get(pool_uid)
        are_there = not machines.silent and (before is None or machines.nodes.keys() >= before.nodes)
        if are_there and not memory.nodes_away:  # what is new to it is on nodes that are there
            return memory
        used = standing_of(pool_uid, tuple(assignments), self.pods.get(pool_uid, ())).nodes
        away, gone = machines.away(used, self.now), tuple(sorted(machines.gone(used)))
        is_known = (away, gone) == (memory.nodes_away, memory.nodes_gone)
        return memory if is_known else replace(memory, nodes_away=away, nodes_gone=gone)


def _domains(reports: Reports) -> Mapping[str, str | None] | None:
    if not reports.knows_compute_domains:
        return None
    return {str(each): each.owner_uid for each in reports.compute_domains if not each.terminating}
