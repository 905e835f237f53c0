"""Follows decisions forward without a cluster, until nothing changes any more. Pure.

Between two decisions everything goes well: pods of new replicas start where they were assigned and become ready, and
pods of replicas without an assignment vanish; so do their ComputeDomains. Where another scheduler picks nodes, pods
become ready without a node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.decide import as_decided, decide
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.labels import COMPUTE_DOMAIN
from weft.domain.reasons import Reason
from weft.domain.reports import ComputeDomainReport
from weft.fabric import build_fabric
from weft.render import domain_name_of, domain_owner_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weft.catalog import Catalog
    from weft.domain.cluster import NodeRecord
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import PoolRecord, ResourceKey, Snapshot
    from weft.domain.status import Assignment, PoolStatus

TURN_SECONDS = 60.0  # long enough that no replica is young any more, and that back-offs end
MOST_TURNS = 400  # enough for a rollout of so many replicas, one at a time


@dataclass(frozen=True, slots=True)
class AssignmentChange:
    """An assignment that a replica gets (`starts`) or loses in one turn; turns count from 1."""

    turn: int
    pool: ResourceKey
    assignment: Assignment
    starts: bool


@dataclass(frozen=True, slots=True)
class Followed:
    """The snapshot at rest, the last decision, and all changes on the way.

    `rests` is False where something still changed after `MOST_TURNS`.
    """

    snapshot: Snapshot
    decisions: Decisions
    changes: tuple[AssignmentChange, ...]
    rests: bool


def follow(snapshot: Snapshot, catalog: Catalog) -> Followed:
    """Decide, apply the decision, and decide again, until a whole turn changes no assignment and no pod."""
    fabric = build_fabric(snapshot.nodes, snapshot.pods, catalog, snapshot.reports)
    resources = {name: node.resource for name, node in fabric.nodes().items()}
    changes: list[AssignmentChange] = []
    decisions = decide(snapshot, catalog)
    for turn in range(1, MOST_TURNS + 1):
        statuses = {each.key.uid: each.status for each in decisions.pools}
        changed = list(_changes(turn, snapshot.pools, statuses))
        following = _a_turn_later(snapshot, decisions, resources)
        if not changed and following.pods == snapshot.pods and not _waits(decisions):
            return Followed(snapshot, decisions, tuple(changes), rests=True)
        changes += changed
        snapshot, decisions = following, decide(following, catalog)
    return Followed(snapshot, decisions, tuple(changes), rests=False)


def _waits(decisions: Decisions) -> bool:
    """Whether a pool only waits for time to pass."""
    reasons = {each.explanation.reason for decision in decisions.pools for each in decision.conditions}
    return Reason.BackingOff in reasons


def _changes(
    turn: int, pools: tuple[PoolRecord, ...], statuses: Mapping[str, PoolStatus]
) -> Iterator[AssignmentChange]:
    for pool in pools:
        after = statuses.get(pool.key.uid)
        if after is None:
            continue
        old = {each.replica: each for each in pool.status.assignments}
        new = {each.replica: each for each in after.assignments}
        yield from (
            AssignmentChange(turn, pool.key, each, starts=False) for name, each in old.items() if name not in new
        )
        yield from (
            AssignmentChange(turn, pool.key, each, starts=True) for name, each in new.items() if name not in old
        )


def _a_turn_later(snapshot: Snapshot, decisions: Decisions, resources: Mapping[str, str]) -> Snapshot:
    decided = as_decided(snapshot, decisions)
    pods = (*_remaining(snapshot, decided.pools), *_new(snapshot, decided.pools, resources))
    return _with_compute_domains(replace(decided, now=snapshot.now + TURN_SECONDS, pods=pods))


def _with_compute_domains(snapshot: Snapshot) -> Snapshot:
    """Give assigned replicas their ComputeDomains and keep those of others; the rest go, with their labels on nodes."""
    reports, pools = snapshot.reports, snapshot.pools
    owners = {uid for pool in pools for uid in (pool.key.uid, pool.split_uid)} - {None}
    wanted = {
        (pool.key.namespace, domain_name_of(pool.key, each)): domain_owner_of(pool, each)
        for pool in snapshot.pools
        for each in pool.status.assignments
        if each.compute_domain is not None
    }
    known = {(each.namespace, each.name): each for each in reports.compute_domains}
    gone = {each.uid for name, each in known.items() if each.owner_uid in owners and name not in wanted}
    kept = tuple(each for each in reports.compute_domains if each.uid not in gone)
    new = (ComputeDomainReport(*name, (), "/".join(name), uid) for name, uid in wanted.items() if name not in known)
    nodes = tuple(_without_label(node, gone) if gone else node for node in snapshot.nodes)
    return replace(snapshot, nodes=nodes, reports=replace(reports, compute_domains=(*kept, *new)))


def _without_label(node: NodeRecord, gone: set[str]) -> NodeRecord:
    if node.label(COMPUTE_DOMAIN) not in gone:
        return node
    return replace(node, labels=tuple(pair for pair in node.labels if pair[0] != COMPUTE_DOMAIN))


def _remaining(snapshot: Snapshot, pools: tuple[PoolRecord, ...]) -> Iterator[PodRecord]:
    """Yield the pods of others, and those of assigned replicas, ready on their nodes."""
    places = {(pool.key.uid, each.replica): each for pool in pools for each in pool.status.assignments}
    known = {pool.key.uid for pool in pools}
    for pod in snapshot.pods:
        who = pod.identity
        if who is None or who.pool_uid not in known:
            yield pod
        elif (place := places.get((who.pool_uid, who.replica))) is not None:
            yield _ready(pod, _node(place, who.rank) or pod.node)


def _new(snapshot: Snapshot, pools: tuple[PoolRecord, ...], resources: Mapping[str, str]) -> Iterator[PodRecord]:
    there = {
        (pod.identity.pool_uid, pod.identity.replica, pod.identity.rank)
        for pod in snapshot.pods
        if pod.identity is not None
    }
    for pool in pools:
        for each in pool.status.assignments:
            for rank in range(each.pods):
                if (pool.key.uid, each.replica, rank) not in there:
                    yield _pod(pool, each, rank, resources, snapshot.now)


def _pod(pool: PoolRecord, place: Assignment, rank: int, resources: Mapping[str, str], now: float) -> PodRecord:
    node, name = _node(place, rank), f"{pool.key.name}-{place.replica}-{rank}"
    requests = ((resources[node], place.gpus_per_pod),) if node is not None and node in resources else ()
    identity = PodIdentity(pool.key.uid, place.replica, rank, place.revision)
    pod = PodRecord(pool.key.namespace, name, f"{pool.key.uid}-{name}", PodPhase.Running, node, requests, identity)
    return _ready(replace(pod, routed=True, created=now, released=now), node)


def _ready(pod: PodRecord, node: str | None) -> PodRecord:
    if pod.serves and pod.node == node:
        return pod
    return replace(
        pod,
        phase=PodPhase.Running,
        node=node,
        ready=True,
        gated=False,
        queued=False,
        terminating=False,
        failure=None,
        message="",
    )


def _node(place: Assignment, rank: int) -> str | None:
    """Return the node that a pod was assigned; None where another scheduler picks it."""
    return place.nodes[rank] if rank < len(place.nodes) else None
