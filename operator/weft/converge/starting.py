"""Starting replicas: all pods are created with a scheduling gate, and released together."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from weft.converge.domains import compute_domain_for
from weft.domain.action import ApplyObject, CreatePod, ReleasePods
from weft.placement import domain_lost, leaves_domain, slot_is_still_free
from weft.render import domain_name_of, render_compute_domain, render_pods, revision_asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.converge.objects import ObjectsAround
    from weft.converge.replicas import Replica
    from weft.domain.action import Action
    from weft.domain.fabric import Fabric
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import Assignment

PODS_AT_A_TIME = 64  # a second or two of writing


def create_missing(pool: PoolRecord, replicas: Iterable[Replica], around: ObjectsAround) -> Iterator[Action]:
    """Create the pods that assigned replicas still lack, and the ComputeDomain of each replica before its pods.

    Raises `Invalid` for a spec from which no pods can be rendered. Some replicas at a time, and never a part of one:
    those that are there are noted and released meanwhile, and the events of their pods bring the next pass. A replica
    that lost a pod is never repaired. Nor is one completed that was assigned for another revision: its pods would carry
    that revision's label and this one's content.
    """
    current, created = revision_asked(pool), 0
    if current is None:
        return
    for replica in replicas:
        assignment = replica.assignment
        if assignment is None or replica.broken or replica.complete or assignment.revision != current:
            continue
        domain = compute_domain_for(pool, assignment, around)
        if assignment.shared_domain and (domain is None or domain.terminating):
            continue  # its split creates it for both halves; claims made for one that is being deleted fit no other
        there = {pod.rank for pod in replica.pods}
        missing = [body for rank, body in enumerate(render_pods(pool, assignment)) if rank not in there]
        if created and created + len(missing) > PODS_AT_A_TIME:
            return
        created += len(missing)
        if assignment.compute_domain is not None and domain is None:
            yield ApplyObject(render_compute_domain(pool, replica.number))
        yield from (CreatePod(body) for body in missing)


def release_whole(
    pool: PoolRecord, replicas: Sequence[Replica], fabric: Fabric, around: ObjectsAround
) -> Iterator[Action]:
    """Remove the gates of replicas whose pods all exist and whose slot is still free, inside one NVLink domain.

    The status has to note first that all exist: should the released pods vanish without a trace, the note tells that
    the replica is not to be created again, but to be replaced. GPUs that released pods of this pool wait for are not
    free, though no node counts them yet.
    """
    waiting = Counter(_awaited(replicas))
    for replica in replicas:
        gated = tuple(pod for pod in replica.pods if pod.gated)
        if replica.assignment is None or not replica.complete or replica.broken or not gated:
            continue
        own = Counter(_awaited([replica]))
        if waits_for_domain(pool, replica, fabric, around) is not None:
            continue
        free = slot_is_still_free(replica.assignment, fabric, waiting - own, replica.assignment.bound(replica.pods))
        if free and not _spans_domains(pool, replica.assignment, fabric):
            yield ReleasePods(gated[0].namespace, tuple((pod.name, pod.uid) for pod in gated))
            waiting.update(dict.fromkeys(replica.assignment.nodes, replica.assignment.gpus_per_pod))


def _spans_domains(pool: PoolRecord, assignment: Assignment, fabric: Fabric) -> bool:
    """Whether labels that changed since the decision spread it over NVLink domains; False for an unknown shape.

    The shape is known for the current revision only.
    """
    plan = pool.status.plan
    return (
        plan is not None
        and assignment.revision == pool.status.revision
        and leaves_domain(assignment, plan.shape, fabric)
    )


def waits_for_domain(pool: PoolRecord, replica: Replica, fabric: Fabric, around: ObjectsAround) -> str | None:
    """Why the ComputeDomain of a replica cannot take its nodes yet; None where it can, or the replica has none."""
    if replica.assignment is None or replica.assignment.compute_domain is None:
        return None
    record = compute_domain_for(pool, replica.assignment, around)
    if record is None or record.terminating:
        return f"replica {replica.number} waits for its ComputeDomain"
    own = f"{pool.key.namespace}/{domain_name_of(pool.key, replica.assignment)}".__eq__
    lost = domain_lost(replica.assignment, fabric, own, replica.assignment.bound(replica.pods))
    return f"replica {replica.number} waits: {lost.message}" if lost is not None else None


def _awaited(replicas: Iterable[Replica]) -> Mapping[str, int]:
    """GPUs by node that released but unbound pods wait for, where Weft picked the node."""
    awaited: Counter[str] = Counter()
    for replica in replicas:
        if replica.assignment is None or replica.assignment.handover is not None:
            continue
        for node in _nodes_awaited(replica, replica.assignment):
            awaited[node] += replica.assignment.gpus_per_pod
    return awaited


def _nodes_awaited(replica: Replica, assignment: Assignment) -> list[str]:
    """Nodes where released pods will be bound; if labels do not tell ranks, every node without a pod of the replica.

    Anybody may edit the label of a rank.
    """
    waiting = [pod for pod in replica.live if not pod.gated and pod.node is None and not pod.ended]
    places, ranks = dict(enumerate(assignment.nodes)), {pod.rank for pod in replica.pods}
    if len(ranks) == len(replica.pods) and ranks <= places.keys():
        return [places[pod.rank] for pod in waiting]
    bound = assignment.bound(replica.pods)
    return [node for rank, node in places.items() if rank not in bound] if waiting else []
