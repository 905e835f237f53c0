"""How the replicas of one pool stand, as far as their pods alone tell: from pass to pass most stand as they stood."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from weft.decide.replicas.health import AssignedReplica
from weft.domain.cluster import PodPhase
from weft.domain.values.made_often import made_often
from weft.domain.values.remembered import LastAnswers

if TYPE_CHECKING:
    from weft.domain.cluster import PodRecord
    from weft.domain.status import Assignment

    _Question = tuple[tuple[Assignment, ...], tuple[PodRecord, ...]]

REMEMBERED = 16_384  # pools


@made_often
@dataclass(frozen=True, slots=True)
class Standing:
    """Replicas by id with their pods, as if all nodes answered; `pods` are all of the pool, in order of replica.

    `sound` says that every replica has all its pods, and each of these runs on its node and is to stay there: nothing
    can be amiss but the node; `firm` are the ids of those of which that holds. `ready` says that all of them serve;
    `ids`, `revisions` and `nodes` are of all replicas.
    """

    replicas: tuple[AssignedReplica, ...]
    pods: tuple[PodRecord, ...]
    firm: frozenset[int]
    sound: bool
    ready: bool
    depends: bool  # whether any is handed over or has a ComputeDomain, so that its pods alone do not tell
    strays: int  # pods of no replica
    ids: tuple[int, ...]
    revisions: frozenset[str]
    widths: frozenset[tuple[str, int]]  # revisions, with how many pods a replica of them has
    nodes: frozenset[str]


_LAST: LastAnswers[_Question, Standing] = LastAnswers(REMEMBERED)
_NOBODY = Standing(
    (),
    (),
    frozenset(),
    sound=True,
    ready=True,
    depends=False,
    strays=0,
    ids=(),
    revisions=frozenset(),
    widths=frozenset(),
    nodes=frozenset(),
)


def standing_of(pool_uid: str, assignments: tuple[Assignment, ...], pods: tuple[PodRecord, ...]) -> Standing:
    """The standing of one pool."""
    before = _LAST.last(pool_uid)
    return _LAST.ask(pool_uid, (assignments, pods), lambda question: _standing(question, before or _NOBODY))


def _standing(question: _Question, before: Standing) -> Standing:
    """How replicas stand; those that are as they were `before`, as most are when some came or left, stand as then."""
    assignments, pods = question
    by_replica = _by_replica(pods)
    ordered = sorted(assignments, key=attrgetter("replica"))
    replicas = tuple(_replica(each, by_replica.get(each.replica, ())) for each in ordered)
    known = {each.assignment.replica: each for each in before.replicas}
    same = {number for each in replicas if known.get(number := each.assignment.replica) == each}
    firm = same & before.firm | {each.assignment.replica for each in _others(replicas, same) if _is_sound(each)}
    unready = (each for each in (_others(replicas, same) if before.ready else replicas) if not each.ready)
    return Standing(
        replicas,
        tuple(pod for together in by_replica.values() for pod in together),
        firm=frozenset(firm),
        sound=len(firm) == len(replicas),
        ready=next(unready, None) is None,
        depends=any(_depends(each) for each in assignments),
        strays=len(pods) - sum(len(each.pods) for each in replicas),
        ids=tuple(each.assignment.replica for each in replicas),
        revisions=frozenset(each.revision for each in assignments),
        widths=frozenset((each.revision, each.pods) for each in assignments),
        nodes=frozenset(name for each in replicas for name in each.nodes),
    )


def _others(replicas: tuple[AssignedReplica, ...], known: set[int]) -> list[AssignedReplica]:
    return [each for each in replicas if each.assignment.replica not in known]


def _by_replica(pods: tuple[PodRecord, ...]) -> dict[int, tuple[PodRecord, ...]]:
    """Pods by replica, those of one in order of rank."""
    ours = sorted((pod.identity.replica, pod.identity.rank, at) for at, pod in enumerate(pods) if pod.identity)
    found: dict[int, list[PodRecord]] = {}
    for replica, _, at in ours:
        found.setdefault(replica, []).append(pods[at])
    return {replica: tuple(together) for replica, together in found.items()}


def _replica(assignment: Assignment, pods: tuple[PodRecord, ...]) -> AssignedReplica:
    """A replica; its assignment is complete once all its pods exist, unless it also needs a ComputeDomain."""
    if len(pods) == assignment.pods and not assignment.complete and assignment.compute_domain is None:
        assignment = replace(assignment, complete=True)
    return AssignedReplica(assignment, pods)


def _is_sound(replica: AssignedReplica) -> bool:
    """Whether no claim of `health.py` about its pods holds, and no promise is left to keep."""
    every = replica.bound == frozenset(range(replica.assignment.pods))
    return not _depends(replica.assignment) and replica.whole and every and all(map(_stays, replica.pods))


def _depends(assignment: Assignment) -> bool:
    return assignment.handover is not None or assignment.compute_domain is not None


def _stays(pod: PodRecord) -> bool:
    held = pod.gated or pod.queued or pod.terminating
    told = pod.failure is not None or pod.stopped is not None or pod.unready is not None
    return pod.phase is PodPhase.Running and not held and not told
