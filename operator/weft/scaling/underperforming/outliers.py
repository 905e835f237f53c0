"""Which replicas underperform, look by look, and when one of them may be replaced.

Only complete observations count: a missing scrape restarts the clock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.pool_memory import Outlier, Outliers
from weft.domain.reasons import Reason
from weft.domain.workload import Role
from weft.scaling.underperforming.cut_off import (
    LEAST_FAILED,
    LEAST_UNFETCHED,
    failed_share,
    failing,
    fetches_well,
    may_be_unreached,
    unreached,
)
from weft.scaling.underperforming.slowness import recovered, stands_out, times_slower

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from weft.domain.snapshot import PodObservation

# How long a replica has to underperform without a break before it is named. A prefill engine that dies makes transfers
# fail until every decode engine has noticed, and windows of metrics hold those failures for two minutes.
PATIENCE_SECONDS = {
    Reason.SlowerThanSiblings: 180.0,
    Reason.CutOffFromPrefill: 300.0,
    Reason.CutOffFromDecode: 300.0,
    Reason.TransfersFail: 300.0,
}
CUT_OFF = frozenset({Reason.CutOffFromPrefill, Reason.CutOffFromDecode})
REPLACED = CUT_OFF | {Reason.SlowerThanSiblings}  # a replacement would do better
OF_TRANSFERS = CUT_OFF | {Reason.TransfersFail}  # a replica is named for only one of them
_TRANSFERS = {Role.Decode: failing, Role.Prefill: unreached}
LONGEST_GAP_SECONDS = 60.0  # between two looks: what happened in a longer one is unknown
SHORTEST_APART_SECONDS = 3600.0  # between two replacements
# After a cut-off replica was replaced: if its successor or a newer one is cut off, too, replacing does not help.
MENDED_SECONDS = 86_400.0


def worth_a_look(pods: Sequence[PodObservation], role: Role) -> bool:
    """Whether any replica may underperform: a cheap test that is False for nearly every pool."""
    if stands_out(pods, role):
        return True
    if role is Role.Prefill:
        return any(may_be_unreached(pod) for pod in pods)
    return role is Role.Decode and any(pod.transfers_failed for pod in pods)


def watched(
    memory: Outliers | None,
    pods: Mapping[int, PodObservation] | None,
    present: Collection[int],
    role: Role,
    now: float,
) -> Outliers | None:
    """The memory after one more look; `pods` are by replica, None where some of them cannot be observed.

    Transfers of prefill replicas are those that `as_handed_over` computes. `present` are the replicas that exist. None
    where all are well and none was replaced lately.
    """
    before = _up_to(memory or Outliers(now), present, now)
    if pods is None:
        named = tuple(_after_a_break(each) for each in before.named)
        return _or_nothing(replace(before, found=named), now)
    unbroken = 0 <= now - before.seen <= LONGEST_GAP_SECONDS
    known = {(each.replica, each.why): each if unbroken else _after_a_break(each) for each in before.found}
    worse = {(replica, why): times for replica, why, times in _worse(pods, role)}
    found = [_seen(known.get(key), key, pods[key[0]].pod, times, now) for key, times in worse.items()]
    told = {each.replica for each in found if each.named is not None and each.why in OF_TRANSFERS}
    rest = [each for key, each in known.items() if key not in worse and each.named is not None]
    rest = [each for each in rest if each.why not in OF_TRANSFERS or each.replica not in told]
    found += _not_well(rest, pods, role, now)
    ordered = tuple(sorted(found, key=lambda each: (each.replica, each.why)))
    return _or_nothing(replace(before, seen=now, found=ordered), now)


def next_to_go(memory: Outliers | None, now: float) -> Outlier | None:
    """The replica to replace next: the longest outlier, as of this very look; None where none is due."""
    if memory is None or wait_seconds(memory, now) > 0 or memory.seen != now:
        return None
    lack = who_lacks_kv(memory)
    due = [each for each in memory.named if _lasting(each, now) and each.why in REPLACED]
    due = [each for each in due if each.why in CUT_OFF or each.replica not in lack]
    due = [each for each in due if not came_in_vain(memory, each, now)]
    return min(due, key=lambda each: (each.since or now, each.replica), default=None)


def came_in_vain(memory: Outliers, each: Outlier, now: float) -> bool:
    """Whether this replica is cut off although it was started after one that was replaced for that."""
    lately = memory.mended is not None and now - memory.mended < MENDED_SECONDS
    return lately and each.why in CUT_OFF and each.replica >= memory.newer


def who_lacks_kv(memory: Outliers) -> frozenset[int]:
    """Replicas with failing KV transfers: if they are slow, that alone may be the cause."""
    return frozenset(each.replica for each in memory.found if each.why in OF_TRANSFERS)


def wait_seconds(memory: Outliers, now: float) -> float:
    """Seconds until another replica may be replaced."""
    return 0.0 if memory.begun is None else max(0.0, memory.begun + SHORTEST_APART_SECONDS - now)


def wake_after_seconds(memory: Outliers | None, now: float) -> float | None:
    """Seconds until time alone may name a replica or allow a replacement; None where it will not."""
    if memory is None or not memory.found:
        return None
    begun = [(each, since) for each in memory.found for since in (each.since, each.well_since) if since is not None]
    waits = [since + PATIENCE_SECONDS[each.why] - now for each, since in begun]
    waits.append(wait_seconds(memory, now))
    return min((wait for wait in waits if wait > 0), default=None)


def _up_to(memory: Outliers, present: Collection[int], now: float) -> Outliers:
    """The memory without replicas that are gone, and with no time in the future, as after the clock was set back."""
    gone = memory.replaced is None or memory.replaced.replica not in present
    return replace(
        memory,
        found=tuple([each for each in memory.found if each.replica in present]),
        replaced=None if gone else memory.replaced,
        begun=None if memory.begun is None else min(memory.begun, now),
        mended=None if memory.mended is None else min(memory.mended, now),
    )


def _worse(pods: Mapping[int, PodObservation], role: Role) -> Iterator[tuple[int, Reason, float]]:
    """Yield (replica, reason, how much worse) for each replica that underperforms."""
    for replica, times in times_slower(pods, role).items():
        yield replica, Reason.SlowerThanSiblings, times
    if role in _TRANSFERS:
        for replica, (why, share) in _TRANSFERS[role](pods).items():
            yield replica, why, share


def _not_well(
    named: Sequence[Outlier], pods: Mapping[int, PodObservation], role: Role, now: float
) -> Iterator[Outlier]:
    """Yield named replicas that are not seen to have recovered; one that is not observed stays named."""
    fast = recovered(pods, role) if any(each.why is Reason.SlowerThanSiblings for each in named) else frozenset[int]()
    for each in named:
        pod = pods.get(each.replica)
        if each.why is Reason.SlowerThanSiblings:
            after, well = replace(each, since=None), each.replica in fast
        else:
            after = replace(each, since=None, well_since=_well_since(each, pod, now))
            well = pod is not None and (fetches_well(pod, each.worse) or _lastingly_well(after, now))
        if not well:
            yield after


def _well_since(each: Outlier, pod: PodObservation | None, now: float) -> float | None:
    """Since when too few of its transfers fail for it to be named; None where more fail, or it reports none."""
    share = failed_share(pod) if pod is not None else None
    if share is None or share >= (LEAST_UNFETCHED if each.why is Reason.CutOffFromDecode else LEAST_FAILED):
        return None
    return now if each.well_since is None else min(each.well_since, now)


def _lastingly_well(each: Outlier, now: float) -> bool:
    """Whether it has fetched well for as long as naming takes: with little traffic no single window shows enough."""
    return each.well_since is not None and now - each.well_since >= PATIENCE_SECONDS[each.why]


def _after_a_break(each: Outlier) -> Outlier:
    return replace(each, since=None, well_since=None)


def _lasting(each: Outlier, now: float) -> bool:
    """Whether it has underperformed for as long as it takes to be named."""
    return each.since is not None and now - each.since >= PATIENCE_SECONDS[each.why]


def _seen(before: Outlier | None, key: tuple[int, Reason], pod: str, worse: float, now: float) -> Outlier:
    known = before or Outlier(key[0], pod, None, worse, why=key[1])
    since = now if known.since is None else min(known.since, now)
    found = replace(known, worse=worse, since=since, well_since=None)
    return replace(found, named=now) if found.named is None and _lasting(found, now) else found


def _or_nothing(memory: Outliers, now: float) -> Outliers | None:
    lately = memory.mended is not None and now - memory.mended < MENDED_SECONDS
    kept = memory.found or memory.replaced is not None or wait_seconds(memory, now) > 0 or lately
    return memory if kept else None
