"""Labels of engine pods that somebody edited, put back: fronts, Services and budgets find pods by them alone.

A pod's name tells whose it is, and the assignment which revision, so that nothing else depends on these labels. What
else a pod is labelled with follows from its revision as long as that is the one that the spec asks for: of an earlier
one nobody knows it any more. Somebody who edits labels again and again is answered once a minute for each pod, so that
no fight begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Self

from weft.domain import labels
from weft.domain.action import LabelPod
from weft.render import revision_asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.converge.replicas import Replica
    from weft.domain.cluster import PodRecord
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import Assignment

AGAIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Relabelling:
    """What is put back now, and after how many seconds the next pod has its turn; infinite where none waits."""

    actions: tuple[LabelPod, ...]
    changes_after_seconds: float

    @classmethod
    def of(cls, pool: PoolRecord, replicas: Iterable[Replica], now: float) -> Self:
        """What to put back on replicas that stay; those that leave, or lost a pod, left their front on purpose."""
        asked = revision_asked(pool)
        staying = ((each, each.assignment) for each in replicas if each.assignment is not None and not each.broken)
        edited = [
            (pod, lacking)
            for each, assignment in staying
            for pod in each.live
            if (lacking := (*_lacking(pod), *_of_its_revision(pod, assignment, pool, asked)))
        ]
        due = [
            LabelPod(pod.namespace, pod.name, pod.uid, lacking, now) for pod, lacking in edited if _waits(pod, now) <= 0
        ]
        waits = [seconds for pod, _ in edited if (seconds := _waits(pod, now)) > 0]
        return cls(tuple(due), min(waits, default=inf))


def _lacking(pod: PodRecord) -> Iterator[tuple[str, str]]:
    """Labels that a pod should have and lacks; a pod that Weft took out of its front stays out of it.

    On other pods than the first, only the routing label itself tells whether they take requests, so it is not put back.
    """
    yield from pod.mislabelled
    first = pod.identity is not None and pod.identity.rank == 0
    if first and pod.api_servers and not pod.routed and pod.unrouted is None:
        yield labels.ROUTED, "true"


def _of_its_revision(
    pod: PodRecord, assignment: Assignment, pool: PoolRecord, asked: str | None
) -> Iterator[tuple[str, str]]:
    """Labels of a pod that follow from the revision that its replica was assigned for; `asked` is that of the spec."""
    if pod.identity is not None and pod.identity.revision != assignment.revision:
        yield labels.REVISION, assignment.revision
    spec = pool.spec
    if spec is None or assignment.revision != asked:
        return
    if spec.pair and pod.pair != spec.pair:
        yield labels.PAIR, spec.pair
    if spec.has_sidecar and pool.split_uid is not None and pod.split_uid != pool.split_uid:
        yield labels.SPLIT_UID, pool.split_uid


def _waits(pod: PodRecord, now: float) -> float:
    """Seconds until its labels may be put back again; none where the clock was set back."""
    passed = now - pod.relabelled if pod.relabelled is not None else inf
    return AGAIN_SECONDS - passed if 0 <= passed < AGAIN_SECONDS else 0.0
