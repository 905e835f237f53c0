"""Decode replicas that keep failing to fetch KV, and prefill replicas from which nobody can fetch it.

vLLM keeps what it once shook hands about with a prefill engine: after a break most releases never do so again (ADR 0060
says which), every transfer between the two fails at once, and decode computes such prompts itself. What counts is
transfers that failed (`nixl_num_failed_transfers`), which engines count by rank and for all prefill engines together.
So nobody tells which two are cut off; only siblings that fetch tell that prefill engines, and most of the network, are
well. Where no sibling does better, a prefill engine tells that it is the one: KV that nobody fetched within its lease
expires and is counted (`nixl_num_kv_expired_reqs`), once for each rank (ADR 0067).
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

# Of the transfers: less is no loss that a start would be worth, with fifty prefill replicas or more.
LEAST_FAILED = 0.02
# Of the prompts of a prefill replica: KV of clients that go away expires, too, and not at every replica alike.
LEAST_UNFETCHED = 0.5
MOST_OF_SIBLINGS = 0.1  # of that share may fail at a sibling that is well
# At a sibling, if as large a part of its transfers failed: with fewer it may be well by chance.
ENOUGH_EXPECTED = 3.0
MOST_CUT_OFF = 0.5  # of the replicas that fetch: more than that have something else in common


def failing(pods: Mapping[int, PodObservation]) -> dict[int, tuple[Reason, float]]:
    """Decode replicas whose KV transfers fail: which part of them, and as the reason whether siblings do better."""
    bad, alone = _bad_and_alone(pods, LEAST_FAILED)
    return {
        replica: (Reason.CutOffFromPrefill if replica in alone else Reason.TransfersFail, share)
        for replica, share in bad.items()
    }


def unreached(pods: Mapping[int, PodObservation]) -> dict[int, tuple[Reason, float]]:
    """Prefill replicas whose KV nobody can fetch while siblings do better: which part of it, with the reason."""
    bad, alone = _bad_and_alone(pods, LEAST_UNFETCHED)
    return {replica: (Reason.CutOffFromDecode, share) for replica, share in bad.items() if replica in alone}


def may_be_unreached(pod: PodObservation) -> bool:
    """Whether so much of its KV expired that this may be so, by however many ranks it was counted."""
    every, expired = pod.requests_done, pod.kv_expired
    return bool(every) and is_sane(every) and is_sane(expired) and expired >= LEAST_UNFETCHED * every


def all_fail(pods: Mapping[int, PodObservation]) -> bool | None:
    """Whether decode replicas fail to fetch KV and none of them is to blame; None where nobody can tell."""
    found = failing(pods)
    if not found:
        return None if any(_ended(pod) is None for pod in pods.values()) or not pods else False
    fetching = sum(failed_share(pod) is not None for pod in pods.values())
    alike = sum(why is Reason.TransfersFail for why, _ in found.values())
    return True if alike == len(found) and alike > MOST_CUT_OFF * fetching else None


def as_handed_over(pod: PodObservation, ranks: int, *, fail: bool | None) -> PodObservation:
    """A prefill replica with what decode failed to fetch of its KV as its failed transfers, one for each prompt.

    Where decode fetches what it wants, KV that expired is of clients that went away. `fail` is as `all_fail` says.
    """
    every, expired = pod.requests_done, pod.kv_expired
    if fail is None or not is_sane(every) or not is_sane(expired):
        return replace(pod, transfers_done=None, transfers_failed=None)
    failed = min(every, expired / ranks) if fail else 0.0
    return replace(pod, transfers_done=every - failed, transfers_failed=failed)


def _bad_and_alone(pods: Mapping[int, PodObservation], least: float) -> tuple[dict[int, float], frozenset[int]]:
    """The share that fails, of replicas of which so much does; and which of these have siblings that do better."""
    shares = {replica: share for replica, pod in pods.items() if (share := failed_share(pod)) is not None}
    bad = {replica: share for replica, share in shares.items() if share >= least}
    well_beside = min(map(_fetches_well_beside, pods.values()), default=math.inf)
    alone = frozenset(replica for replica, share in bad.items() if share >= well_beside)
    return bad, alone if len(alone) <= MOST_CUT_OFF * len(shares) else frozenset()


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
