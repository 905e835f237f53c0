"""Decode replicas that keep failing to fetch KV, and prefill replicas from which nobody can fetch it.

vLLM caches its handshake with a prefill engine: after a break most releases never repeat it (ADR 0060 says which),
every transfer between the two fails at once, and decode computes such prompts itself. The signal is failed transfers
(`nixl_num_failed_transfers`), which engines count per rank and for all prefill engines together. So no metric names the
two that are cut off; only siblings that fetch show that the prefill engines, and most of the network, are healthy.
Where no sibling does better, the prefill engine at fault shows itself: KV that nobody fetched within its lease expires
and is counted (`nixl_num_kv_expired_reqs`), once for each rank (ADR 0067).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.scaling.reading import is_sane

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.domain.snapshot import PodObservation

# Of the transfers: fewer failures are not worth a restart, with fifty prefill replicas or more.
LEAST_FAILED = 0.02
# Of the prompts of a prefill replica: KV of clients that disconnect expires, too, and not evenly over replicas.
LEAST_UNFETCHED = 0.5
MOST_OF_SIBLINGS = 0.1  # of that share may fail at a healthy sibling
# Failures that a sibling would have at the same share: with fewer expected, it may look healthy by chance.
ENOUGH_EXPECTED = 3.0
MOST_CUT_OFF = 0.5  # of the replicas that fetch: if more fail, they have a common cause


def failing(pods: Mapping[int, PodObservation]) -> dict[int, tuple[Reason, float]]:
    """Decode replicas whose KV transfers fail, with the failing share; the reason tells whether siblings do better."""
    bad, alone = _bad_and_alone(pods, LEAST_FAILED)
    return {
        replica: (Reason.CutOffFromPrefill if replica in alone else Reason.TransfersFail, share)
        for replica, share in bad.items()
    }


def unreached(pods: Mapping[int, PodObservation]) -> dict[int, tuple[Reason, float]]:
    """Prefill replicas whose KV nobody can fetch while siblings do better, with the reason and the expired share."""
    bad, alone = _bad_and_alone(pods, LEAST_UNFETCHED)
    return {replica: (Reason.CutOffFromDecode, share) for replica, share in bad.items() if replica in alone}


def may_be_unreached(pod: PodObservation) -> bool:
    """Whether enough of its KV expired that decode may not reach it, however many ranks counted each expiry."""
    every, expired = pod.requests_done, pod.kv_expired
    return bool(every) and is_sane(every) and is_sane(expired) and expired >= LEAST_UNFETCHED * every


def all_fail(pods: Mapping[int, PodObservation]) -> bool | None:
    """Whether decode replicas fail to fetch KV and none of them is to blame; None where that is unknown."""
    found = failing(pods)
    if not found:
        return None if any(_ended(pod) is None for pod in pods.values()) or not pods else False
    fetching = sum(failed_share(pod) is not None for pod in pods.values())
    alike = sum(why is Reason.TransfersFail for why, _ in found.values())
    return True if alike == len(found) and alike > MOST_CUT_OFF * fetching else None


def as_handed_over(pod: PodObservation, ranks: int, *, fail: bool | None) -> PodObservation:
    """A prefill replica's observation with KV that decode failed to fetch as its failed transfers, one for each prompt.

    Where decode fetches all it needs, expired KV belongs to clients that disconnected. `fail` is the answer of
    `all_fail`.
    """
    every, expired = pod.requests_done, pod.kv_expired
    if fail is None or not is_sane(every) or not is_sane(expired):
        return replace(pod, transfers_done=None, transfers_failed=None)
    failed = min(every, expired / ranks) if fail else 0.0
    return replace(pod, transfers_done=every - failed, transfers_failed=failed)


def _bad_and_alone(pods: Mapping[int, PodObservation], least: float) -> tuple[dict[int, float], frozenset[int]]:
    """Replicas of which at least such a share fails, with that share; and those of them whose siblings do better."""
    shares = {replica: share for replica, pod in pods.items() if (share := failed_share(pod)) is not None}
    bad = {replica: share for replica, share in shares.items() if share >= least}
    well_beside = min(map(_fetches_well_beside, pods.values()), default=math.inf)
    alone = frozenset(replica for replica, share in bad.items() if share >= well_beside)
    return bad, alone if len(alone) <= MOST_CUT_OFF * len(shares) else frozenset()


def failed_share(pod: PodObservation) -> float | None:
    """The share of a replica's KV transfers that failed; None where it reports none."""
    ended = _ended(pod)
    return None if ended is None or not ended[1] else ended[0] / ended[1]


def fetches_well(pod: PodObservation, share: float) -> bool:
    """Whether far fewer of a replica's transfers fail than this share, out of enough to rule out chance."""
    return share >= _fetches_well_beside(pod)


def _fetches_well_beside(pod: PodObservation) -> float:
    """The smallest share compared with which `fetches_well` holds for this replica."""
    ended = _ended(pod)
    if ended is None or not ended[1]:
        return math.inf
    failed, every = ended
    return max(ENOUGH_EXPECTED / every, failed / (MOST_OF_SIBLINGS * every))


def _ended(pod: PodObservation) -> tuple[float, float] | None:
    """(failed transfers, all finished transfers); None where a pod does not report them."""
    done, failed = pod.transfers_done, pod.transfers_failed
    return (failed, done + failed) if is_sane(done) and is_sane(failed) else None
