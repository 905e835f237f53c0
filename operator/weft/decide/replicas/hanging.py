"""Replicas whose engines hang: of several that all do, one is started anew first (ADR 0123)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.replicas.health import UNRESPONSIVE_SECONDS
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.decide.replicas.health import AssignedReplica, Loss, Surroundings
    from weft.decide.replicas.silence import Judging


def tried_first(replica: AssignedReplica, loss: Loss | None, judging: Judging, around: Surroundings) -> Loss | None:
    """The loss, unless nothing of the pool answers and another replica is to show first whether a start helps.

    What stops all at once may be their network, and engines that run on answer as soon as that is back. A start that
    takes far longer than it should shows nothing any more: its pods may be refused, or held for ever.
    """
    if loss is None or loss.explanation.reason is not Reason.EngineUnresponsive:
        return loss
    if any(each.ready for each in judging.replicas):
        return loss
    hanging = [each.assignment.replica for each in judging.replicas if each.hangs]
    began = around.heard - around.start_seconds - UNRESPONSIVE_SECONDS
    starts = any(not each.hangs and each.assignment.since > began for each in judging.replicas)
    return loss if not starts and replica.assignment.replica == min(hanging) else None
