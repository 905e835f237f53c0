"""Labels of engine pods that somebody edited, put back: fronts, Services and budgets find pods by them alone.

A pod's name tells whose it is, so that nothing else depends on labels. Somebody who edits them again and again is
answered once a minute for each pod, so that no fight begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Self

from weft.domain import labels
from weft.domain.action import LabelPod

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.converge.replicas import Replica
    from weft.domain.cluster import PodRecord

AGAIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Relabelling:
    """What is put back now, and after how many seconds the next pod has its turn; infinite where none waits."""

    actions: tuple[LabelPod, ...]
    changes_after_seconds: float

    @classmethod
    def of(cls, replicas: Iterable[Replica], now: float) -> Self:
        """What to put back on replicas that stay; those that leave, or lost a pod, left their front on purpose."""
        staying = (each for each in replicas if each.assignment is not None and not each.broken)
        edited = [(pod, lacking) for each in staying for pod in each.live if (lacking := tuple(_lacking(pod)))]
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


def _waits(pod: PodRecord, now: float) -> float:
    """Seconds until its labels may be put back again; none where the clock was set back."""
    passed = now - pod.relabelled if pod.relabelled is not None else inf
    return AGAIN_SECONDS - passed if 0 <= passed < AGAIN_SECONDS else 0.0
