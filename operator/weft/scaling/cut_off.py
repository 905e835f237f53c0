"""Decode replicas that keep failing to fetch KV.

vLLM keeps what it once shook hands about with a prefill engine: after a break most releases never do so again (ADR 0060
says which), every transfer between the two fails at once, and decode computes such prompts itself. What counts is
transfers that failed (`nixl_num_failed_transfers`), which engines count by rank and for all prefill engines together.
So nobody tells which two are cut off; only siblings that fetch tell that prefill engines, and most of the network, are
well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.scaling.reading import is_sane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.snapshot import PodObservation

LEAST_FAILED = (
    0.02  # of the transfers: less is no loss that a start would be worth, with fifty prefill replicas or more
)
MOST_OF_SIBLINGS = 0.1  # of that share may fail at a sibling that is well
# At a sibling, if as large a part of its transfers failed: with fewer it may be well by chance.
ENOUGH_EXPECTED = 3.0
MOST_CUT_OFF = 0.5  # of the replicas that fetch: more than that have something else in common


def failing(pods: Mapping[int, PodObservation]) -> dict[int, tuple[Reason, float]]:
    """By replica, the part of its KV transfers that failed, and whether siblings do better; of those that fail."""
    shares = {replica: share for replica, pod in pods.items() if (share := failed_share(pod)) is not None}
    bad = {replica: share for replica, share in shares.items() if share >= LEAST_FAILED}
    well_beside = min(map(_fetches_well_beside, pods.values()), default=math.inf)
    alone = {replica for replica, share in bad.items() if share >= well_beside}
    if len(alone) > MOST_CUT_OFF * len(shares):
        alone = set()
    return {
        replica: (Reason.CutOffFromPrefill if replica in alone else Reason.TransfersFail, share)
        for replica, share in bad.items()
    }


def failed_share(pod: PodObservation) -> float | None:
    """Which part of a replica's KV transfers failed; None where it does not tell, or had none."""
    ended = _ended(pod)
    return None if ended is None or not ended[1] else ended[0] / ended[1]


def fetches_well(pod: PodObservation, share: float) -> bool:
    """Whether far fewer transfers fail at a replica than such a share, of enough to tell that from chance."""
    return share >= _fetches_well_beside(pod)


def _fetches_well_beside(pod: PodObservation) -> float:
    """The least share beside which that is so."""
    ended = _ended(pod)
    if ended is None or not ended[1]:
        return math.inf
    failed, every = ended
    return max(ENOUGH_EXPECTED / every, failed / (MOST_OF_SIBLINGS * every))


def _ended(pod: PodObservation) -> tuple[float, float] | None:
    """Transfers that failed, and all that ended."""
    done, failed = pod.transfers_done, pod.transfers_failed
    return (failed, done + failed) if is_sane(done) and is_sane(failed) else None
