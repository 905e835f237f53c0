"""Replicas whose engines hang: of several that all do, one is started anew first (ADR 0123)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.decide.replicas.health import AssignedReplica, Loss
    from weft.decide.replicas.silence import Judging


def tried_first(replica: AssignedReplica, loss: Loss | None, judging: Judging) -> Loss | None:
    """The loss, unless nothing of the pool answers and another replica is to show first whether a start helps.

    What stops all at once may be their network, and engines that run on answer as soon as that is back.
    """
    if loss is None or loss.explanation.reason is not Reason.EngineUnresponsive:
        return loss
    if any(each.ready for each in judging.replicas):
        return loss
    first = min(each.assignment.replica for each in judging.replicas)
    all_hang = all(each.hangs for each in judging.replicas)
    return loss if all_hang and replica.assignment.replica == first else None
