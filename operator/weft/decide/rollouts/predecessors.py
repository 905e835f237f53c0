"""Whose end a rollout with `Recreate` waits for: it never runs two revisions at once, as far as that is in its power.

A pod may never end: its kubelet hangs, its node is dead, or somebody's finalizer holds it. Once it is overdue new
replicas come without it. It still holds its GPUs, which so nobody else gets.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from weft.domain.overdue import is_overdue, overdue_in_seconds

if TYPE_CHECKING:
    from weft.decide.course import Turn
    from weft.domain.cluster import PodRecord


def awaited(turn: Turn, now: float) -> tuple[PodRecord, ...]:
    """Pods of another revision that nothing assigns any more and that may still end in time; `now` is epoch seconds."""
    return tuple(pod for pod in turn.predecessors if not is_overdue(pod, now))


def who_is_awaited(turn: Turn, now: float) -> str:
    """Which pod a pool waits for, of several the first that becomes overdue; empty where there is none."""
    pods = sorted(awaited(turn, now), key=lambda pod: (overdue_in_seconds(pod, now), pod.name))
    if not pods:
        return ""
    where = f" on node {pods[0].node}" if pods[0].node is not None else ""
    return f"pod {pods[0].name}{where}{f' (and {len(pods) - 1} more)' if pods[1:] else ''}"


def overdue_first_in_seconds(turn: Turn, now: float) -> float | None:
    """Seconds until the next pod is not waited for any more; None where time alone ends no wait."""
    found = min((overdue_in_seconds(pod, now) for pod in awaited(turn, now)), default=inf)
    return found if found < inf else None
