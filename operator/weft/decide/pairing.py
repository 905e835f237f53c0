"""Which replicas of a new pair serve while a split rolls: as many as the other half has for them.

Generations of a split never talk to each other, so a prefill replica of the new one serves nobody before a decode
replica of it does. As the earlier ones leave only while enough others serve, both halves roll in step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Turn
    from weft.decide.health import Replica


def alone_in(turns: Sequence[Turn]) -> frozenset[tuple[str, int]]:
    """(Pool UID, replica id) of ready replicas of a new pair that have no counterpart yet; nothing but in a rollout.

    Of a half with n desired replicas floor(n m / M) serve while the other has m of M: rounded up, the earlier pair
    would lose a half while the new one is not able to take its load.
    """
    if not any(_is_earlier(each, turn) for turn in turns for each in turn.survivors.replicas):
        return frozenset()
    found: set[tuple[str, int]] = set()
    for turn, other in zip(turns, reversed(turns), strict=True):
        new, matched = _new(turn), len(_new(other))
        most = len(new) if matched >= other.scale.desired else turn.scale.desired * matched // other.scale.desired
        found.update((turn.planned.pool.key.uid, each.assignment.replica) for each in new[most:])
    return frozenset(found)


def _new(turn: Turn) -> list[Replica]:
    return [each for each in turn.survivors.replicas if each.ready and not _is_earlier(each, turn)]


def _is_earlier(replica: Replica, turn: Turn) -> bool:
    """Whether it was rendered for another pair; one without pods will be for this one."""
    return bool(replica.pods) and replica.pods[0].pair != turn.planned.spec.pair
